"""Scores of GLUE tasks, what a change costs, and whether the data can show it (docs/method/sentences.md,
GLUE).

Every metric is a function of weighted items, so that one bootstrap and one jackknife serve all of them:

    accuracy   Σ w [y = ŷ] / Σ w
    F1         2 TP / (2 TP + FP + FN),  class 1 is positive
    Matthews   (TP·TN − FP·FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN)),  0 where a margin is empty
    Pearson    cov_w(y, ŷ) / (sd_w(y) sd_w(ŷ))
    Spearman   Pearson of the ranks, ranks of the whole set
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.errors import BadOption
from levelhead.measures.measurement import GlueVerdict
from levelhead.measures.statistics import DEFAULT, Interval, Resampling, alike, bootstrap, in_chunks

Doubles = npt.NDArray[np.float64]
METRICS = ("accuracy", "f1", "matthews", "pearson", "spearman")


def weighted_score(metric: str, gold: Doubles, predicted: Doubles, weight: Doubles) -> Doubles:
    """The score of gold and predicted [item] when each item counts weight [draw, item] times: [draw]"""
    if metric not in METRICS:
        raise BadOption(f"metric must be one of {', '.join(METRICS)} (got {metric})")
    if metric == "accuracy":
        return np.asarray(weight @ (gold == predicted) / weight.sum(axis=1))
    if metric in ("pearson", "spearman"):
        if metric == "spearman":
            gold, predicted = scipy.stats.rankdata(gold), scipy.stats.rankdata(predicted)
        share = weight / weight.sum(axis=1, keepdims=True)
        gold, predicted = gold - gold.mean(), predicted - predicted.mean()
        mean_gold, mean_predicted = share @ gold, share @ predicted
        covariance = share @ (gold * predicted) - mean_gold * mean_predicted
        spread = (share @ gold**2 - mean_gold**2) * (share @ predicted**2 - mean_predicted**2)
        fine = spread > 1e-24
        return np.asarray(np.where(fine, covariance / np.sqrt(np.where(fine, spread, 1)), 0.0))
    positive, chosen = gold == 1, predicted == 1
    cells = (positive & chosen, ~positive & chosen, positive & ~chosen, ~positive & ~chosen)
    hits, false_alarms, misses, rejections = (weight @ cell.astype(np.float64) for cell in cells)
    if metric == "f1":
        total = 2 * hits + false_alarms + misses
        return np.asarray(np.where(total > 0, 2 * hits / np.where(total > 0, total, 1), 0.0))
    margins = (hits + false_alarms) * (hits + misses) * (rejections + false_alarms) * (rejections + misses)
    product = hits * rejections - false_alarms * misses
    return np.asarray(np.where(margins > 0, product / np.sqrt(np.where(margins > 0, margins, 1)), 0.0))


def glue_score(metric: str, gold: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    truth, answers = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    return float(weighted_score(metric, truth, answers, np.ones((1, len(truth))))[0])


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

    seeds = tuple(glue_score(metric, truth, each) for each in answers)
    interval = bootstrap(
        lambda weight: np.asarray(
            np.mean([weighted_score(metric, truth, each, weight) for each in answers], axis=0)
        ),
        len(truth),
        resampling,
    )
    return GlueScore(float(np.mean(seeds)), seeds, interval)


@dataclass(frozen=True)
class GlueDifference:
    """A changed model against the base, paired by seed and by item, in points of the metric (0 to 100)."""

    points: float
    interval: Interval
    verdict: GlueVerdict
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
        raise BadOption(f"base and changed need as many seeds (got {len(base)} and {len(changed)})")
    if margin < 0:
        raise BadOption(f"margin must be at least 0 points (got {margin:g})")
    truth = np.asarray(gold, np.float64)
    pairs = [
        (np.asarray(before, np.float64), np.asarray(after, np.float64))
        for before, after in zip(base, changed, strict=True)
    ]
    n, whole = truth.size, np.ones((1, truth.size))

    def gap(before: Doubles, after: Doubles, weight: Doubles) -> Doubles:
        return weighted_score(metric, truth, after, weight) - weighted_score(metric, truth, before, weight)

    by_seed, of_items = np.array([gap(*pair, whole)[0] for pair in pairs]), []
    for pair in pairs:
        # pseudo-values N d − (N − 1) d without item i; items with the same labels share one computation
        items = np.stack([truth, *pair], axis=1)
        _, first, kind = np.unique(items, axis=0, return_index=True, return_inverse=True)
        left_out, done = [], 0
        for size in in_chunks(first.size, n):
            weight = np.ones((size, n))
            weight[np.arange(size), first[done : done + size]] = 0.0
            left_out.append(gap(*pair, weight))
            done += size
        of_items.append((n * gap(*pair, whole)[0] - (n - 1) * np.concatenate(left_out))[kind.ravel()])
    value, by_item = float(by_seed.mean()), np.mean(of_items, axis=0)

    # t(df) sqrt(V); df = V² / Σ V_k² / df_k over the parts V_k of V (Satterthwaite 1946). Where no item and
    # no seed differs, V = 0 would read as certainty: the bound is then the largest share of differing items
    # that leaves N items alike with a chance of 1 − level, 1 − (1 − level)^(1/N).
    half = float(1 - (1 - level) ** (1 / n))
    if not alike(by_item, by_seed):
        parts = [
            (float(np.var(each, ddof=1)) / each.size, each.size - 1)
            for each in (by_item, by_seed)
            if each.size > 1
        ]
        variance = sum(part for part, _ in parts)
        freedom = variance**2 / sum(part**2 / df for part, df in parts)
        half = float(scipy.stats.t.ppf(0.5 + level / 2, freedom)) * math.sqrt(variance)
    low, high = 100 * (value - half), 100 * (value + half)
    verdict: GlueVerdict = "not inferior" if low > -margin else "not shown"
    if high < 0:
        verdict = "costs"
    elif low > 0:
        verdict = "gains"
    return GlueDifference(100 * value, (low, high), verdict, margin)
