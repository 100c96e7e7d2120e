"""The study: models and edits in one run, resumable, the same bytes twice, drawn from its folder alone."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.edits.gates import gates
from levelhead.edits.sites import Head
from levelhead.engine.effort import Speed
from levelhead.errors import BadOption, BadRun
from levelhead.measures.cloze import score_cloze
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model, load
from levelhead.progress import plain_lines
from levelhead.runs.common import BASE
from levelhead.runs.folder import Run
from levelhead.scoring.cloze import ask_cloze
from levelhead.studies.counteracts import ANSWERS, Counteracts, cells_label
from levelhead.studies.counteracts import run as study
from levelhead.studies.counteracts.chapter import (
    figures,
    margin_panels,
    mass_panels,
    prompt_charts,
    prompt_controls,
)
from levelhead.studies.counteracts.records import ClozeCell, ClozeForm, PromptAnswers
from levelhead.studies.counteracts.run import Edited, counteracts
from levelhead.studies.counteracts.settings import CounteractsSettings
from levelhead.studies.heads import Heads
from tests.report.synthetic import heads_settings, measured
from tests.word_lists import OCCUPATIONS

WITHOUT = "without heads 3-5, 2-1"


@cache
def bert() -> Model:
    return load("lh:bert-mini", device="cpu")


@cache
def gpt() -> Model:
    return load("lh:gpt-mini", device="cpu")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> CounteractsSettings:
    file = tmp_path_factory.mktemp("prompts") / "set.toml"
    file.write_text(OCCUPATIONS)
    return CounteractsSettings(prompts=str(file), draws=200, remove_heads=(Head(2, 4), Head(1, 0)), null=2)


@pytest.fixture(scope="module")
def run(settings: CounteractsSettings, tmp_path_factory: pytest.TempPathFactory) -> Counteracts:
    """A run of the shipped BERT, for the tests that only read it."""
    return counteracts([bert()], settings, tmp_path_factory.mktemp("asked") / "run")


@pytest.fixture(scope="module")
def drawn(settings: CounteractsSettings, tmp_path_factory: pytest.TempPathFactory) -> Counteracts:
    """A run of two models; tests draw its figures into it."""
    return counteracts([bert(), gpt()], settings, tmp_path_factory.mktemp("drawn") / "run")


def content(folder: Path) -> dict[str, bytes]:
    """What a study wrote, without figures that were drawn of it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".svg")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def cell_of(run: Counteracts, name: str, kind: str, group: str = "", variant: str = BASE) -> ClozeCell:
    """The one cell of the first model at k = 10."""
    wanted = (run.settings.models[0], variant, 10, kind, group, name)
    (cell,) = [c for c in run.cells if (c.model, c.variant, c.k, c.kind, c.group, c.name) == wanted]
    return cell


def value_of(run: Counteracts, name: str, kind: str, variant: str = BASE) -> float:
    value = cell_of(run, name, kind, variant=variant).measurement.value
    assert value is not None
    return value


def test_cells_are_what_asking_and_scoring_say(run: Counteracts, settings: CounteractsSettings) -> None:
    answers = ask_cloze(bert(), settings.load())[0]
    scores = score_cloze(answers.table, answers.topk, (3, 5, 10), Resampling(200, 0))
    verdict = next(v for v in scores.verdicts if v.k == 10 and v.kind == "target counter" and not v.group)
    cell = cell_of(run, "margin change", "target counter")
    assert cell.measurement.value == verdict.change.value
    assert cell.measurement.interval == verdict.change.interval
    assert (cell.verdict, cell.expected) == (verdict.word, "weakens")
    names = {cell.name for cell in run.cells}
    assert {"female mass", "male mass", "margin", "robustness", "relative probability"} <= names
    assert {"share without group words", "group words' share of the top k"} <= names
    assert {cell.k for cell in run.cells} == {0, 3, 5, 10}


def test_the_main_number_is_the_log_odds_and_each_occupations_are_in_the_table(
    run: Counteracts, settings: CounteractsSettings
) -> None:
    main, x = run.log_odds(), ask_cloze(bert(), settings.load())[0]
    assert main is not None
    bare = x.log_odds[""][x.table.kinds == BASE]
    own = x.table.own[x.table.kinds == BASE]
    assert main.measurement.value == pytest.approx((bare[own > 0].mean() - bare[own < 0].mean()) / 2)
    lines = [line for line in run.occupations(bert().name) if (line.name, line.kind) == ("log_odds", BASE)]
    assert sorted(line.value or 0 for line in lines) == pytest.approx(sorted(bare.tolist()))
    assert run.log_odds(WITHOUT) != main


