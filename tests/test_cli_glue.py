"""`levelhead glue` on the command line, and what report, check and audit make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from levelhead.pages.tables import shown
from levelhead.studies.glue import Glue
from tests.glue_files import write_glue
from tests.test_cli import call
from tests.tiny import tiny

CLOSED = "without heads 2-3"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("plain") / "model"
    tiny("bert").hf.save_pretrained(folder)
    tiny("bert").tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.nightly
def test_a_run_prints_its_table_and_verdicts_and_is_then_checked_and_reported(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run = str(write_glue(tmp_path / "glue")), str(tmp_path / "run")
    quick = ("--tasks", "rte", "--seeds", "1", "--epochs", "1", "--batch-size", "8", "--heads", "2-3")
    assert call(monkeypatch, "glue", model, "--data", data, "-o", run, *quick) == 0
    printed = capsys.readouterr().out
    (cost,) = Glue.open(run).costs
    assert cost.recipe == CLOSED
    assert f"rte, accuracy: {cost.sentence}." in printed
    assert all(shown(cell.measurement.value or 0.0) in printed for cell in Glue.open(run).cells)
    assert call(monkeypatch, "glue", model, "--data", data, "-o", run, *quick, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert [cell["recipe"] for cell in again["cells"]] == ["base", CLOSED]
    assert call(monkeypatch, "check", run, "--min", "glue/rte=0.0", "--variant", CLOSED) == 0
    assert call(monkeypatch, "check", run, "--min", "glue/rte=1.1") == 1
    assert call(monkeypatch, "report", run) == 0
    assert "Fine-tuning on GLUE" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        ("index\tsentence1\tlabel\n0\ta\tentailment\n", "has no column 'sentence2'"),
        ("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tperhaps\n", "label 'perhaps'; allowed are"),
        ("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n", "has examples of one class only"),
        ("index\tsentence1\tsentence2\tlabel\n", "has no usable example"),
    ],
    ids=["a missing column", "a wrong label", "one class", "an empty split"],
)
@pytest.mark.parametrize("part", ["train", "dev"])
def test_a_damaged_file_is_one_line_and_leaves_no_folder(
    model: str,
    part: str,
    damage: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = write_glue(tmp_path / "glue")
    (data / "RTE" / f"{part}.tsv").write_text(damage, encoding="utf-8")
    run = tmp_path / "run"
    assert call(monkeypatch, "glue", model, "--data", str(data), "--tasks", "rte", "-o", str(run)) != 0
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("levelhead: ")
    assert f"RTE/{part}.tsv" in error
    assert line in error
    assert not run.exists()


def test_an_audit_refuses_an_unknown_task_before_it_asks_anything(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    command = ("audit", model, "-o", str(run), "--glue", str(tmp_path), "--glue-tasks", "ax")
    assert call(monkeypatch, *command) == 2
    line = capsys.readouterr().err
    assert all(term in line for term in ("GLUE task 'ax'", "Known are rte"))
    assert not run.exists()
