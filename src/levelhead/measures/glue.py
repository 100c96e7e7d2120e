"""Scores of GLUE tasks, what a change costs, and whether the data can show it (docs/method.md, GLUE).

Every metric is a function of weighted items, so that one bootstrap and one jackknife serve all of them: an
item that was drawn twice has weight 2, one that is left out has weight 0.

    accuracy   Σ w [y = ŷ] / Σ w
    F1         2 TP / (2 TP + FP + FN),  class 1 is positive
    Matthews   (TP·TN − FP·FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN)),  0 where a margin is empty
    Pearson    cov_w(y, ŷ) / (sd_w(y) sd_w(ŷ))
    Spearman   Pearson of the ranks, ranks of the whole set
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from levelhead.errors import BadOption
from levelhead.measures.statistics import DEFAULT, Resampling, alike, bootstrap, in_chunks

Doubles = npt.NDArray[np.float64]
Interval = tuple[float, float]
Verdict = Literal["costs", "gains", "not inferior", "not shown"]
Weighted = Callable[[Doubles, Doubles, Doubles], Doubles]  # gold, predicted [item], weight [draw, item]


def _accuracy(gold: Doubles, predicted: Doubles, weight: Doubles) -> Doubles:
    return np.asarray(weight @ (gold == predicted) / weight.sum(axis=1))


def _confusion(gold: Doubles, predicted: Doubles, weight: Doubles) -> tuple[Doubles, ...]:
    positive, chosen = gold == 1, predicted == 1
    cells = (positive & chosen, ~positive & chosen, positive & ~chosen, ~positive & ~chosen)
    return tuple(np.asarray(weight @ cell.astype(np.float64)) for cell in cells)


def _f1(gold: Doubles, predicted: Doubles, weight: Doubles) -> Doubles:
    hits, false_alarms, misses, _ = _confusion(gold, predicted, weight)
    total = 2 * hits + false_alarms + misses
    return np.asarray(np.where(total > 0, 2 * hits / np.where(total > 0, total, 1), 0.0))


def _matthews(gold: Doubles, predicted: Doubles, weight: Doubles) -> Doubles:
    hits, false_alarms, misses, rejections = _confusion(gold, predicted, weight)
    margins = (hits + false_alarms) * (hits + misses) * (rejections + false_alarms) * (rejections + misses)
    product = hits * rejections - false_alarms * misses
    return np.asarray(np.where(margins > 0, product / np.sqrt(np.where(margins > 0, margins, 1)), 0.0))


def _pearson(gold: Doubles, predicted: Doubles, weight: Doubles) -> Doubles:
    share = weight / weight.sum(axis=1, keepdims=True)
    gold, predicted = gold - gold.mean(), predicted - predicted.mean()  # or digits are lost in the squares
    mean_gold, mean_predicted = share @ gold, share @ predicted
    covariance = share @ (gold * predicted) - mean_gold * mean_predicted
    spread = (share @ gold**2 - mean_gold**2) * (share @ predicted**2 - mean_predicted**2)
    fine = spread > 1e-24
    return np.asarray(np.where(fine, covariance / np.sqrt(np.where(fine, spread, 1)), 0.0))


def _spearman(gold: Doubles, predicted: Doubles, weight: Doubles) -> Doubles:
    return _pearson(stats.rankdata(gold), stats.rankdata(predicted), weight)


METRICS: Mapping[str, Weighted] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews": _matthews,
    "pearson": _pearson,
    "spearman": _spearman,
}


def glue_score(metric: str, gold: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """The score of one model on one task."""
    truth, answers = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    return float(METRICS[metric](truth, answers, np.ones((1, len(truth))))[0])


def majority_score(metric: str, gold: npt.ArrayLike) -> float:
    """What always answering the most frequent class scores; a constant score predicts nothing: 0."""
    truth = np.asarray(gold, np.float64)
    values, counts = np.unique(truth, return_counts=True)
    return glue_score(metric, truth, np.full(len(truth), values[counts.argmax()]))


def random_score(metric: str, gold: npt.ArrayLike, resampling: Resampling = DEFAULT) -> float:
    """What answers drawn with the classes' own frequencies score on average: the gold labels, shuffled."""
    truth = np.asarray(gold, np.float64)
    rng = np.random.default_rng(resampling.seed)
    return float(np.mean([glue_score(metric, truth, rng.permutation(truth)) for _ in range(200)]))


