"""The GLUE study: units, table and verdicts; a killed run ends with the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.edits.sites import Head
from levelhead.engine import training
from levelhead.engine.effort import Speed
from levelhead.engine.finetuning import finetune
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.errors import BadOption, BadProbe, BadRun
from levelhead.measures.glue import glue_difference, glue_score
from levelhead.mitigation.recipe import Recipe
from levelhead.progress import plain_lines
from levelhead.runs.common import BASE
from levelhead.runs.folder import RESULTS, SETTINGS
from levelhead.runs.study import open_run
from levelhead.studies.glue import CHECKPOINTS, Glue
from levelhead.studies.glue import run as study
from levelhead.studies.glue.records import Answers, GlueTaskUsed, GlueUnit
from levelhead.studies.glue.run import exams_of, glue, glue_cells, glue_costs
from levelhead.studies.glue.settings import GlueSettings
from tests.glue_files import write_glue
from tests.tiny import tiny

ROOT = Path(__file__).resolve().parents[2]
TRAINING = Hyperparameters(epochs=2, batch_size=8, learning_rate=2e-3)
CLOSED = Recipe(gates={Head(1, 2): 0.0})
RECIPES = {"closed": CLOSED, "halved": Recipe(gates={Head(0, 0): 0.5})}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_glue(tmp_path_factory.mktemp("glue")))


def settings(data: str, **changed: Any) -> GlueSettings:
    return GlueSettings(
        **{"data": data, "tasks": ("rte", "stsb"), "seeds": 2, "training": TRAINING, **changed}
    )


@pytest.fixture(scope="module")
def run(data: str, tmp_path_factory: pytest.TempPathFactory) -> Glue:
    return glue(tiny("bert"), settings(data), tmp_path_factory.mktemp("run") / "run", RECIPES)


# ---- what a run holds


def test_every_task_recipe_and_seed_is_one_unit(run: Glue) -> None:
    units = {(unit.task, unit.recipe, unit.seed) for unit in run.units}
    assert units == {
        (task, recipe, seed) for task in ("rte", "stsb") for recipe in (BASE, *RECIPES) for seed in (0, 1)
    }
    assert run.settings.names == ("closed", "halved")
    assert run.settings.training.learning_rate == 2e-3
    assert [recipe.closed for recipe in run.recipes] == [(), (Head(1, 2),), ()]
    assert isinstance(open_run(run.folder), Glue)
    assert not (run.folder / CHECKPOINTS).exists()


def test_scores_are_the_metrics_of_the_stored_predictions(run: Glue) -> None:
    gold = {task.task: task.gold.values for task in run.tasks}
    for unit in run.units:
        for metric, score in unit.scores.items():
            assert score == glue_score(metric, gold[unit.task], unit.predictions.values)
    cell = next(c for c in run.cells if (c.task, c.recipe, c.metric) == ("stsb", "closed", "pearson"))
    scores = [u.scores["pearson"] for u in run.units if (u.task, u.recipe) == ("stsb", "closed")]
    assert cell.seeds == pytest.approx(scores)
    assert cell.measurement.value == pytest.approx(np.mean(scores))
    assert cell.measurement.name == "glue/stsb"
    assert {c.measurement.name for c in run.cells} == {"glue/rte", "glue/stsb", "glue/stsb spearman"}


def test_costs_are_paired_by_seed_and_by_item(run: Glue) -> None:
    predictions = {
        recipe: [u.predictions.values for u in run.units if (u.task, u.recipe) == ("rte", recipe)]
        for recipe in (BASE, "closed")
    }
    gold = next(task.gold.values for task in run.tasks if task.task == "rte")
    difference = glue_difference("accuracy", gold, predictions[BASE], predictions["closed"])
    cost = next(c for c in run.costs if (c.task, c.recipe) == ("rte", "closed"))
    low, high = difference.interval
    assert cost.measurement.value == pytest.approx(difference.points / 100)
    assert cost.measurement.interval == pytest.approx((low / 100, high / 100))
    assert cost.verdict == difference.verdict
    assert cost.sentence.startswith(difference.sentence())


def test_learning_curves_end_with_the_score_of_the_unit(run: Glue) -> None:
    for unit in run.units:
        metric = next(task.metrics[0] for task in run.tasks if task.task == unit.task)
        scores = [point.score for point in unit.curve if point.score is not None]
        assert len(scores) == TRAINING.epochs
        assert scores[-1] == pytest.approx(unit.scores[metric], abs=1e-4)


def test_answers_are_stored_compactly_and_read_back() -> None:
    assert Answers.of([1.0, 0.0, 2.0], regression=False) == Answers("102", ())
    assert Answers("102", ()).values == [1.0, 0.0, 2.0]
    assert Answers.of([0.12345678, 5.0], regression=True).values == [0.1234568, 5.0]


# ---- chance


def made_up(gold: str, predictions: dict[str, list[str]]) -> tuple[list[GlueTaskUsed], list[GlueUnit]]:
    task = GlueTaskUsed("rte", ("accuracy",), 10, len(gold), {}, Answers(gold, ()))
    units = [
        GlueUnit("rte", recipe, seed, {}, Answers(answers, ()), ())
        for recipe, by_seed in predictions.items()
        for seed, answers in enumerate(by_seed)
    ]
    return [task], units


def test_a_model_that_is_not_above_chance_is_called_noise_and_one_that_is_is_not() -> None:
    gold = "01" * 100
    tasks, units = made_up(gold, {BASE: ["0" * 200] * 2, "closed": ["1" * 200] * 2})
    cells = glue_cells(tasks, units)
    assert cells[0].majority == 0.5
    assert not cells[0].learned
    assert "this task shows nothing" in glue_costs(tasks, units, cells, 1.0)[0].sentence
    tasks, units = made_up(gold, {BASE: [gold] * 2, "closed": ["0" * 200] * 2})
    cells = glue_cells(tasks, units)
    (cost,) = glue_costs(tasks, units, cells, 1.0)
    assert cells[0].learned
    assert cost.verdict == "costs"
    assert cost.sentence.startswith("costs 50.0 points")
    assert "nothing" not in cost.sentence


# ---- interrupted


class Killed(Exception):
    """What stands for SIGKILL."""


def run_few(data: str, folder: Path) -> Glue:
    """Two tasks, the unmodified model and one recipe, one seed: four trainings."""
    return glue(tiny("bert"), settings(data, seeds=1), folder, {"closed": CLOSED})


@pytest.fixture(scope="module")
def unbroken(data: str, tmp_path_factory: pytest.TempPathFactory) -> Glue:
    return run_few(data, tmp_path_factory.mktemp("unbroken") / "run")


@pytest.mark.nightly
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(
    unbroken: Glue, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def die_in_the_third(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise Killed
        return finetune(*given)

    with monkeypatch.context() as patch:
        patch.setattr(study, "finetune", die_in_the_third)
        with pytest.raises(Killed):
            run_few(data, tmp_path / "run")
    assert len(Glue.open(tmp_path / "run").units) == 2
    again = run_few(data, tmp_path / "run")
    for name in (RESULTS, SETTINGS):
        assert (again.folder / name).read_bytes() == (unbroken.folder / name).read_bytes()


def die_in_the_second_training(patch: pytest.MonkeyPatch, die: Callable[[], None]) -> None:
    """Checkpoints are kept at every step. Six steps are a training; the fifth of the second is the last."""
    taken, moved = count(1), training.Progress.on_step_end

    def dying(*given: Any, **more: Any) -> None:
        if next(taken) == 11:
            die()
        moved(*given, **more)

    patch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    patch.setattr(training.Progress, "on_step_end", dying)


def break_off(data: str, folder: Path) -> None:
    def die() -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        die_in_the_second_training(patch, die)
        with pytest.raises(Killed):
            run_few(data, folder)


DIES = """
import os, pathlib, signal, sys
import pytest
from tests.studies.test_glue import die_in_the_second_training, run_few

