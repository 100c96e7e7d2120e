"""A GLUE run with made-up answers: a task that is learned, one of 71 items that is not, and a score."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelhead.edits.sites import Head
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.runs.common import BASE
from levelhead.runs.folder import Run
from levelhead.runs.study import WEIGHTS_HASH
from levelhead.studies.glue import Glue
from levelhead.studies.glue.records import (
    Answers,
    GlueRecipe,
    GlueTaskUsed,
    GlueUnit,
    LearningPoint,
)
from levelhead.studies.glue.run import glue_cells, glue_costs
from levelhead.studies.glue.settings import GlueStored
from tests.report.synthetic.measurements import HOSTILE, WEIGHTS

HALVED = f"halved {HOSTILE}"
SEEDS = 2
DEV = {"sst2": 400, "wnli": 71, "stsb": 120}
_METRICS = {"sst2": ("accuracy",), "wnli": ("accuracy",), "stsb": ("pearson", "spearman")}
_WRONG = {"sst2": 0.2, "wnli": 0.5, "stsb": 0.5}  # share of wrong answers, or the noise of a score


def write_glue_run(
    folder: Path, model: str = "lh:tiny", closed: str = "closed", worse: float = 0.0, seed: int = 0
) -> Path:
    """The unmodified model, one without a head, which answers so much more wrongly, and one with a gate."""
    recipes = [
        GlueRecipe(BASE, (), ""),
        GlueRecipe(closed, (Head(3, 4),), "[[gate]]\nlayer = 4\nhead = 5\nvalue = 0.0\n"),
        GlueRecipe(HALVED, (), "[[gate]]\nlayer = 1\nhead = 1\nvalue = 0.5\n"),
    ]
    more = {BASE: 0.0, closed: worse, HALVED: 0.0}
    tasks = [_task(name) for name in DEV]
    settings = _settings(model, tuple(each.name for each in recipes[1:]), seed)
    with Run.open(folder, Glue, settings, hashes={WEIGHTS_HASH: WEIGHTS}) as run:
        run.results(Glue.recipes, recipes.copy)
        run.results(Glue.tasks, tasks.copy)
        units = [
            _unit(task, recipe.name, each, more[recipe.name])
            for task in tasks
            for each in range(SEEDS)
            for recipe in recipes
        ]
        for unit in units:
            run.results(Glue.units.of(f"{unit.task}/{unit.recipe}/{unit.seed}"), [unit].copy)
        cells = run.results(Glue.cells, lambda: glue_cells(tasks, units))
        run.results(Glue.costs, lambda: glue_costs(tasks, units, cells, 1.0))
    return folder


def _settings(model: str, recipes: tuple[str, ...], seed: int) -> GlueStored:
    return GlueStored(
        study=Glue.name,
        seed=seed,
        models=(model,),
        data="my glue",
        tasks=tuple(DEV),
        names=recipes,
        seeds=SEEDS,
        train_rows=100,
        margin=1.0,
        training=Hyperparameters(epochs=2, batch_size=8, learning_rate=2e-3, max_length=64),
    )


def _task(name: str) -> GlueTaskUsed:
    regression = name == "stsb"
    gold = [i % 6 if regression else i % 2 for i in range(DEV[name])]
    return GlueTaskUsed(name, _METRICS[name], 100, DEV[name], {}, Answers.of(gold, regression))


def _unit(task: GlueTaskUsed, recipe: str, seed: int, more: float) -> GlueUnit:
    rng = np.random.default_rng([seed, len(recipe), task.dev])
    gold, regression = np.array(task.gold.values), task.task == "stsb"
    wrong = _WRONG[task.task] + more
    answers = gold + rng.normal(0, 3 * wrong, gold.size)
    if not regression:
        answers = np.where(rng.random(gold.size) < wrong, 1 - gold, gold)
    curve = (
        LearningPoint(6, 0.5, 0.7, None),
        LearningPoint(13, 1.0, None, 0.6),
        LearningPoint(26, 2.0, 0.5, None),
        LearningPoint(26, 2.0, None, 0.7),
    )
    scores = {task.metrics[0]: 0.7}
    return GlueUnit(task.task, recipe, seed, scores, Answers.of(answers.tolist(), regression), curve)