def test_only_changes_have_verdicts(run: Counteracts) -> None:
    judged = {cell.name for cell in run.cells if cell.verdict is not None}
    assert judged == {"margin change", "log_odds change"}
    assert all(cell.verdict and cell.expected for cell in run.cells if cell.name in judged)


def test_a_counterexample_moves_the_margin_of_the_shipped_model_down_and_pro_knowledge_up(
    run: Counteracts,
) -> None:
    counter, similar = (value_of(run, "margin change", f"target {kind}") for kind in ("counter", "similar"))
    assert counter < 0 < similar


@pytest.mark.nightly
def test_the_same_prompts_are_asked_under_edits_and_the_edits_matter(
    tmp_path: Path, settings: CounteractsSettings
) -> None:
    loud = Edited(lambda model: gates(model, {Head(0, 0): 3.0}), "gate 1-1 = 3")
    run = counteracts([bert(), gpt()], settings, tmp_path / "run", {"louder 1-1": loud})
    variants = [BASE, WITHOUT, "louder 1-1"]
    assert [form.variant for form in run.forms] == 2 * variants
    assert [form.form for form in run.forms] == 3 * ["sentence pair"] + 3 * ["continuation"]
    assert len({value_of(run, "margin", "target counter", variant) for variant in variants}) == 3


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_intervals(
    run: Counteracts, tmp_path: Path, settings: CounteractsSettings
) -> None:
    counteracts([bert()], settings, tmp_path / "again")
    assert content(tmp_path / "again") == content(run.folder)
    counteracts([bert()], replace(settings, seed=7), tmp_path / "other")
    assert content(tmp_path / "other")["results.jsonl"] != content(run.folder)["results.jsonl"]