die_in_the_second_training(pytest.MonkeyPatch(), lambda: os.kill(os.getpid(), signal.SIGKILL))
run_few(sys.argv[1], pathlib.Path(sys.argv[2]))
"""


def kill(data: str, folder: Path) -> None:
    child = subprocess.run([sys.executable, "-c", DIES, data, str(folder)], cwd=ROOT, capture_output=True)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize("end", [break_off, pytest.param(kill, marks=pytest.mark.nightly)])
def test_a_run_that_ends_inside_a_training_goes_on_and_ends_with_the_same_bytes(
    end: Callable[[str, Path], None], unbroken: Glue, data: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    end(data, folder)
    assert len(Glue.open(folder).units) == 1
    steps = {path.name for path in (folder / CHECKPOINTS).glob("*/checkpoint-*")}
    assert "checkpoint-4" in steps
    again = run_few(data, folder)
    for name in (RESULTS, SETTINGS):
        assert (again.folder / name).read_bytes() == (unbroken.folder / name).read_bytes()
    assert not (folder / CHECKPOINTS).exists()


def test_a_run_belongs_to_its_settings_and_recipes(run: Glue, data: str) -> None:
    with pytest.raises(BadRun, match="seeds 2 there, 3 here"):
        glue(tiny("bert"), settings(data, seeds=3), run.folder, RECIPES)
    with pytest.raises(BadRun, match="recipe closed"):
        glue(tiny("bert"), settings(data), run.folder, {**RECIPES, "closed": Recipe(gates={Head(0, 1): 0.0})})


# ---- one line


def test_wrong_settings_are_one_line(data: str, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"seeds must be at least 1 \(got 0\)"):
        GlueSettings(data, seeds=0)
    with pytest.raises(BadOption, match="'base', which is the unmodified model's name"):
        glue(tiny("bert"), settings(data), tmp_path / "run", {BASE: CLOSED})
    with pytest.raises(BadOption, match="no GLUE task 'ax'"):
        glue(tiny("bert"), settings(data, tasks=("ax",)), tmp_path / "run")
    with pytest.raises(BadOption, match=r"data must be a folder with a GLUE task's train\.tsv and dev\.tsv"):
        glue(tiny("bert"), GlueSettings(str(tmp_path)), tmp_path / "run")
    with pytest.raises(BadProbe, match=r"QNLI/train\.tsv: cannot be read"):
        glue(tiny("bert"), settings(data, tasks=("qnli",)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_tasks_those_of_the_folder_are_taken_each_once(data: str) -> None:
    assert [task.name for task in GlueSettings(data).chosen()] == ["rte", "sst2", "cola", "mrpc", "stsb"]
    assert [task.name for task in GlueSettings(data, ("rte", "RTE", "mrpc")).chosen()] == ["rte", "mrpc"]
    assert len(GlueSettings("hub:glue").chosen()) == 9


# ---- how long it takes


@pytest.mark.parametrize(("seconds", "told"), [(1.0, True), (1e-9, False)], ids=["long", "short"])
def test_before_long_trainings_one_line_says_how_long_they_take_and_what_is_shorter(
    seconds: float,
    told: bool,
    data: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(study, "speed_of", lambda model: Speed(seconds))
    one = settings(data, tasks=("rte",), seeds=1, train_rows=8)
    with plain_lines():
        glue(tiny("bert"), one, tmp_path / "run")
        said = capsys.readouterr().err
        glue(tiny("bert"), one, tmp_path / "run")  # nothing is left to train
    assert "This takes about" not in capsys.readouterr().err
    announced = [line for line in said.splitlines() if "This takes about" in line]
    assert len(announced) == told
    assert all("--train-rows" in line for line in announced)
    assert "GLUE" in said.split("This takes about")[-1]  # it stands before the first training


def test_a_training_is_as_long_as_its_examples_and_its_epochs(data: str) -> None:
    (exam,) = exams_of(settings(data, tasks=("rte",)))
    rows = len(exam.train.items)
    whole, half = (exam.tokens(TRAINING, each) for each in (rows, rows // 2))
    assert half < whole < 2 * half  # all of dev is asked after either
    assert exam.tokens(TRAINING, 10 * rows) == whole
    assert exam.tokens(replace(TRAINING, epochs=4), rows) == pytest.approx(2 * whole)
