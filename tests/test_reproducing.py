"""levelhead reproduce, as a user types it: runs that are read, runs that are made, and mistakes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.errors import BadOption
from levelhead.reproducing import ReproduceSettings, reproduce
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.reproduction import Reproduction
from tests.report.synthetic import heads_settings, write_heads, write_prompts, write_sweep
from tests.tiny import tiny
from tests.typed import Typed


def test_a_finished_run_is_read_without_a_model_and_gets_its_two_files(typed: Typed, tmp_path: Path) -> None:
    folder = write_prompts(tmp_path / "run", model="no/such-model")
    code, printed, error = typed("reproduce", "counteracts", "-o", str(folder))
    assert code == 0, error
    assert "other weights than the paper's" in printed
    assert "nurse: percent of women" in printed
    assert "asked no/such-model" in printed
    whole = layout.REPRODUCTION.read(folder)
    assert whole is not None
    with (folder / "reproduce.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(whole.cells)
    code, printed, _ = typed("reproduce", "counteracts", "-o", str(folder), "--json")
    assert Reproduction.from_json(json.loads(printed)) == whole


def test_a_run_of_another_study_or_model_is_refused(typed: Typed, tmp_path: Path) -> None:
    folder = write_prompts(tmp_path / "run")
    code, printed, error = typed("reproduce", "heads", "-o", str(folder))
    assert (code, printed) == (2, "")
    assert "counteracts, not of heads" in error
    code, printed, error = typed("reproduce", "counteracts", "--model", "lh:bert-mini", "-o", str(folder))
    assert (code, printed) == (2, "")
    assert "lh:tiny, not of lh:bert-mini" in error


def test_projections_need_a_classifier_and_heads_one_model(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="Give one with --nli"):
        reproduce("projections", tmp_path / "p", ReproduceSettings(("lh:bert-mini",)))
    with pytest.raises(BadOption, match="2 models came; heads asks one at a time"):
        reproduce("heads", tmp_path / "h", ReproduceSettings(("lh:bert-mini", "lh:gpt-mini")))
    with pytest.raises(BadOption, match="the papers are heads, projections, counteracts"):
        reproduce("glue", tmp_path / "g")  # type: ignore[arg-type]


def test_a_run_that_was_killed_is_not_taken_for_a_finished_one(tmp_path: Path) -> None:
    whole = reproduce("heads", write_heads(tmp_path / "whole"))
    assert whole.model == "lh:tiny"  # read: there is no such model to ask
    with Run.open(tmp_path / "killed", layout.HEADS, heads_settings(), hashes={}):
        pass
    with pytest.raises(BadOption, match="2 models came"):  # so it is asked, as the settings say
        reproduce("heads", tmp_path / "killed", ReproduceSettings(("lh:tiny", "lh:other")))
    unfinished = write_sweep(tmp_path / "sweep")  # without its tables
    with pytest.raises(BadOption, match="--nli"):
        reproduce("projections", unfinished)


@pytest.mark.nightly
@pytest.mark.slow
def test_counteracts_is_run_where_there_is_no_run_and_read_the_second_time(tmp_path: Path) -> None:
    model = tiny("bert", "mlm")
    model.hf.save_pretrained(tmp_path / "model")
    model.tokenizer.save_pretrained(tmp_path / "model")
    name, run = str(tmp_path / "model"), tmp_path / "run"
    first = lh.reproduce("counteracts", run, lh.settings.ReproduceSettings((name,), quick=True), device="cpu")
    assert not first.same_model
    assert {each.table for each in first.cells} >= {"Table 1", "Figure 2", "Figure 3", "Figure 4", "Results"}
    (tmp_path / "model" / "config.json").unlink()  # the second time no model is loaded
    assert lh.reproduce("counteracts", run) == first
