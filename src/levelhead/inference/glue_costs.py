"""GLUE's tables from stored trainings: every metric beside chance, and what each recipe costs (Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from levelhead.measures.glue import GlueDifference, glue_difference, majority_score, random_score, scored
from levelhead.measures.measurement import CHANGE, Measurement
from levelhead.results.records.common import BASE
from levelhead.results.records.glue import GlueCell, GlueCost, GlueTaskUsed, GlueUnit

_NOISE = "; noise: the unmodified model itself is not above chance here, so this task shows nothing"


def glue_cells(tasks: Sequence[GlueTaskUsed], units: Sequence[GlueUnit]) -> list[GlueCell]:
    """Table 2: every metric of every task, the mean over seeds, beside what needs no model at all."""
    cells = []
    for task in tasks:
        gold = task.gold.values
        for metric in task.metrics:
            chance = {"majority": majority_score(metric, gold), "random": random_score(metric, gold)}
            for recipe, predictions in _by_recipe(task, units).items():
                score = scored(metric, gold, predictions)
                known: dict[str, Any] = {
                    "n": len(gold),
                    "details": {"sd": score.sd},
                    "settings": {"data_hash": task.data_hash},
                }
                measurement = Measurement(task.measure(metric), score.value, score.interval, **known)
                cells.append(GlueCell(task.task, recipe, metric, measurement, score.seeds, **chance))
    return cells


def glue_costs(
    tasks: Sequence[GlueTaskUsed], units: Sequence[GlueUnit], cells: Sequence[GlueCell], margin: float
) -> list[GlueCost]:
    """Every recipe against the unmodified model, paired by seed and by item, with a verdict."""
    learned = {(cell.task, cell.metric): cell.learned for cell in cells if cell.recipe == BASE}
    costs = []
    for task in tasks:
        base, *changed = _by_recipe(task, units).items()
        for recipe, predictions in changed:
            for metric in task.metrics:
                difference = glue_difference(metric, task.gold.values, base[1], predictions, margin)
                shows = learned[task.task, metric]
                costs.append(_cost(task, recipe, metric, difference, shows))
    return costs


def _cost(
    task: GlueTaskUsed, recipe: str, metric: str, difference: GlueDifference, learned: bool
) -> GlueCost:
    name = f"{task.measure(metric)}{CHANGE}"
    low, high = difference.interval
    known: dict[str, Any] = {"n": task.dev, "neutral": 0.0, "settings": {"margin": difference.margin}}
    measurement = Measurement(name, difference.points / 100, (low / 100, high / 100), **known)
    sentence = difference.sentence() + ("" if learned else _NOISE)
    verdict, margin = difference.verdict, difference.margin
    return GlueCost(task.task, recipe, metric, measurement, verdict, margin, learned, sentence)


def _by_recipe(task: GlueTaskUsed, units: Sequence[GlueUnit]) -> dict[str, list[list[float]]]:
    """Predictions of a task, seed by seed, for every recipe; the unmodified model first."""
    by_recipe: dict[str, list[list[float]]] = {BASE: []}
    for unit in sorted((unit for unit in units if unit.task == task.task), key=lambda unit: unit.seed):
        by_recipe.setdefault(unit.recipe, []).append(unit.predictions.values)
    return by_recipe
