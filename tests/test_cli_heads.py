"""The commands heads, compare-heads, planted, seat, lpbs and fluency, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from levelhead.cli.printed import print_run
from levelhead.edits.sites import Head
from levelhead.measures.measurement import Measurement
from levelhead.probes.lpbs import load_lpbs_templates
from levelhead.studies.heads import Heads, open_heads
from levelhead.studies.heads.records import (
    DebiasVerdict,
    RandomMeasured,
    Rival,
    StrategyMeasured,
    Tradeoff,
)
from tests.report.synthetic import write_audit, write_heads
from tests.studies.head_runs import empty_run, scored_run
from tests.tiny import saved
from tests.typed import Typed
from tests.word_lists import RELIGION, gender_toml, toml


def test_heads_prints_the_heads_and_writes_the_run(typed: Typed, tmp_path: Path) -> None:
    bias, out, model = gender_toml(tmp_path), str(tmp_path / "run"), saved(tmp_path / "model", "bert")
    options = ("--bias", bias, "--per-word", "1", "--null", "2", "--experiments", "scores", "-o", out)
    code, printed, _ = typed("heads", model, *options)
    assert code == 0
    assert "SEAT" in printed
    run = open_heads(out)
    assert f"{sum(score.biased for score in run.scores)} of 12 heads" in printed
    first = run.ranked[0].head
    assert f"Layer {first.layer + 1}, head {first.head + 1}: score" in printed
    assert (tmp_path / "run" / "figures" / "heatmap-signed.svg").is_file()
    code, printed, _ = typed("heads", model, *options, "--json")
    answer = json.loads(printed)
    assert code == 0
    assert answer["heads"] == 12
    assert answer["most_biased"][0]["rank"] == 1
    assert answer["most_anti_biased"][0]["rank"] == 12
    assert answer["seat"]["measurement"]["name"] == "seat"
    assert "strategies" not in answer


def test_compare_heads_tells_how_many_heads_changed_sides(typed: Typed, tmp_path: Path) -> None:
    base = scored_run(tmp_path, "base", [[0.3, -0.2], [-0.5, 0.1]], 0.8)
    chat = scored_run(tmp_path, "chat", [[0.2, 0.4], [-0.6, -0.1]], 0.5)
    words = ("compare-heads", str(base), str(chat), "-o", str(tmp_path / "out"))
    code, printed, _ = typed(*words)
    assert code == 0
    assert all(part in printed for part in ("chat against base", " 0.40;", "1 of 2 anti-biased"))
    code, printed, _ = typed(*words, "--json")
    (pair,) = json.loads(printed)["pairs"]
    assert (code, pair["agreement"]["flips"], pair["agreement"]["followed"]) == (0, 1, ["2-1", "1-2"])


def test_planted_prints_every_localizer_beside_chance(typed: Typed, tmp_path: Path) -> None:
    options = ("--seeds", "1", "--heads", "1", "--kinds", "attention", "--sentences", "shipped")
    bias, out, model = gender_toml(tmp_path), str(tmp_path / "run"), saved(tmp_path / "model", "bert")
    words = ("planted", model, "--bias", bias, *options, "-o", out)
    code, printed, _ = typed(*words)
    text = " ".join(printed.split())  # titles and notes are wrapped
    assert code == 0
    assert "attention plant in 1 of 12 heads, 1 seeds" in text
    assert all(name in text for name in ("gradient", "ablation", "compared", "By chance 0.083 and 6.5"))
    code, printed, _ = typed(*words, "--json")
    answer = json.loads(printed)
    assert (code, answer["settings"]["kinds"]) == (0, ["attention"])
    assert {each["measurement"]["name"] for each in answer["summary"]} == {
        "precision",
        "mean rank",
        "abs seat",
    }


def test_a_terminal_shows_what_the_page_shows_in_its_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    print_run(write_heads(tmp_path / "run"))
    printed = capsys.readouterr().out
    parts = (
        "Association by words",
        "To be read as it is: one token (14); null models lie around 0.",
        "Rank correlation of heads between two halves of the words",
        "Clear beyond what null models show (4):",
    )
    places = [printed.index(part) for part in parts]
    assert places == sorted(places)


def test_a_table_that_does_not_fit_is_printed_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_heads(tmp_path / "run")
    monkeypatch.setenv("COLUMNS", "60")
    print_run(run)
    narrow = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "200")
    print_run(run)
    wide = capsys.readouterr().out
    assert "Null SD: " in narrow
    assert "Null SD: " not in wide
    assert "Null SD" in wide


def test_removals_are_told_with_their_verdict_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    reached = [
        Measurement("seat", 1.1, (0.9, 1.3)),
        Measurement("lpbs career", 0.4),
        Measurement.missing("lpbs math", "she is not one token"),
    ]
    random = RandomMeasured("random-1", 1, Measurement("seat", 1.2, n=3), (1.1, 1.2, 1.3), 1.2)
    scored_run(tmp_path, "run", [[0.3, -0.2], [-0.5, 0.1]], 0.8)
    with empty_run(tmp_path / "run", "run", {"weights": "run", "words": "gender"}) as run:
        run.results(
            Heads.strategies,
            lambda: [StrategyMeasured("top-1", (Head(0, 0),), measured) for measured in reached],
        )
        run.results(Heads.random_strategies, lambda: [random])
        run.result(
            Heads.verdict,
            lambda: DebiasVerdict("removing one head helps", 1.2, 1.1, 1.2, 3, holds=True, random_lower=0),
        )
        run.results(
            Heads.tradeoffs,
            lambda: [Tradeoff("learned, at most 1.05", 1.02, 1.04, Rival("top-1", 1.1, 1.02))],
        )
    print_run(tmp_path / "run")
    printed = capsys.readouterr().out
    assert "1.100 [0.900, 1.300]" in printed
    assert "not measured" in printed
    assert "holds here (0 of 3 random draws" in printed
    assert "learned, at most 1.05" in printed


def test_a_wrong_experiment_or_list_is_one_line(typed: Typed, tmp_path: Path) -> None:
    for option, value in (("--experiments", "score"), ("--bias", "gendre")):
        code, printed, error = typed("heads", "lh:bert-mini", option, value, "-o", str(tmp_path / "run"))
        assert (code in (2, 4), printed) == (True, "")
        assert error.startswith("levelhead: ")
        assert error.count("\n") == 1


def test_seat_states_its_pooling(typed: Typed, tmp_path: Path) -> None:
    sets = {"targ1": ["a nurse", "a dance"], "targ2": ["a boss", "a tank"], "attr1": ["she"], "attr2": ["he"]}
    test = tmp_path / "mine.jsonl"
    test.write_text(json.dumps({key: {"category": key, "examples": texts} for key, texts in sets.items()}))
    model = saved(tmp_path / "model", "bert")
    code, printed, _ = typed("seat", model, str(test), "--pooling", "cls", "--json")
    assert code == 0
    assert json.loads(printed)["settings"]["pooling"] == "cls"
    code, printed, _ = typed("seat", model, str(test), "--pooling", "mean-special")
    assert code == 0
    assert "pooling mean-special (Meade et al. 2022" in printed
    code, _, error = typed("seat", model, str(test), "--pooling", "max")
    assert code == 2
    assert "mean, mean-special, cls, last" in error


def test_lpbs_asks_templates_of_the_users_own_and_names_lines_that_are_none(
    typed: Typed, tmp_path: Path
) -> None:
    file = tmp_path / "clinic.txt"
    file.write_text("[ATTRIBUTE] likes [TARGET].\nNobody is here.\n", encoding="utf-8")
    command = ("lpbs", saved(tmp_path / "model", "bert"), "--bias", "math", "--templates", str(file))
    code, printed, error = typed(*command)
    assert code == 0, error
    assert "clinic.txt line 2: no slot" in printed
    (answer,) = json.loads(typed(*command, "--json")[1])
    assert answer["settings"]["templates"] == "clinic"
    assert answer["settings"]["data_hash"].endswith(load_lpbs_templates(file).fingerprint)
    assert answer["unscored"]["not one slot of each kind"] == 1
    assert [item["line"] for item in answer["unusable"]] == [2]
    code, _, error = typed(*command, "--strict")
    assert code == 4
    assert "clinic.txt line 2: no slot" in error


def test_lpbs_of_a_causal_model_is_not_measured_rather_than_zero(typed: Typed) -> None:
    code, printed, error = typed("lpbs", "lh:gpt-mini", "--bias", "math")
    assert code == 3  # as in every command where a model lacks what is asked of it
    assert "not measured" in printed
    assert "LPBS asks a masked model" in error


def test_the_same_lack_of_ability_has_the_same_exit_code_in_every_command(
    typed: Typed, tmp_path: Path
) -> None:
    causal, classifier = saved(tmp_path / "gpt", "gpt2"), saved(tmp_path / "nli", "bert", "nli")
    for command in (("lpbs", causal), ("nsp", causal), ("nli", causal), ("fluency", classifier)):
        assert typed(*command)[0] == 3, command


def test_seat_takes_word_lists_and_writes_tables_with_bounds_of_their_own(
    typed: Typed, tmp_path: Path
) -> None:
    words, model = toml(tmp_path, RELIGION), saved(tmp_path / "model", "bert")
    for kind in ("csv", "tex", "json"):
        code, printed, error = typed(
            *("seat", model, words, "--per-word", "1"),
            *("-o", str(tmp_path / f"seat.{kind}"), "--json"),
        )
        assert code == 0, error
    answer = json.loads(printed)
    assert answer["settings"]["words"] == "religion"
    low, high = answer["interval"]
    header, line = (tmp_path / "seat.csv").read_text(encoding="utf-8").splitlines()
    assert header == "measure,value,low,high,n,neutral,floor,p"
    assert [float(cell) for cell in line.split(",")[1:4]] == [answer["value"], low, high]
    latex = (tmp_path / "seat.tex").read_text(encoding="utf-8")
    value, least, most = (f"{each:.3f}".replace("-", "$-$") for each in (answer["value"], low, high))
    assert f"seat & {value} & {least} to {most} &" in latex
    assert json.loads((tmp_path / "seat.json").read_text(encoding="utf-8"))[0]["value"] == answer["value"]
    code, _, error = typed("seat", model, words, "-o", str(tmp_path / "seat.xlsx"))
    assert (code, ".csv, .tex, .json" in error) == (2, True)


def test_fluency_reads_a_users_text(typed: Typed, tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text(
        "The train to the coast leaves at noon. She put the keys on the table.\n", encoding="utf-8"
    )
    model = saved(tmp_path / "model", "gpt2")
    code, printed, _ = typed("fluency", model, "--text", str(text), "--json")
    answer = json.loads(printed)
    assert code == 0
    assert answer["name"] == "perplexity"
    assert answer["settings"]["sentences"] == 2


@pytest.mark.nightly
def test_a_finished_run_is_extended_by_an_experiment_and_its_figures_are_pdf_too(
    typed: Typed, tmp_path: Path
) -> None:
    run, model = tmp_path / "run", saved(tmp_path / "model", "gpt2")
    options = ("--bias", gender_toml(tmp_path), "--per-word", "1", "--null", "0", "--sentences", "shipped")
    command = ("heads", model, "-o", str(run), *options, "--experiments")
    assert typed(*command, "scores,counter")[0] == 0
    first = (run / "results.jsonl").read_bytes()
    code, _, error = typed(*command, "scores,counter,ablation")
    assert code == 0, error
    assert (run / "results.jsonl").read_bytes().startswith(first)
    assert open_heads(run).settings.experiments == ("scores", "counter", "ablation")
    assert open_heads(run).agreement is not None
    assert typed(*command, "scores,counter")[0] == 0  # what is there stays
    code, _, error = typed(*command, "scores,counter,ablation", "--seed", "1")
    assert (code, "belongs to other settings: seed" in error) == (4, True)
    figures = run / "figures"
    drawn = sorted(path.stem for path in figures.glob("*.svg"))
    assert drawn
    assert sorted(path.stem for path in figures.glob("*.pdf")) == drawn
    assert all(path.read_bytes().startswith(b"%PDF") for path in figures.glob("*.pdf"))


def test_heads_of_an_audit_are_read_from_its_folder(tmp_path: Path) -> None:
    audit = write_audit(tmp_path / "audit")
    assert open_heads(audit).scores == open_heads(audit / "heads").scores


def test_a_quick_seat_asks_two_contexts_per_word_unless_another_number_is_said(
    typed: Typed, tmp_path: Path
) -> None:
    command = ("seat", saved(tmp_path / "model", "bert"), gender_toml(tmp_path), "--json")
    asked = [("--quick",), ("--per-word", "2"), ("--quick", "--per-word", "1"), ()]
    n = [json.loads(typed(*command, *options)[1])["n"] for options in asked]
    assert n[0] == n[1] == 2 * n[2] < n[3]
