"""The commands heads, seat, lpbs and fluency, as a user types them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from levelhead.cli import main
from levelhead.cli.heads import counter_in_words, print_debias
from tests.report.synthetic import debias_rows
from tests.word_lists import gender_toml


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Type a command; get its exit code, standard output and standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["levelhead", *words])
        monkeypatch.setenv("COLUMNS", "120")
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return run


def test_heads_prints_the_heads_and_writes_the_run(typed, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    bias, out = gender_toml(tmp_path), str(tmp_path / "run")
    command = (
        "heads",
        "lh:bert-mini",
        "--bias",
        bias,
        "--per-word",
        "1",
        "--experiments",
        "scores",
        "-o",
        out,
    )
    code, printed, _ = typed(*command)
    assert code == 0
    assert "SEAT" in printed
    assert "of 64 heads add to it" in printed
    assert (tmp_path / "run" / "figures" / "heatmap-signed.svg").is_file()
    code, printed, _ = typed(*command, "--json")
    told = json.loads(printed)
    assert code == 0
    assert told["heads"] == 64
    assert told["most_biased"][0]["rank"] == 1
    assert told["most_anti_biased"][0]["rank"] == 64


def test_debias_tables_have_a_column_for_each_measure_and_say_once_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    rows = {f"debias/{key}": found for key, found in debias_rows().items()}
    for row in rows["debias/table"]:
        if row["measure"] == "lpbs math":
            row |= {"value": None, "reason": "she is not one token"}
    print_debias(rows)
    printed = capsys.readouterr().out
    assert "lpbs career" in printed
    assert "learned, at most 1.05: |SEAT| 1.020 at 1.040 x the perplexity; top-1: 1.100 at 1.020" in printed
    rows = {"debias/sweep": [{**row, "value": None, "reason": "no head"} for row in rows["debias/sweep"]]}
    print_debias(rows)
    printed = capsys.readouterr().out
    assert printed == "Not measured: seat, lpbs career, lpbs math, fluency, fluency change (no head)\n"


def test_a_wrong_experiment_or_list_is_one_line_and_exit_1(typed, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for option, value in (("--experiments", "score"), ("--bias", "gendre")):
        code, printed, said = typed("heads", "lh:bert-mini", option, value, "-o", str(tmp_path / "run"))
        assert (code, printed) == (1, "")
        assert said.startswith("levelhead: ")
        assert said.count("\n") == 1


def test_seat_states_its_pooling(typed, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    sets = {"targ1": ["a nurse", "a dance"], "targ2": ["a boss", "a tank"], "attr1": ["she"], "attr2": ["he"]}
    test = tmp_path / "mine.jsonl"
    test.write_text(json.dumps({key: {"category": key, "examples": texts} for key, texts in sets.items()}))
    code, printed, _ = typed("seat", "lh:bert-mini", str(test), "--pooling", "cls", "--json")
    assert code == 0
    assert json.loads(printed)["settings"]["pooling"] == "cls"
    code, _, said = typed("seat", "lh:bert-mini", str(test), "--pooling", "max")
    assert code == 1
    assert "mean, cls, last" in said


def test_lpbs_of_a_causal_model_is_not_measured_rather_than_zero(typed) -> None:  # type: ignore[no-untyped-def]
    code, printed, _ = typed("lpbs", "lh:gpt-mini", "--tests", "math")
    assert code == 0
    assert "not measured" in printed


def test_fluency_reads_a_users_text(typed, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    text = tmp_path / "mine.txt"
    text.write_text(
        "The train to the coast leaves at noon. She put the keys on the table.\n", encoding="utf-8"
    )
    code, printed, _ = typed("fluency", "lh:gpt-mini", "--text", str(text), "--json")
    told = json.loads(printed)
    assert code == 0
    assert told["name"] == "perplexity"
    assert told["settings"]["sentences"] == 2


def test_the_counter_experiment_claims_no_more_than_it_shows() -> None:
    row = {"value": 0.01, "reason": "", "n": 500, "group": "biased", "details": {"t": 3.2, "p_value": 0.0008}}
    assert counter_in_words(row).startswith("attention falls")
    row["details"] = {"t": 0.5, "p_value": 0.31}
    assert "does not hold here" in counter_in_words(row)
    assert counter_in_words({**row, "value": None, "reason": "no sentences"}) == "not measured (no sentences)"
