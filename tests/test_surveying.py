"""Surveys: many models, one table; they end, rank, name what is broken, and go on after a kill."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

import levelhead as lh
from levelhead.engine.effort import Speed
from levelhead.errors import BadOption, BadRun, UnknownModel
from levelhead.inference.contents import open_contents
from levelhead.inference.ranking import survey_differences, survey_lines
from levelhead.measures.influence import mean_influence
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model, load
from levelhead.models.opening import Opening
from levelhead.pages.page import report_html
from levelhead.progress import plain_lines
from levelhead.runs.common import training_step, training_steps
from levelhead.runs.folder import LOCK, Run
from levelhead.runs.presets import QUICK_SURVEY as QUICK
from levelhead.runs.study import REPORT
from levelhead.studies.survey import DIFFERENCES, NO_PARQUET, PARQUET, TABLE, TASKS, Survey, task_label
from levelhead.studies.survey import run as surveying
from levelhead.studies.survey.chapter import FLOORS
from levelhead.studies.survey.records import SurveyTask
from levelhead.studies.survey.run import listed_models, survey
from levelhead.studies.survey.settings import SurveySettings, SurveyStored
from tests.report.page_text import page_text
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import tiny
from tests.typed import Typed
from tests.word_lists import GENDER

SIZES = lh.settings.AuditSizes(
    contexts=2, triples=40, occupations=(3, 2), abilities=9, sentences=60, null=0, resamples=100
)
SMALL = SurveySettings((GENDER,), ("seat", "triples", "inference"), sizes=SIZES)
ASSOCIATION = SurveySettings((GENDER,), ("seat",), sizes=SIZES)


def saved(folder: Path, seed: int = 0) -> str:
    """A tiny model as a folder."""
    model = tiny("bert", layers=1, seed=seed)
    model.hf.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return str(folder)


def broken(folder: Path) -> str:
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return str(folder)


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a run; a page names the folder that it lies in."""
    return {
        str(path.relative_to(folder)): path.read_bytes().replace(str(folder).encode(), b"RUN")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != LOCK
    }


# ---- the shipped models, and one that is broken


@pytest.fixture(scope="module")
def shipped(bert: Model, gpt: Model, tmp_path_factory: pytest.TempPathFactory) -> Survey:
    place = tmp_path_factory.mktemp("survey")
    return survey([bert, broken(place / "broken"), gpt, "lh:nli-mini"], SMALL, place / "run")


@pytest.mark.slow
def test_a_survey_with_a_broken_model_ends_and_names_it(shipped: Survey) -> None:
    (failure,) = shipped.failures
    assert Path(failure.model).name == "broken"
    assert "model_type" in failure.reason
    (line,) = (line for line in shipped.table if line.model == failure.model)
    assert (line.measure, line.value, line.rank, line.reason) == ("", None, None, failure.reason)
    page = (shipped.folder / REPORT.name).read_text(encoding="utf-8")
    assert all(part in page for part in ("4 models, 1 of", "broken could not be measured"))


@pytest.mark.slow
def test_models_are_ranked_by_how_far_they_lie_from_neutral(shipped: Survey) -> None:
    seats = [line for line in shipped.table if line.measure == "seat"]
    assert [line.rank for line in seats] == [1, 2, 3]
    assert [line.size for line in seats] == sorted(abs(line.value or 0.0) for line in seats)
    assert {line.model for line in seats} == {"lh:bert-mini", "lh:gpt-mini", "lh:nli-mini"}
    unanswered = [line for line in shipped.table if line.measure == "fairness" and line.value is None]
    assert {line.model for line in unanswered} == {"lh:bert-mini", "lh:gpt-mini"}
    assert all(line.reason for line in unanswered)


