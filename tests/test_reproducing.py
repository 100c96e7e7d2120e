"""levelhead reproduce, as a user types it: runs that are read, runs that are made, and mistakes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.errors import BadOption, BadRun
from levelhead.runs.again import command
from levelhead.runs.folder import Run
from levelhead.studies.heads import Heads
from levelhead.studies.reproduce import Reproduce
from levelhead.studies.reproduce.records import REPRODUCTION, Reproduction
from levelhead.studies.reproduce.run import reproduce
from levelhead.studies.reproduce.settings import ReproduceSettings
from tests.report.synthetic import heads_settings, write_heads, write_prompts, write_sweep
from tests.tiny import tiny
from tests.typed import Typed


def test_a_finished_run_is_read_without_a_model_and_gets_its_two_files(typed: Typed, tmp_path: Path) -> None:
    folder = write_prompts(tmp_path / "run", model="no/such-model")
    words = ("reproduce", "counteracts", "--run", str(folder), "-o", str(tmp_path / "beside"))
    code, printed, error = typed(*words)
    assert code == 0, error
    text = " ".join(printed.split())
    assert "other weights than the paper's" in text
    assert "nurse: percent of women" in text
    assert "evaluated no/such-model" in text
    whole = REPRODUCTION.read(tmp_path / "beside")
    assert whole is not None
    with (tmp_path / "beside" / "reproduce.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(whole.cells)
    code, printed, _ = typed(*words, "--json")
    assert Reproduction.from_json(json.loads(printed)) == whole
    run = Reproduce.open(tmp_path / "beside")
    assert run.model == "no/such-model"
    assert command(run).split() == ["levelhead", *words[:4], *words[4:]]


def test_a_run_of_another_study_is_refused(typed: Typed, tmp_path: Path) -> None:
    folder = write_prompts(tmp_path / "run")
    code, printed, error = typed("reproduce", "heads", "--run", str(folder), "-o", str(tmp_path / "beside"))
    assert (code, printed) == (4, "")
    assert "holds a run of 'counteracts'" in error
    assert not (tmp_path / "beside").exists()
    with pytest.raises(BadOption, match="Leave out models, nli and quick, or run"):
        ReproduceSettings("counteracts", models=("lh:bert-mini",), run=folder)


def test_projections_need_a_classifier_and_heads_one_model() -> None:
    with pytest.raises(BadOption, match="Give one with --nli"):
        ReproduceSettings("projections", ("lh:bert-mini",))
    with pytest.raises(BadOption, match=r"models must be one for heads \(got 2\)"):
        ReproduceSettings("heads", ("lh:bert-mini", "lh:gpt-mini"))
    with pytest.raises(BadOption, match=r"paper must be of heads, projections, counteracts \(got 'glue'\)"):
        ReproduceSettings("glue")


def test_a_run_that_was_killed_is_not_taken_for_a_finished_one(tmp_path: Path) -> None:
    settings = ReproduceSettings("heads", run=write_heads(tmp_path / "whole"))
    whole = reproduce(None, settings, tmp_path / "a")
    assert whole.model == "lh:tiny"  # read: there is no such model to ask
    assert whole.found is not None
    with Run.open(tmp_path / "killed", Heads, heads_settings(), hashes={}):
        pass
    unfinished = write_sweep(tmp_path / "projections")  # without its tables
    for paper, folder in (("heads", tmp_path / "killed"), ("projections", unfinished)):
        with pytest.raises(BadOption, match="run must be a finished one"):
            reproduce(None, ReproduceSettings(paper, run=folder), tmp_path / "b")


def test_a_folder_that_holds_another_run_beside_the_paper_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_prompts(tmp_path / name, model=name)
    reproduce(None, ReproduceSettings("counteracts", run=tmp_path / "one"), tmp_path / "beside")
    with pytest.raises(BadRun, match="other settings"):
        reproduce(None, ReproduceSettings("counteracts", run=tmp_path / "other"), tmp_path / "beside")


@pytest.mark.nightly
@pytest.mark.slow
def test_counteracts_is_run_where_there_is_no_run_and_read_the_second_time(tmp_path: Path) -> None:
    model = tiny("bert", "mlm")
    model.hf.save_pretrained(tmp_path / "model")
    model.tokenizer.save_pretrained(tmp_path / "model")
    settings = lh.settings.ReproduceSettings("counteracts", (str(tmp_path / "model"),), quick=True)
    first = lh.reproduce(settings=settings, folder=tmp_path / "run", device="cpu")
    assert first.found is not None
    assert not first.found.same_model
    assert {each.table for each in first.found.cells} >= {
        *("Table 1", "Figure 2", "Figure 3", "Figure 4", "Results")
    }
    assert first.counteracts is not None
    assert first.counteracts.finished
    (tmp_path / "model" / "config.json").unlink()  # the second time no model is loaded
    assert lh.reproduce(settings=settings, folder=tmp_path / "run").found == first.found
