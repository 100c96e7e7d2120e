"""A mean of differences whose items are not independent: sentences share templates, attribute words and
targets.

The mean is tested once for each way in which items hang together, and the largest p counts. Under one
clustering

    t = mean / sqrt( G / (G − 1) · Σ_g (Σ_{i in g} (d_i − mean))² ) · n        G clusters, n items
    p = share of sign flips of whole clusters with a mean as far from 0         (measures/sign_flips.py)

t is the usual cluster-robust one (Liang and Zeger 1986) with G − 1 degrees of freedom; p comes from sign
flips, which need no normality and stay exact for few clusters. Definitions: docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.sign_flips import mean_of_rows, sign_flips
from levelhead.measures.statistics import DEFAULT, FloatArray, Interval, Resampling, mean_interval


@dataclass(frozen=True)
class ClusterTest:
    """The test of a mean under one clustering."""

    clusters: int
    t: float
    p_value: float
    interval: Interval | None


def cluster_t(values: FloatArray, group: npt.NDArray[np.int64]) -> float:
    """Cluster-robust t of a mean against 0; NaN with one cluster or no spread between clusters."""
    sums = np.bincount(group, weights=values - values.mean())
    clusters = sums.size
    spread = float((sums**2).sum())
    if clusters < 2 or spread <= 1e-24 * float((values**2).sum()):
        return math.nan
    return float(values.mean() * values.size / math.sqrt(clusters / (clusters - 1) * spread))


def cluster_test(
    values: npt.ArrayLike, labels: npt.ArrayLike, resampling: Resampling = DEFAULT
) -> ClusterTest:
    """Test a mean of values [item] against 0 where items with one label belong together."""
    d = np.asarray(values, np.float64)
    group = np.unique(np.asarray(labels), return_inverse=True)[1].ravel().astype(np.int64)
    if d.ndim != 1 or group.size != d.size or not np.isfinite(d).all() or d.size < 2:
        raise BadProbe(
            f"Values {d.shape} with {group.size} labels came; give one label for each finite value."
        )
    p_value = sign_flips(d, mean_of_rows, group, seed=resampling.seed).p_value
    return ClusterTest(
        int(group.max()) + 1, cluster_t(d, group), p_value, mean_interval(d, resampling, group)
    )


def clustered_mean(
    name: str,
    values: npt.ArrayLike,
    clusterings: Mapping[str, npt.ArrayLike],
    resampling: Resampling = DEFAULT,
) -> Measurement:
    """The mean of values [item] with the interval and the p-value of the clustering that is least sure.

    values: differences such as original − counter, or biased − regular heads, one for each sentence; NaN:
    unscored. clusterings: for example template, attribute word and target word, each a label for every
    item. The details hold t, p and the number of clusters of every clustering.
    """
    d = np.asarray(values, np.float64)
    scored = np.isfinite(d)
    unscored = {} if scored.all() else {"item without a value": int((~scored).sum())}
    known: dict[str, Any] = {"n": int(scored.sum()), "neutral": 0.0, "unscored": unscored}
    if not clusterings or scored.sum() < 2:
        reason = f"{known['n']} scored items, at least 2 are needed" if clusterings else "no clustering given"
        return Measurement.missing(name, reason, **known)
    tests = {
        key: cluster_test(d[scored], np.asarray(own)[scored], resampling) for key, own in clusterings.items()
    }
    weakest = max(tests, key=lambda key: tests[key].p_value)
    details: dict[str, float | None] = {"p_value": tests[weakest].p_value}
    for key, test in tests.items():
        details |= {f"t by {key}": None if math.isnan(test.t) else test.t, f"p by {key}": test.p_value}
        details[f"clusters by {key}"] = float(test.clusters)
    settings = {
        **resampling.settings("BCa bootstrap", weakest),
        "p": "sign flips by cluster, the largest counts",
    }
    widest = _widest([test.interval for test in tests.values()])
    return Measurement(name, float(d[scored].mean()), widest, details=details, settings=settings, **known)


def _widest(intervals: list[Interval | None]) -> Interval | None:
    """No interval if one clustering has none: it would be the least sure."""
    known = [interval for interval in intervals if interval is not None]
    return max(known, key=lambda ends: ends[1] - ends[0]) if len(known) == len(intervals) else None
