"""Differences of two runs: item by item, which removes what both have in common, else from two intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from levelhead.edits.head import Head
from levelhead.inference.contents import Contents
from levelhead.measures.cloze.log_odds import NAME as LOG_ODDS
from levelhead.measures.cloze.log_odds import NO_TOP_K
from levelhead.measures.glue import glue_difference
from levelhead.measures.influence import paired_test
from levelhead.measures.measurement import Measurement
from levelhead.measures.occupations import OccupationTable, Predictions, occupation_table
from levelhead.measures.statistics import (
    FloatArray,
    Resampling,
    Statistic,
    bootstrap,
    mean_interval,
    spearman,
)
from levelhead.probes.nli.labels import NEUTRAL
from levelhead.results import layout
from levelhead.results.codec import Record
from levelhead.results.records.cloze import OccupationLine
from levelhead.results.records.common import BASE
from levelhead.results.runs import GlueRun, PromptsRun, SweepRun

UNPAIRED = "unpaired: from the two intervals"
_NORMAL = 1.959964  # half the width of a 95 % interval, in standard errors
_DATA_HASH = "data_hash"  # the setting of a measurement that names its data


@dataclass(frozen=True)
class Column:
    """One column of a comparison: a run, and which variant of its model."""

    label: str
    contents: Contents
    variant: str = BASE
    within: bool = False  # compared with other variants of the same run, so on their items


@dataclass(frozen=True)
class Difference(Record):
    """Second minus first, and how it was computed."""

    value: float
    interval: tuple[float, float] | None
    n: int
    how: str
    paired: bool
    p: float | None = None  # that there is no difference, before any correction; None: not tested


@dataclass(frozen=True)
class HeadChanges(Record):
    """Two models of one shape: do the same heads carry the bias?"""

    rank_correlation: Measurement
    heads: int
    became_biased: int  # score above 0 in the second model only
    left_biased: int  # score above 0 in the first model only
    p: float | None  # exact test that both ways are equally frequent; None where no head changed sides


def paired_differences(first: Column, second: Column) -> dict[str, Difference]:
    """Measures for which both runs kept the answer to each item, about the same items."""
    differences = _inferences(first, second) | _glue_scores(first, second)
    for name, k in (("margin", None), (LOG_ODDS, NO_TOP_K)):
        if (difference := _by_occupation(first, second, name, k)) is not None:
            differences[name] = difference
    return differences


def same_data(first: Measurement, second: Measurement) -> bool:
    """Whether two measurements were asked on the same words, sentences or texts."""
    return first.settings.get(_DATA_HASH) == second.settings.get(_DATA_HASH)


def item_difference(first: Measurement, second: Measurement) -> Difference | None:
    """Second minus first from what each item adds to either; None where they did not keep the same items."""
    if first.value is None or second.value is None or not same_data(first, second):
        return None
    test = paired_test(first, second)
    if test is None:
        return None
    how = f"paired by {', '.join(first.influence)}"
    n = min(first.n, second.n)
    return Difference(second.value - first.value, test.interval, n, how, True, test.p)


def measured_difference(first: Measurement | None, second: Measurement | None) -> Difference | None:
    """By what each item adds, where both runs kept it, else from the two intervals."""
    if first is None or second is None:
        return None
    return item_difference(first, second) or _unpaired(first, second)


def _unpaired(first: Measurement, second: Measurement) -> Difference | None:
    """Second minus first with an interval made of their two; none where they were asked on other data.

        low = d − sqrt( (b − low_b)² + (high_a − a)² ),   high = d + sqrt( (high_b − b)² + (a − low_a)² )

    p is that of a normal z = 1.96 |d| / (the side of the interval that reaches for 0). Right for independent
    runs; for the same probes it is as a rule too wide. Reference: Zou and Donner 2008 (MOVER).
    """
    if first.value is None or second.value is None or not same_data(first, second):
        return None
    a, b = first.value, second.value
    value, n = b - a, min(first.n, second.n)
    if first.interval is None or second.interval is None:
        return Difference(value, None, n, "unpaired, no interval", False)
    (low_a, high_a), (low_b, high_b) = first.interval, second.interval
    low, high = value - math.hypot(b - low_b, high_a - a), value + math.hypot(high_b - b, a - low_a)
    toward = value - low if value > 0 else high - value
    p = math.erfc(_NORMAL * abs(value) / toward / math.sqrt(2)) if toward > 0 else None
    return Difference(value, (low, high), n, UNPAIRED, False, p)


# ---- heads


def head_changes(first: Column, second: Column) -> HeadChanges | None:
    """Do two models of one shape have their bias in the same heads? Rank correlation, and heads that changed
    sides."""
    a, b = _scores(first), _scores(second)
    if not a or a.keys() != b.keys() or not _same_words(first, second):
        return None
    x, y = np.array([a[head] for head in a]), np.array([b[head] for head in a])
    became, left = int(((x <= 0) & (y > 0)).sum()), int(((x > 0) & (y <= 0)).sum())
    p = float(stats.binomtest(became, became + left).pvalue) if became + left else None
    return HeadChanges(spearman(x, y), len(x), became, left, p)


def _same_words(first: Column, second: Column) -> bool:
    hashes = [
        None if column.contents.heads is None else column.contents.heads.data.hashes.get(layout.WORDS_HASH)
        for column in (first, second)
    ]
    return hashes[0] == hashes[1]


def _scores(column: Column) -> dict[Head, float]:
    """Scores of the unmodified model; changed models have none."""
    heads = column.contents.heads
    if heads is None or column.variant != BASE:
        return {}
    return {score.head: score.score for score in heads.scores}


# ---- CounterActs


def _by_occupation(first: Column, second: Column, name: str, k: int | None) -> Difference | None:
    """A measure without knowledge, occupation by occupation; k None: the k that stands for all."""
    one, other = first.contents.prompts, second.contents.prompts
    if one is None or other is None or one.settings.shown_k != other.settings.shown_k:
        return None
    if one.data.hashes.get(layout.PROMPTS_HASH) != other.data.hashes.get(layout.PROMPTS_HASH):
        return None
    shown_k = one.settings.shown_k if k is None else k
    a, b = (_values(run, column.variant, name, shown_k) for run, column in ((one, first), (other, second)))
    shared = [occupation for occupation in a if occupation in b]
    if len(shared) < 2:
        return None
    change = np.array([(b[each].value or 0.0) - (a[each].value or 0.0) for each in shared])
    if name == LOG_ODDS:
        change = _toward(change, [a[each].group == one.settings.groups[0] for each in shared])
    interval = mean_interval(change, Resampling())
    return Difference(float(change.mean()), interval, len(shared), "paired by occupation", True)


def _toward(change: FloatArray, in_first: Sequence[bool]) -> FloatArray:
    """Changes of the odds as parts of the measure, whose mean is half the gap between the two groups."""
    first = np.asarray(in_first)
    weights = np.where(
        first, first.size / (2 * max(1, first.sum())), -first.size / (2 * max(1, (~first).sum()))
    )
    return np.asarray(change * weights, dtype=np.float64)


def _values(run: PromptsRun, variant: str, name: str, k: int) -> dict[str, OccupationLine]:
    """By occupation; one without a group word among the top k has a margin of 0, as in the measure."""
    lines = run.occupations(run.settings.models[0], variant)
    return {line.occupation: line for line in lines if (line.name, line.kind, line.k) == (name, BASE, k)}


# ---- GLUE


def _glue_scores(first: Column, second: Column) -> dict[str, Difference]:
    """Scores of two runs on the same items, paired by seed and by item as recipes of one run are."""
    one, other = first.contents.glue, second.contents.glue
    if one is None or other is None or one is other:  # within one run, the run has paired them itself
        return {}
    shared = {task.data_hash for task in other.tasks}
    differences: dict[str, Difference] = {}
    for task in (task for task in one.tasks if task.data_hash in shared):
        a, b = _by_seed(one, task.task, first.variant), _by_seed(other, task.task, second.variant)
        seeds = sorted(a.keys() & b.keys())
        for metric in task.metrics if seeds else ():
            before, after = ([answers[seed] for seed in seeds] for answers in (a, b))
            gap = glue_difference(metric, task.gold.values, before, after)
            low, high = gap.interval
            how = f"paired by item and by seed ({len(seeds)} of them)"
            differences[task.measure(metric)] = Difference(
                gap.points / 100, (low / 100, high / 100), task.dev, how, True
            )
    return differences


def _by_seed(run: GlueRun, task: str, recipe: str) -> dict[int, list[float]]:
    own = (unit for unit in run.units if (unit.task, unit.recipe) == (task, recipe))
    return {unit.seed: unit.predictions.values for unit in own}


# ---- inferences


def _inferences(first: Column, second: Column) -> dict[str, Difference]:
    """Accuracy, parity and fairness from the stored labels, resampling whole occupations for both models at
    once."""
    one, other = first.contents.sweep, second.contents.sweep
    if one is None or other is None:
        return {}
    if one.data.hashes.get(layout.PROBE_HASH) != other.data.hashes.get(layout.PROBE_HASH):
        return {}
    a, b = _occupations(one, first.variant), _occupations(other, second.variant)
    if a is None or b is None:
        return {}
    return {
        "accuracy": _difference(a.accuracy, b.accuracy, a.right.size),
        "parity": _difference(a.parity, b.parity, a.right.size),
        "fairness": _difference(a.fairness, b.fairness, a.right.size),
    }


def _occupations(run: SweepRun, variant: str) -> OccupationTable | None:
    """The classifier's answers in one setting, occupation by occupation; None while they are not complete."""
    names = list(dict.fromkeys(each.variant for each in run.inferences))
    if variant not in names:
        return None
    digits = "".join(chunk[names.index(variant)].labels for chunk in run.answers)
    shape = (run.settings.occupations, run.settings.contexts, 2)
    if len(digits) != math.prod(shape):
        return None
    return occupation_table(Predictions.of_grid(list(map(int, digits)), shape, NEUTRAL))


def _difference(first: Statistic, second: Statistic, n: int) -> Difference:
    """One share of both models on the same draws of n occupations."""

    def change(counts: FloatArray) -> FloatArray:
        return second(counts) - first(counts)

    value = float(change(np.ones((1, n)))[0])
    return Difference(value, bootstrap(change, n), n, "paired by occupation", True)
