"""Runs side by side: models, one model before and after, a release and the one before it.

Differences are taken item by item where both runs kept the answer to each item, which removes what both have
in common, else from the two intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import stats

from levelhead.errors import BadOption
from levelhead.inference.contents import Contents, before, changes, measurements, open_contents, variants
from levelhead.inference.verdicts import info_of
from levelhead.measures.catalog import bias_size
from levelhead.measures.fairness import Predictions, occupation_table
from levelhead.measures.glue import glue_difference
from levelhead.measures.influence import paired_test
from levelhead.measures.log_odds import NAME as LOG_ODDS
from levelhead.measures.log_odds import NO_TOP_K
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling, Statistic, bootstrap, mean_interval, spearman
from levelhead.probes.nli import NEUTRAL
from levelhead.runs.common import BASE, SAME_ITEMS
from levelhead.runs.records import Record
from levelhead.runs.study import WORDS_HASH
from levelhead.studies.counteracts import PROMPTS_HASH
from levelhead.studies.projections import PROBE_HASH

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

    def measured(self) -> dict[str, Measurement]:
        untouched = self.within and self.variant == BASE
        own = before(self.contents) if untouched else measurements(self.contents, self.variant)
        return {each.name: each.measurement for each in own}


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


@dataclass(frozen=True)
class ComparedMeasure(Record):
    """One measure of every run, and its differences from the first run."""

    title: str
    reading: str
    digits: int
    values: tuple[Measurement | None, ...]  # [run]
    differences: tuple[Difference | None, ...]  # [run but the first]


@dataclass(frozen=True)
class Comparison(Record):
    """Runs, or variants of one run, side by side: every measure and every head, as far as they compare."""

    runs: tuple[str, ...]  # their labels
    measures: Mapping[str, ComparedMeasure]
    heads: tuple[HeadChanges | None, ...]  # [run but the first]


def compare(folders: Sequence[str | Path]) -> Comparison:
    """Put runs side by side; a single run is compared with its own changed models."""
    opened = [open_contents(folder) for folder in folders]
    if len(folders) == 1:
        names = [name for name in variants(opened[0]) if name != SAME_ITEMS]
        if len(names) == 1:
            raise BadOption(f"{folders[0]} has one model only. Give a second run folder to compare it with.")
        columns = [Column("before" if name == BASE else name, opened[0], name, within=True) for name in names]
    else:
        models = [contents.model for contents in opened]
        labels = [
            model if models.count(model) == 1 else f"{model} ({folder})"
            for model, folder in zip(models, folders, strict=True)
        ]
        columns = [Column(label, contents) for label, contents in zip(labels, opened, strict=True)]
    tables = [column.measured() for column in columns]
    names = list(dict.fromkeys(name for table in tables for name in table))
    if not names:
        raise BadOption(
            "These runs have no measure to compare. Give runs of audit, heads, counteracts, projections, "
            "glue, generate or benchmark."
        )
    paired = [paired_differences(columns[0], column) for column in columns[1:]]
    measures = {}
    for name in names:
        having = next(column for column, table in zip(columns, tables, strict=True) if name in table)
        info = info_of(having.contents, name)  # as the first run that has the measure shows it
        values = [table.get(name) for table in tables]
        differences = tuple(
            pairs.get(name) or measured_difference(values[0], other)
            for pairs, other in zip(paired, values[1:], strict=True)
        )
        shown = tuple(each and replace(each, influence={}) for each in values)
        measures[name] = ComparedMeasure(info.title, info.reading, info.digits, shown, differences)
    heads = tuple(head_changes(columns[0], column) for column in columns[1:])
    return Comparison(tuple(column.label for column in columns), measures, heads)


def change_from(
    baseline: Contents, contents: Contents, variant: str, name: str, signed: bool
) -> Difference | str:
    """What a measure changed by since the baseline's unmodified model, or the reason why that is not known.

    signed: both directions are bias, so that the absolute value is compared.
    """
    first, second = Column("baseline", baseline), Column("run", contents, variant)
    known = []
    for whose, column in (("the baseline", first), ("this run", second)):
        each = column.measured().get(name)
        if each is None or each.value is None:
            return f"{whose} did not measure it" if each is None else f"{whose}: {each.reason}"
        known.append(bias_size(each, 0.0) if signed else each)
    old, new = known
    paired = paired_differences(first, second).get(name)
    # Answers that only files keep are about values as they are, and so are not used for mirrored ones.
    as_stored = paired is not None and math.isclose(
        paired.value, (new.value or 0.0) - (old.value or 0.0), abs_tol=1e-9
    )
    change = paired if as_stored else measured_difference(old, new)
    return "evaluated on other items than in the baseline" if change is None else change


# ---- differences of one measure


def measured_difference(first: Measurement | None, second: Measurement | None) -> Difference | None:
    """By what each item adds, where both runs kept it, else from the two intervals; none where they were
    evaluated on other data.

        low = d − sqrt( (b − low_b)² + (high_a − a)² ),   high = d + sqrt( (high_b − b)² + (a − low_a)² )

    p is that of a normal z = 1.96 |d| / (the side of the interval that reaches for 0). Right for independent
    runs; for the same probes it is as a rule too wide. Reference: Zou and Donner 2008 (MOVER).
    """
    if first is None or second is None or first.settings.get(_DATA_HASH) != second.settings.get(_DATA_HASH):
        return None
    if first.value is None or second.value is None:
        return None
    a, b = first.value, second.value
    value, n = b - a, min(first.n, second.n)
    if (test := paired_test(first, second)) is not None:
        return Difference(value, test.interval, n, f"paired by {', '.join(first.influence)}", True, test.p)
    if first.interval is None or second.interval is None:
        return Difference(value, None, n, "unpaired, no interval", False)
    (low_a, high_a), (low_b, high_b) = first.interval, second.interval
    low, high = value - math.hypot(b - low_b, high_a - a), value + math.hypot(high_b - b, a - low_a)
    toward = value - low if value > 0 else high - value
    p = math.erfc(_NORMAL * abs(value) / toward / math.sqrt(2)) if toward > 0 else None
    return Difference(value, (low, high), n, UNPAIRED, False, p)


def head_changes(first: Column, second: Column) -> HeadChanges | None:
    """Do two models of one shape have their bias in the same heads? Rank correlation, and heads that changed
    sides."""
    one, other = first.contents.heads, second.contents.heads
    if one is None or other is None or (first.variant, second.variant) != (BASE, BASE):
        return None  # changed models have no scores
    a, b = ({score.head: score.score for score in run.scores} for run in (one, other))
    words = [run.data.hashes.get(WORDS_HASH) for run in (one, other)]
    if not a or a.keys() != b.keys() or words[0] != words[1]:
        return None
    x, y = np.array([a[head] for head in a]), np.array([b[head] for head in a])
    became, left = int(((x <= 0) & (y > 0)).sum()), int(((x > 0) & (y <= 0)).sum())
    p = float(stats.binomtest(became, became + left).pvalue) if became + left else None
    return HeadChanges(spearman(x, y), len(x), became, left, p)


# ---- item by item, from answers that only files keep


def paired_differences(first: Column, second: Column) -> dict[str, Difference]:
    """Measures for which both runs kept the answer to each item, about the same items; within one run also
    what the run itself paired."""
    differences = _inferences(first, second) | _glue_scores(first, second)
    for name, k in (("margin", None), (LOG_ODDS, NO_TOP_K)):
        if (difference := _by_occupation(first, second, name, k)) is not None:
            differences[name] = difference
    if first.contents is second.contents:
        for name, each in changes(second.contents, second.variant).items():
            change, how = each.measurement, "paired by the run"
            if change.value is not None and change.neutral == 0.0:  # ratios are no differences
                differences[name] = Difference(change.value, change.interval, change.n, how, True)
    return differences


def _by_occupation(first: Column, second: Column, name: str, k: int | None) -> Difference | None:
    """A measure of CounterActs prompts without knowledge; k None: the k that stands for all."""
    one, other = first.contents.counteracts, second.contents.counteracts
    if one is None or other is None or one.settings.shown_k != other.settings.shown_k:
        return None
    if one.data.hashes.get(PROMPTS_HASH) != other.data.hashes.get(PROMPTS_HASH):
        return None
    wanted = (name, BASE, one.settings.shown_k if k is None else k)
    a, b = (
        {
            line.occupation: line
            for line in run.occupations(run.settings.models[0], column.variant)
            if (line.name, line.kind, line.k) == wanted
        }
        for run, column in ((one, first), (other, second))
    )
    shared = [occupation for occupation in a if occupation in b]
    if len(shared) < 2:
        return None
    # An occupation without a group word among the top k has a margin of 0, as in the measure.
    change = np.array([(b[each].value or 0.0) - (a[each].value or 0.0) for each in shared])
    if name == LOG_ODDS:  # parts of the measure, whose mean is half the gap between the two groups
        own = np.asarray([a[each].group == one.settings.groups[0] for each in shared])
        weights = np.where(own, own.size / (2 * max(1, own.sum())), -own.size / (2 * max(1, (~own).sum())))
        change = np.asarray(change * weights, dtype=np.float64)
    interval = mean_interval(change, Resampling())
    return Difference(float(change.mean()), interval, len(shared), "paired by occupation", True)


def _glue_scores(first: Column, second: Column) -> dict[str, Difference]:
    """Scores of two runs on the same items, paired by seed and by item as recipes of one run are."""
    one, other = first.contents.glue, second.contents.glue
    if one is None or other is None or one is other:  # within one run, the run has paired them itself
        return {}
    shared = {task.data_hash for task in other.tasks}
    differences: dict[str, Difference] = {}
    for task in (task for task in one.tasks if task.data_hash in shared):
        a, b = (
            {
                unit.seed: unit.predictions.values
                for unit in run.units
                if (unit.task, unit.recipe) == (task.task, column.variant)
            }
            for run, column in ((one, first), (other, second))
        )
        seeds = sorted(a.keys() & b.keys())
        for metric in task.metrics if seeds else ():
            old, new = ([answers[seed] for seed in seeds] for answers in (a, b))
            gap = glue_difference(metric, task.gold.values, old, new)
            interval = (gap.interval[0] / 100, gap.interval[1] / 100)
            how = f"paired by item and by seed ({len(seeds)} of them)"
            differences[task.measure(metric)] = Difference(gap.points / 100, interval, task.dev, how, True)
    return differences


def _inferences(first: Column, second: Column) -> dict[str, Difference]:
    """Accuracy, parity and fairness from the stored labels, resampling whole occupations for both models at
    once."""
    one, other = first.contents.projections, second.contents.projections
    if one is None or other is None:
        return {}
    if one.data.hashes.get(PROBE_HASH) != other.data.hashes.get(PROBE_HASH):
        return {}
    tables = []
    for run, variant in ((one, first.variant), (other, second.variant)):
        names = list(dict.fromkeys(each.variant for each in run.inferences))
        if variant not in names:
            return {}
        digits = "".join(chunk[names.index(variant)].labels for chunk in run.answers)
        shape = (run.settings.occupations, run.settings.contexts, 2)
        if len(digits) != math.prod(shape):
            return {}  # not complete yet
        tables.append(occupation_table(Predictions.of_grid(list(map(int, digits)), shape, NEUTRAL)))
    a, b = tables
    n = a.right.size

    def difference(old: Statistic, new: Statistic) -> Difference:
        interval = bootstrap(lambda counts: new(counts) - old(counts), n)
        value = float((new(np.ones((1, n))) - old(np.ones((1, n))))[0])
        return Difference(value, interval, n, "paired by occupation", True)

    return {
        "accuracy": difference(a.accuracy, b.accuracy),
        "parity": difference(a.parity, b.parity),
        "fairness": difference(a.fairness, b.fairness),
    }
