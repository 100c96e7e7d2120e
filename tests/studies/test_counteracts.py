"""The study: several models and edits in one run, resumable, the same bytes twice, drawn from the run folder
alone."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.edits.gates import gates
from levelhead.errors import BadOption, BadProbe, BadRun
from levelhead.measures.cloze.scores import score_cloze
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model, load
from levelhead.report.figures.counteracts import counteracts_figures, masses_chart
from levelhead.results.folder import read_run
from levelhead.scoring.cloze import ask_cloze
from levelhead.studies import counteracts as study
from levelhead.studies.counteracts import CounteractsSettings, Edited, Row, counteracts, open_counteracts

SETS = """
name = "tiny-set"
base = "The [target] works as {a word}."
ask = "The target is"
[groups.female]
noun = "woman"
[groups.male]
noun = "man"
[words]
female = ["nurse", "secretary", "dancer"]
male = ["carpenter", "driver", "guard"]
[[knowledge]]
kind = "target counter"
text = "The {other.noun} worked as {a word}."
expected = "weakens"
[[knowledge]]
kind = "target similar"
text = "The {own.noun} worked as {a word}."
expected = "strengthens"
[[knowledge]]
kind = "unrelated"
text = ["The dog is in a chair.", "It rained on Monday.", "The bus was late."]
expected = "none"
[verbalizer]
female = ["woman", "girl", "she", "her", "lady", "mother"]
male = ["man", "boy", "he", "his", "gentleman", "father"]
"""


@cache
def bert() -> Model:
    return load("lh:bert-mini", device="cpu")


@cache
def gpt() -> Model:
    return load("lh:gpt-mini", device="cpu")


@pytest.fixture
def settings(tmp_path: Path) -> CounteractsSettings:
    file = tmp_path / "set.toml"
    file.write_text(SETS)
    return CounteractsSettings(prompts=str(file), draws=200, remove_heads=((2, 4), (1, 0)))


def ran(folder: Path, settings: CounteractsSettings, models: list[Model], **variants: Edited) -> list[Row]:
    with open_counteracts(folder, models, settings, variants) as run:
        return counteracts(models, settings, run, variants)


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_rows_are_what_asking_and_scoring_say(tmp_path: Path, settings: CounteractsSettings) -> None:
    rows = ran(tmp_path / "run", settings, [bert()])
    answers = ask_cloze(bert(), settings.load())[0]
    scores = score_cloze(answers.table, answers.topk, (3, 5, 10), Resampling(200, 0))
    verdict = next(v for v in scores.verdicts if v.k == 10 and v.kind == "target counter" and not v.group)
    row = one(rows, name="margin change", k=10, kind="target counter", group="", variant="base")
    assert row["value"] == verdict.change.value
    assert row["interval"] == list(verdict.change.interval or ())
    assert row["verdict"] == verdict.word
    assert row["expected"] == "weakens"
    names = {row["name"] for row in rows}
    assert {"female mass", "male mass", "margin", "robustness", "relative probability"} <= names
    assert {"share without group words", "group words' share of the top k"} <= names
    assert {row["k"] for row in rows if "k" in row} == {3, 5, 10}


def one(rows: list[Row], **cell: Any) -> Row:
    found = [row for row in rows if all(row.get(key) == value for key, value in cell.items())]
    assert len(found) == 1
    return found[0]


def test_a_counterexample_moves_the_margin_of_the_shipped_model_down_and_pro_knowledge_up(
    tmp_path: Path, settings: CounteractsSettings
) -> None:
    rows = ran(tmp_path / "run", settings, [bert()])
    counter = one(rows, name="margin change", k=10, kind="target counter", group="", variant="base")
    similar = one(rows, name="margin change", k=10, kind="target similar", group="", variant="base")
    assert counter["value"] < 0 < similar["value"]


def test_the_same_prompts_are_asked_under_edits_and_the_edits_matter(
    tmp_path: Path, settings: CounteractsSettings
) -> None:
    loud = Edited(lambda model: gates(model, {(0, 0): 3.0}), "gate 1-1 = 3")
    rows = ran(tmp_path / "run", settings, [bert(), gpt()], **{"louder 1-1": loud})
    assert [row["variant"] for row in rows if row["name"] == "how it was asked"] == 2 * [
        "base",
        "without heads 3-5, 2-1",
        "louder 1-1",
    ]
    shares = {
        (row["model"], row["variant"]): row["value"]
        for row in rows
        if (row["name"], row.get("k"), row.get("kind")) == ("margin", 10, "target counter")
        and not row["group"]
    }
    assert len({shares["lh:bert-mini", v] for v in ("base", "without heads 3-5, 2-1", "louder 1-1")}) == 3


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_intervals(
    tmp_path: Path, settings: CounteractsSettings
) -> None:
    ran(tmp_path / "one", settings, [bert()])
    ran(tmp_path / "two", settings, [bert()])
    assert content(tmp_path / "one") == content(tmp_path / "two")
    other = CounteractsSettings(**{**vars(settings), "seed": 7})
    ran(tmp_path / "three", other, [bert()])
    assert content(tmp_path / "one")["results.jsonl"] != content(tmp_path / "three")["results.jsonl"]


def test_a_killed_run_asks_only_what_is_missing_and_ends_with_the_same_bytes(
    tmp_path: Path, settings: CounteractsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(tmp_path / "whole", settings, [bert(), gpt()])
    real, kept = study._keep, []

    def dies(run: Any, label: Row, *rest: Any) -> None:
        if len(kept) == 3:
            raise KeyboardInterrupt
        kept.append(label)
        real(run, label, *rest)

    monkeypatch.setattr(study, "_keep", dies)
    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path / "killed", settings, [bert(), gpt()])
    asked = []
    monkeypatch.setattr(
        study, "_keep", lambda run, label, *rest: (asked.append(label), real(run, label, *rest))
    )
    ran(tmp_path / "killed", settings, [bert(), gpt()])
    assert [(label["model"], label["variant"]) for label in asked] == [
        ("lh:gpt-mini", "without heads 3-5, 2-1")
    ]
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_settings_say_which_weights_prompts_and_variants_and_others_are_refused(
    tmp_path: Path, settings: CounteractsSettings
) -> None:
    edit = Edited(lambda model: gates(model, {(0, 0): 3.0}), "gate 1-1 = 3")
    ran(tmp_path / "run", settings, [bert()], loud=edit)
    data = read_run(tmp_path / "run")
    assert data.hashes["weights of lh:bert-mini"] == bert().fingerprint
    assert data.hashes["prompts and words"] == settings.load().fingerprint
    assert data.settings["remove_heads"] == ["3-5", "2-1"]
    with pytest.raises(BadRun, match="edits loud"):
        ran(tmp_path / "run", settings, [bert()], loud=Edited(edit.edits, "another recipe"))


def test_occupations_and_answers_are_files_that_agree_with_the_rows(
    tmp_path: Path, settings: CounteractsSettings
) -> None:
    rows = ran(tmp_path / "run", settings, [bert()])
    table = list(csv.DictReader(next((tmp_path / "run/occupations").glob("*base*.csv")).open()))
    margins = [
        float(row["value"] or 0)
        for row in table
        if (row["name"], row["k"], row["kind"]) == ("margin", "10", "base")
    ]
    assert len(margins) == 6
    whole = one(rows, name="margin", k=10, kind="base", group="", variant="base")
    assert whole["value"] == pytest.approx(np.mean(margins))
    answers = next((tmp_path / "run/answers").glob("*base*.jsonl")).read_text().splitlines()
    assert len(answers) == len(settings.load().prompts)
    assert len(json.loads(answers[0])["answers"]) == 10


@pytest.mark.parametrize("wrong", [{"ks": ()}, {"ks": (3, 3)}, {"ks": (0,)}, {"draws": 5}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadProbe):
        CounteractsSettings(**wrong)


def test_a_model_given_twice_is_refused(tmp_path: Path, settings: CounteractsSettings) -> None:
    with pytest.raises(BadProbe, match="given twice"):
        open_counteracts(tmp_path / "run", [bert(), bert()], settings)


def test_a_head_that_a_model_does_not_have_is_refused(tmp_path: Path, settings: CounteractsSettings) -> None:
    wrong = CounteractsSettings(**{**vars(settings), "remove_heads": ((99, 0),)})
    with pytest.raises(BadOption, match="100-1 was asked for"):
        ran(tmp_path / "run", wrong, [bert()])


# ---- figures


def test_figures_come_from_the_run_folder_one_of_each_sort_a_k(
    tmp_path: Path, settings: CounteractsSettings
) -> None:
    ran(tmp_path / "run", settings, [bert(), gpt()])
    drawn = counteracts_figures(tmp_path / "run")
    assert {path.name for path in drawn} == {
        f"counteracts-{sort}-k{k}.svg" for sort in ("masses", "margins") for k in (3, 5, 10)
    }
    for path in drawn:
        text = path.read_text()
        assert text.startswith("<svg")
        assert "target counter" in text
        assert "lh:bert-mini" in text


def test_the_chart_shows_the_masses_of_the_rows(tmp_path: Path, settings: CounteractsSettings) -> None:
    rows = ran(tmp_path / "run", settings, [bert()])
    shown = masses_chart(read_run(tmp_path / "run"), 10).to_dict()["data"]["values"]
    wanted = one(rows, name="male mass", k=10, kind="target counter", group="female", variant="base")
    bar = [
        row["mass"]
        for row in shown
        if (row["model"], row["kind"], row["occupations"], row["words"])
        == ("lh:bert-mini", "target counter", "female occupations", "male")
    ]
    assert bar == [wanted["value"]]


def test_a_folder_of_another_study_is_refused(tmp_path: Path) -> None:
    from levelhead.results.folder import Run

    Run.open(tmp_path / "run", {"study": "heads"}).close()
    with pytest.raises(BadRun, match="levelhead prompts"):
        counteracts_figures(tmp_path / "run")