def test_a_killed_run_asks_only_what_is_missing_and_ends_with_the_same_bytes(
    drawn: Counteracts, tmp_path: Path, settings: CounteractsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [bert(), gpt()]
    real, kept = study._keep, list[str]()

    def dies(run: Any, form: ClozeForm, *rest: Any) -> None:
        if len(kept) == 3:
            raise KeyboardInterrupt
        keeps(run, form, *rest)

    def keeps(run: Any, form: ClozeForm, *rest: Any) -> None:
        kept.append(cells_label(form.model, form.variant))
        real(run, form, *rest)

    monkeypatch.setattr(study, "_keep", dies)
    with pytest.raises(KeyboardInterrupt):
        counteracts(models, settings, tmp_path / "killed")
    kept.clear()
    monkeypatch.setattr(study, "_keep", keeps)
    counteracts(models, settings, tmp_path / "killed")
    assert kept == [cells_label("lh:gpt-mini", WITHOUT)]
    assert content(tmp_path / "killed") == content(drawn.folder)


def test_settings_say_which_weights_prompts_and_variants_and_others_are_refused(
    tmp_path: Path, settings: CounteractsSettings
) -> None:
    edit = Edited(lambda model: gates(model, {Head(0, 0): 3.0}), "gate 1-1 = 3")
    run = counteracts([bert()], settings, tmp_path / "run", {"loud": edit})
    assert run.data.hashes["weights of lh:bert-mini"] == bert().fingerprint
    assert run.data.hashes["prompts and words"] == settings.load().fingerprint
    assert run.settings.remove_heads == (Head(2, 4), Head(1, 0))
    assert run.settings.variants == (BASE, WITHOUT, "loud")
    other = {"loud": Edited(edit.edits, "another recipe")}
    with pytest.raises(BadRun, match="edits loud"):
        counteracts([bert()], settings, tmp_path / "run", other)


def test_occupations_and_answers_are_files_that_agree_with_the_cells(
    run: Counteracts, settings: CounteractsSettings
) -> None:
    lines = run.occupations("lh:bert-mini")
    margins = [line.value or 0.0 for line in lines if (line.name, line.k, line.kind) == ("margin", 10, BASE)]
    assert len(margins) == 6
    assert value_of(run, "margin", BASE) == pytest.approx(np.mean(margins))
    path = run.folder / ANSWERS.of(cells_label("lh:bert-mini", BASE)).name
    answers = [PromptAnswers.from_json(json.loads(line)) for line in path.read_text().splitlines()]
    assert [each.id for each in answers] == [prompt.id for prompt in settings.load().prompts]
    assert {len(each.answers) for each in answers} == {10}
    assert all(0 < word.p <= 1 for each in answers for word in each.answers)


@pytest.mark.parametrize("wrong", [{"ks": ()}, {"ks": (3, 3)}, {"ks": (0,)}, {"draws": 5}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        CounteractsSettings(**wrong)


def test_a_model_given_twice_is_refused(tmp_path: Path, settings: CounteractsSettings) -> None:
    with pytest.raises(BadOption, match="given twice"):
        counteracts([bert(), bert()], settings, tmp_path / "run")


def test_a_head_that_a_model_does_not_have_is_refused(tmp_path: Path, settings: CounteractsSettings) -> None:
    with pytest.raises(BadOption, match="100-1 was asked for"):
        counteracts([bert()], replace(settings, remove_heads=(Head(99, 0),)), tmp_path / "run")


def test_work_that_takes_long_is_announced_with_what_makes_it_shorter(
    settings: CounteractsSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with plain_lines():
        counteracts([bert()], settings, tmp_path / "quick")
    assert "This takes" not in capsys.readouterr().err
    monkeypatch.setattr(study, "speed_of", lambda model: Speed(10.0))
    with plain_lines():
        counteracts([bert()], settings, tmp_path / "slow")
    assert re.search(r"This takes about .*; --null 0 takes about .*", capsys.readouterr().err)
    with plain_lines():
        counteracts([bert()], settings, tmp_path / "slow")
    assert "This takes" not in capsys.readouterr().err, "all of it is there"


# ---- figures


def test_figures_come_from_the_run_folder_one_of_each_sort_a_k(drawn: Counteracts) -> None:
    paths = figures(drawn.folder)
    assert {path.name for path in paths} == {
        "counteracts-log-odds.svg",
        *(f"counteracts-{sort}-k{k}.svg" for sort in ("masses", "margins") for k in (3, 5, 10)),
    }
    for path in paths:
        text = path.read_text()
        assert text.startswith("<svg")
        assert "target counter" in text
        assert "lh:bert-mini" in text
        assert "$" not in text  # every color has been filled in


def points(charts: Sequence[Any]) -> list[dict[str, Any]]:
    """What charts draw."""
    return [point for chart in charts for point in chart.spec["data"]["values"]]


def test_the_page_and_the_figure_draw_the_same_points(drawn: Counteracts) -> None:
    controls = prompt_controls(drawn)
    _, margins, *masses = prompt_charts(drawn, drawn.cells, controls)
    for page, panels in (([margins], margin_panels(drawn, 10)), (masses, mass_panels(drawn, 10))):
        shown = [point for point in points(page) if point["k"] == 10]
        assert shown
        assert sorted(map(str, shown)) == sorted(map(str, points([panels])))


def test_a_chart_shows_the_masses_and_the_verdicts_of_the_cells(drawn: Counteracts) -> None:
    mass = cell_of(drawn, "male mass", "target counter", group="female").measurement.value
    bars = [
        point["mass"]
        for point in points([mass_panels(drawn, 10)])
        if (point["who"], point["kind"], point["occupations"], point["words"])
        == ("lh:bert-mini", "target counter", "female occupations", "male")
    ]
    assert bars == [mass]
    change = cell_of(drawn, "margin change", "target counter")
    dots = [
        (point["level"], point["verdict"])
        for point in points([margin_panels(drawn, 10)])
        if (point["who"], point["kind"]) == ("lh:bert-mini", "target counter")
    ]
    assert dots == [(value_of(drawn, "margin", "target counter"), change.verdict)]


def test_a_run_in_which_nothing_could_be_measured_is_drawn_empty(tmp_path: Path, drawn: Counteracts) -> None:
    silent = replace(drawn.settings, models=("silent",), variants=(BASE,))
    missing = measured("margin", None, reason="no prompt has a word of either group in its top 10")
    with Run.open(tmp_path / "run", Counteracts, silent) as run:
        cells = [ClozeCell("silent", BASE, k, kind, "", missing) for k in silent.ks for kind in silent.kinds]
        run.results(Counteracts.cells.of(cells_label("silent", BASE)), cells.copy)
    for path in figures(tmp_path / "run"):
        assert path.read_text().startswith("<svg")


def test_a_folder_of_another_study_or_without_results_is_refused(tmp_path: Path, drawn: Counteracts) -> None:
    Run.open(tmp_path / "heads", Heads, heads_settings()).close()
    with pytest.raises(BadRun, match="levelhead counteracts"):
        Counteracts.open(tmp_path / "heads")
    with pytest.raises(BadRun, match="levelhead counteracts"):
        figures(tmp_path / "heads")
    Run.open(tmp_path / "empty", Counteracts, drawn.settings).close()
    with pytest.raises(BadRun, match="no results yet"):
        figures(tmp_path / "empty")