@pytest.mark.slow
def test_differences_of_the_shipped_models_are_paired_and_corrected_for_all_of_them(
    shipped: Survey,
) -> None:
    differences = shipped.differences
    assert {(each.measure, each.paired) for each in differences} >= {("seat", True), ("ss_paired", True)}
    tested = [each for each in differences if each.p is not None]
    adjusted = multipletests([each.p for each in tested], method="holm")[1]
    assert [each.corrected for each in tested] == pytest.approx(adjusted.tolist())
    assert [each.real for each in tested] == [bool(p < 0.05) for p in adjusted]
    by_hand = {line.model: line.size or 0.0 for line in shipped.table if line.measure == "seat"}
    for each in differences:
        if each.measure == "seat":
            assert each.value == pytest.approx(by_hand[each.second] - by_hand[each.first])


@pytest.mark.slow
def test_the_page_is_made_from_the_folder_alone_and_parquet_holds_the_table(shipped: Survey) -> None:
    pandas = pytest.importorskip("pandas")
    written = (shipped.folder / REPORT.name).read_text(encoding="utf-8")
    assert report_html(open_contents(shipped.folder)) == written
    assert "levelhead survey" in written
    frame = pandas.read_parquet(shipped.folder / PARQUET)
    assert list(frame["model"]) == [line.model for line in shipped.table]
    assert [None if np.isnan(value) else value for value in frame["value"]] == [
        line.value for line in shipped.table
    ]


# ---- going on


def test_a_stopped_survey_goes_on_behind_its_last_task_and_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [saved(tmp_path / f"m{seed}", seed) for seed in range(3)]
    survey(models, ASSOCIATION, tmp_path / "whole")
    loaded: list[str] = []

    def stop_at_the_third(name: str, **_: object) -> Model:
        loaded.append(name)
        if len(loaded) == 3:
            raise KeyboardInterrupt
        return lh.load(name)

    monkeypatch.setattr(surveying, "load", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        survey(models, ASSOCIATION, tmp_path / "stopped")
    survey(models, ASSOCIATION, tmp_path / "stopped")
    assert loaded == [*models, models[2]]
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


@pytest.mark.slow
def test_a_published_benchmark_ranks_and_compares_models_item_by_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Opening, "doubt", "")
    models = [saved(tmp_path / name, seed) for seed, name in enumerate(("one", "other"))]
    published = {"crows-pairs": write(tmp_path, PAIRS)}
    run = survey(models, replace(ASSOCIATION, benchmarks=published), tmp_path / "run")
    assert run.settings.questions == ("seat", "crows-pairs")
    gaps = [line for line in run.table if line.measure == "crows-pairs gap"]
    assert [line.rank for line in gaps] == [1, 2]
    assert {line.n for line in gaps} == {len(PAIRS)}
    assert ("crows-pairs gap", True) in {(each.measure, each.paired) for each in run.differences}
    assert "CrowS-Pairs: gap in nats" in (run.folder / REPORT.name).read_text(encoding="utf-8")
    with pytest.raises(BadOption, match="No benchmark is called"):
        survey(models, replace(ASSOCIATION, benchmarks={"no-such": "file"}), tmp_path / "other")


def test_a_model_that_failed_is_tried_again_and_new_models_join(tmp_path: Path) -> None:
    models = [saved(tmp_path / "good"), broken(tmp_path / "bad")]
    assert len(survey(models, ASSOCIATION, tmp_path / "run").failures) == 1
    shutil.rmtree(tmp_path / "bad")
    saved(tmp_path / "bad", seed=1)
    joined = survey([*models, saved(tmp_path / "new", seed=2)], ASSOCIATION, tmp_path / "run")
    assert joined.failures == ()
    assert [line.rank for line in joined.table if line.measure == "seat"] == [1, 2, 3]
    survey(joined.settings.models, ASSOCIATION, tmp_path / "fresh")
    assert files(tmp_path / "run").keys() == files(tmp_path / "fresh").keys()
    for name in (TABLE.name, DIFFERENCES.name):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()


def test_a_survey_never_goes_on_with_another_model_or_other_words(tmp_path: Path) -> None:
    name = saved(tmp_path / "model")
    survey([name], ASSOCIATION, tmp_path / "run")
    with pytest.raises(BadRun, match="other settings"):
        survey([name], SurveySettings(("gender",), ("seat",), sizes=SIZES), tmp_path / "run")
    two = SurveySettings((GENDER, "career"), ("seat",), sizes=SIZES)
    survey([name], two, tmp_path / "two")
    (tmp_path / "two" / TASKS.of(task_label(name, "career")).name).unlink()
    saved(tmp_path / "model", seed=1)
    with pytest.raises(BadRun, match="another model"):
        survey([name], two, tmp_path / "two")