@dataclass(frozen=True)
class GlueScore:
    """A score over seeds: the mean, its spread, and an interval over the items."""

    value: float
    seeds: tuple[float, ...]
    interval: Interval | None

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds, ddof = 1."""
        return float(np.std(self.seeds, ddof=1)) if len(self.seeds) > 1 else None


def scored(
    metric: str, gold: npt.ArrayLike, predictions: Sequence[npt.ArrayLike], resampling: Resampling = DEFAULT
) -> GlueScore:
    """The mean over seeds of a metric; the interval draws items, the same ones for all seeds."""
    truth = np.asarray(gold, np.float64)
    answers = [np.asarray(each, np.float64) for each in predictions]

    def mean(weight: Doubles) -> Doubles:
        return np.asarray(np.mean([METRICS[metric](truth, each, weight) for each in answers], axis=0))

    seeds = tuple(glue_score(metric, truth, each) for each in answers)
    return GlueScore(float(np.mean(seeds)), seeds, bootstrap(mean, len(truth), resampling))


@dataclass(frozen=True)
class GlueDifference:
    """A changed model against the base, paired by seed and by item, in points of the metric (0 to 100)."""

    points: float
    interval: Interval
    verdict: Verdict
    margin: float

    def sentence(self) -> str:
        """The verdict with its numbers."""
        low, high = self.interval
        bounds = f"{self.points:+.1f} points [{low:+.1f}, {high:+.1f}]"
        if self.verdict == "costs":
            within = f", less than the margin of {self.margin:g}" if low > -self.margin else ""
            return f"costs {-self.points:.1f} points [{-high:.1f}, {-low:.1f}]{within}"
        if self.verdict == "gains":
            return f"gains {self.points:.1f} points [{low:.1f}, {high:.1f}]"
        if self.verdict == "not inferior":
            return f"not worse by {self.margin:g} or more: {bounds}"
        return f"no cost that this much data can show: {bounds}"


def glue_difference(
    metric: str,
    gold: npt.ArrayLike,
    base: Sequence[npt.ArrayLike],
    changed: Sequence[npt.ArrayLike],
    margin: float = 1.0,
    level: float = 0.95,
) -> GlueDifference:
    """What a change costs: the mean over seeds s of d_s = changed − base, on the same items i.

        interval = mean d ± t(df) sqrt(V),   V = var_i(mean_s u_si) / N + var_s(d_s) / S

    u_si is the jackknife pseudo-value of item i in d_s: for accuracy, whether the changed model answers it
    rightly minus whether the base does. V answers for other items and for other trainings (what both share is
    counted twice, on the safe side); df is Satterthwaite's, so that few seeds give wide intervals. With one
    seed V has its first term alone and cannot answer for another training.
    """
    if len(base) != len(changed) or not base:
        raise BadOption(f"{len(base)} seeds of the base and {len(changed)} of the changed model came.")
    if margin < 0:
        raise BadOption(f"A margin of {margin:g} came; allowed are 0 and more points.")
    truth = np.asarray(gold, np.float64)
    pairs = [
        (np.asarray(before, np.float64), np.asarray(after, np.float64))
        for before, after in zip(base, changed, strict=True)
    ]
    whole = np.ones((1, truth.size))
    by_seed = np.array([_gap(metric, truth, *pair, whole)[0] for pair in pairs])
    by_item = np.mean([_pseudo_values(metric, truth, *pair) for pair in pairs], axis=0)
    value = float(by_seed.mean())
    half = _half_width(by_item, by_seed, level)
    low, high = 100 * (value - half), 100 * (value + half)
    return GlueDifference(100 * value, (low, high), _verdict(low, high, margin), margin)


def _gap(metric: str, gold: Doubles, base: Doubles, changed: Doubles, weight: Doubles) -> Doubles:
    return METRICS[metric](gold, changed, weight) - METRICS[metric](gold, base, weight)


def _pseudo_values(metric: str, gold: Doubles, base: Doubles, changed: Doubles) -> Doubles:
    """N d − (N − 1) d without item i, for every i; items with the same labels share one computation."""
    items = np.stack([gold, base, changed], axis=1)
    _, first, kind = np.unique(items, axis=0, return_index=True, return_inverse=True)
    n, left_out = gold.size, []
    done = 0
    for size in in_chunks(first.size, n):
        weight = np.ones((size, n))
        weight[np.arange(size), first[done : done + size]] = 0.0
        left_out.append(_gap(metric, gold, base, changed, weight))
        done += size
    whole = _gap(metric, gold, base, changed, np.ones((1, n)))[0]
    return np.asarray((n * whole - (n - 1) * np.concatenate(left_out))[kind.ravel()])


def _half_width(by_item: Doubles, by_seed: Doubles, level: float) -> float:
    """t(df) sqrt(V); df = V² / Σ V_k² / df_k over the parts V_k of V (Satterthwaite 1946).

    Where no item and no seed differs, V = 0 would read as certainty: the bound is then the largest share of
    differing items that leaves N items alike with a chance of 1 − level, 1 − (1 − level)^(1/N).
    """
    if alike(by_item, by_seed):
        return float(1 - (1 - level) ** (1 / by_item.size))
    parts = [
        (float(np.var(each, ddof=1)) / each.size, each.size - 1)
        for each in (by_item, by_seed)
        if each.size > 1
    ]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / df for part, df in parts)
    return float(stats.t.ppf(0.5 + level / 2, freedom)) * math.sqrt(variance)


def _verdict(low: float, high: float, margin: float) -> Verdict:
    if high < 0:
        return "costs"
    if low > 0:
        return "gains"
    return "not inferior" if low > -margin else "not shown"