def test_work_that_takes_long_is_announced_with_what_makes_it_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [saved(tmp_path / f"m{seed}", seed) for seed in range(2)]

    def said(run: str, settings: SurveySettings) -> str:
        with plain_lines():
            survey(models, settings, tmp_path / run)
        return capsys.readouterr().err

    assert "This takes" not in said("seconds", ASSOCIATION)
    monkeypatch.setattr(surveying, "speed_of", lambda model: Speed(10.0))
    sized, usual = said("hours", ASSOCIATION), said("usual", SurveySettings((GENDER,), ("seat",)))
    assert re.search(r"This takes about .* on this machine .*; estimated by .*m0, one of 2 models\.", sized)
    assert re.search(r"This takes about .*; estimated by .*m0, one of 2 models; --quick takes about ", usual)
    assert sized.count("This takes") == usual.count("This takes") == 1
    assert "This takes" not in said("hours", ASSOCIATION), "all of it is there"


# ---- which models


def test_a_name_too_long_for_a_file_is_a_model_that_cannot_be_found(tmp_path: Path) -> None:
    listed = tmp_path / "models.txt"
    listed.write_text(f"lh:bert-mini\n{'a/' + 'b' * 300}\n{'~nobody-here/c'}\n")
    assert len(list(listed_models(str(listed)))) == 3
    assert list(listed_models("a" * 5000)) == ["a" * 5000]
    with pytest.raises(UnknownModel, match="is no model: File name too long"):
        load("b" * 300)


def test_models_come_from_text_files_folders_and_names(tmp_path: Path) -> None:
    for name in ("checkpoint-1000", "checkpoint-200", "checkpoint-30"):
        (tmp_path / "run" / name).mkdir(parents=True)
    (tmp_path / "run" / "logs").mkdir()
    broken(tmp_path / "plain")
    listed = tmp_path / "models.txt"
    listed.write_text(f"lh:bert-mini  # ours\n\n# nothing\n{tmp_path / 'run'}\n", encoding="utf-8")
    steps = [str(tmp_path / "run" / f"checkpoint-{step}") for step in (30, 200, 1000)]
    assert list(listed_models(str(listed))) == ["lh:bert-mini", *steps]
    assert list(listed_models(str(tmp_path / "plain"))) == [str(tmp_path / "plain")]
    assert list(listed_models("org/name")) == ["org/name"]
    with pytest.raises(BadOption, match="At least one model must be given"):
        survey([], None, tmp_path / "out")


def test_a_wrong_option_is_an_error_and_not_a_model_that_failed(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="No dtype"):
        survey(saved(tmp_path / "model"), ASSOCIATION, tmp_path / "run", dtype="float7")


@pytest.mark.parametrize(
    ("name", "run", "step"),
    [
        ("runs/a/checkpoint-100", "runs/a", 100),
        ("runs/a/checkpoint-100/", "runs/a", 100),
        ("step_200", ".", 200),
        ("org/pythia-70m-step1000", "org/pythia-70m", 1000),
        ("a/global_step12", "a", 12),
        ("a/epoch=3-last", "a/last", 3),
    ],
)
def test_a_checkpoints_name_tells_its_training_and_its_step(name: str, run: str, step: int) -> None:
    at = training_step(name)
    assert at is not None
    assert (at.run, at.step) == (run, step)


@pytest.mark.parametrize(
    "name", ["lh:bert-mini", "gpt2", "Qwen/Qwen2-7B", "a/checkpoint", "runs/step-1/model"]
)
def test_other_names_are_of_no_step(name: str) -> None:
    assert training_step(name) is None


def test_one_checkpoint_alone_is_no_curve() -> None:
    assert training_steps(["a/step-1", "b/step-1", "b/step-2"]).keys() == {"b/step-1", "b/step-2"}


@pytest.mark.parametrize("wrong", [{"measures": ("seats",)}, {"biases": ()}, {"biases": ("race", "race")}])
def test_a_mistake_in_the_settings_is_said_before_a_model_is_loaded(
    wrong: dict[str, tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(surveying, "load", loaded.append)
    with pytest.raises(BadOption, match=r"no measure 'seats'|must be one or more"):
        survey(["lh:bert-mini"], SurveySettings(**wrong), tmp_path / "run")  # type: ignore[arg-type]
    assert not loaded
    assert not (tmp_path / "run").exists()


# ---- ranks and differences, by hand


def written(folder: Path, measured: dict[str, Measurement]) -> Survey:
    """A survey whose models have these measurements."""
    settings = SurveyStored(
        study="survey", models=tuple(measured), questions=("seat",), quick=True, all_sizes=QUICK
    )
    with Run.open(folder, Survey, settings) as run:
        run.results(Survey.measures, list)
        for model, measurement in measured.items():
            task = SurveyTask(model, "gender", measured=(measurement,))
            run.file(TASKS.of(task_label(model, "gender")), task)
        result = Survey(run.data())
        run.file(TABLE, survey_lines(result))
        run.file(DIFFERENCES, survey_differences(result))
    return Survey(result.data)


def association(mean: float, noise: int, n: int = 60) -> Measurement:
    """A mean of items that all models share, up to a little noise of its own."""
    values = np.random.default_rng(0).normal(0, 0.3, n) + np.random.default_rng(noise).normal(0, 0.05, n)
    values += mean - values.mean()
    items = mean_influence(values, "items", Resampling(items=True))
    return Measurement("seat", mean, (mean - 0.08, mean + 0.08), n, neutral=0.0, influence=items)


def test_a_small_difference_is_real_where_items_are_shared_and_not_where_they_are_not(tmp_path: Path) -> None:
    near = {"a": association(0.50, 1), "b": association(0.54, 2), "c": association(-0.50, 3)}
    paired = written(tmp_path / "paired", near).differences
    assert {(each.first, each.second): each.real for each in paired}[("a", "b")]
    separate = {name: Measurement("seat", m.value, m.interval, m.n, neutral=0.0) for name, m in near.items()}
    unpaired = written(tmp_path / "unpaired", separate).differences
    assert [each.real for each in unpaired] == [False] * 3
    assert [each.paired for each in (*paired, *unpaired)] == [True] * 3 + [False] * 3


def drawn(rng: np.random.Generator, n: int = 60) -> Measurement:
    """A mean of items of a model that shares half of their spread, and its true mean, with all others."""
    shared = np.random.default_rng(0).normal(0, 0.3, n)
    values = 0.5 + shared - shared.mean() + rng.normal(0, 0.3, n)
    items = mean_influence(values, "items", Resampling(items=True))
    mean = float(values.mean())
    return Measurement("seat", mean, (mean - 0.1, mean + 0.1), n, neutral=0.0, influence=items)


@pytest.mark.nightly
def test_of_surveys_of_equal_models_at_most_5_in_100_call_any_difference_real(tmp_path: Path) -> None:
    rng, single, alarms, surveys = np.random.default_rng(31), 0, 0, 60
    for number in range(surveys):
        models = {name: drawn(rng) for name in "abcd"}
        differences = written(tmp_path / str(number), models).differences
        single += sum(each.p is not None and each.p < 0.05 for each in differences)
        alarms += any(each.real for each in differences)
    assert alarms <= 7  # of a binomial with 60 and 0.05 at most 1 in 100 draws is larger
    assert 8 <= single <= 30  # of 360 differences, 18 at the level of each by itself: the tests do not sleep


def test_a_model_that_runs_against_the_stereotype_is_as_far_from_neutral(tmp_path: Path) -> None:
    run = written(tmp_path, {"with": association(0.5, 1), "against": association(-0.5, 2)})
    assert [line.rank for line in run.table] == [1, 1]
    (difference,) = run.differences
    assert difference.value == pytest.approx(0.0, abs=1e-9)
    assert not difference.real


def test_a_copy_of_a_model_does_not_differ_and_other_data_are_not_compared(tmp_path: Path) -> None:
    (same,) = written(tmp_path / "same", {"a": association(0.5, 1), "copy": association(0.5, 1)}).differences
    assert (same.value, same.low, same.high, same.p, same.real) == (0.0, 0.0, 0.0, 1.0, False)
    others = [Measurement("seat", 0.1, (0.0, 0.2), 9, settings={"data_hash": each}) for each in "xy"]
    assert written(tmp_path / "other", dict(zip("ab", others, strict=True))).differences == []


def test_a_page_that_compares_seat_says_that_tokenizers_have_floors(tmp_path: Path) -> None:
    seats = {"a": association(0.5, 1), "b": association(0.8, 2)}
    page = report_html(open_contents(written(tmp_path / "seat", seats).folder))
    assert FLOORS in page_text(page)
    assert '"measure": "Word association (SEAT)"' in page  # the chart has the names of measures in full
    others = {name: replace(each, name="ss_paired", neutral=0.5) for name, each in seats.items()}
    run = written(tmp_path / "others", others)
    assert len(run.differences) == 1
    assert FLOORS not in page_text(report_html(open_contents(run.folder)))


def test_more_than_twelve_models_are_compared_with_the_first_alone(tmp_path: Path) -> None:
    few = written(tmp_path / "few", {f"m{i}": association(i / 10, i) for i in range(12)})
    many = written(tmp_path / "many", {f"m{i}": association(i / 10, i) for i in range(13)})
    assert len(few.differences) == 12 * 11 // 2
    assert [each.first for each in many.differences] == ["m0"] * 12
    assert "with the first of the list" in report_html(open_contents(many.folder))


def test_checkpoints_of_one_training_are_drawn_over_their_steps(tmp_path: Path) -> None:
    run = written(tmp_path, {f"t/step-{step}": association(step / 100, step) for step in (10, 20, 30)})
    assert [(line.run, line.step) for line in run.table] == [("t", 10), ("t", 20), ("t", 30)]
    page = report_html(open_contents(run.folder))
    assert "Checkpoints of a training" in page
    curve = page[page.index('"curve"') :]
    assert all(f'"step": {step}' in curve for step in (10, 20, 30))


# ---- the command, and Python


def test_the_command_prints_ranks_names_what_failed_and_says_where_parquet_is_not(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    models = tmp_path / "models.txt"
    models.write_text("\n".join([saved(tmp_path / "a"), saved(tmp_path / "b", 1), broken(tmp_path / "bad")]))
    options = ("--quick", "--measures", "seat", "--bias", "career", "-o", str(tmp_path / "run"))
    code, output, _ = typed("survey", str(models), *options)
    assert code == 0
    assert "could not be measured" in output
    assert FLOORS in output
    assert NO_PARQUET in output
    assert not (tmp_path / "run" / PARQUET).exists()
    printed = json.loads(typed("survey", str(models), *options, "--json")[1])
    with (tmp_path / "run" / TABLE.name).open(encoding="utf-8", newline="") as table:
        assert [line["model"] for line in csv.DictReader(table)] == [
            line["model"] for line in printed["models"]
        ]


def test_a_survey_of_broken_models_alone_is_not_measured(tmp_path: Path, typed: Typed) -> None:
    options = ("--measures", "seat", "-o", str(tmp_path / "run"))
    code, _, complaint = typed("survey", broken(tmp_path / "bad"), *options)
    assert code == 3
    assert "No model could be measured" in complaint


def test_a_survey_from_python_has_a_frame_and_a_chart(tmp_path: Path) -> None:
    result = lh.survey([saved(tmp_path / "a"), saved(tmp_path / "b", 1)], ASSOCIATION, tmp_path / "run")
    assert list(result.to_frame()["measure"]) == ["seat", "seat"]
    assert len(result.differences) == 1
    assert result.report.is_file()
    assert result.plot().to_dict()
    assert Survey.open(tmp_path / "run").table == result.table
