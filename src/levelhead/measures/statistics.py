"""Intervals, p-values and ranks: how sure a number is (docs/method/statistics.md, Statistics).

Every draw comes from numpy's Generator with a stated seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.errors import BadOption, BadProbe
from levelhead.measures.measurement import Measurement

FloatArray = npt.NDArray[np.float64]
Interval = tuple[float, float]
Statistic = Callable[[FloatArray], FloatArray]  # how often each item was drawn [r, item] -> value [r]

ROUNDING = 1e-12  # of the largest value: what the order of a sum of doubles can change
_CELLS = 2_000_000  # counts held at once, so that memory does not grow with resamples × items
_JACKKNIFE_LIMIT = 2_000  # beyond it the acceleration, of order 1/sqrt(n), changes no printed digit


@dataclass(frozen=True)
class Resampling:
    """How an interval is drawn: how many resamples, from which seed, at which level."""

    resamples: int = 2_000
    seed: int = 0
    level: float = 0.95
    items: bool = False  # also keep what each item adds (measures/influence.py)

    def __post_init__(self) -> None:
        if self.resamples < 100 or self.seed < 0 or not 0 < self.level < 1:
            raise BadOption(f"{self}: allowed are 100 or more resamples, a seed of 0 or more, 0 < level < 1.")

    def settings(self, method: str, items: str) -> dict[str, object]:
        """What a result must state about its interval."""
        drawn = {"resamples": self.resamples, "seed": self.seed, "level": self.level}
        return {"interval": method, "resampled": items, **drawn}


DEFAULT = Resampling()


def draw_counts(rng: np.random.Generator, resamples: int, sizes: npt.ArrayLike) -> FloatArray:
    """How often each item is drawn [resample, item], when every stratum is resampled to its size.

    The strata stand side by side: `sizes` are their numbers of items.
    """
    size = np.asarray(sizes, dtype=np.int64)
    start = np.repeat(np.cumsum(size) - size, size)
    n = int(size.sum())
    drawn = start + (rng.random((resamples, n)) * np.repeat(size, size)).astype(np.int64)
    drawn += n * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * n).reshape(resamples, n).astype(np.float64)


def alike(*values: npt.ArrayLike) -> bool:
    """Whether the values of each array differ by rounding alone, which is another on each processor."""
    arrays = [np.asarray(each, dtype=np.float64) for each in values]
    return all(bool(np.ptp(each) <= ROUNDING * np.abs(each).max()) for each in arrays if each.size)


def in_chunks(resamples: int, n: int) -> list[int]:
    """Sizes of the batches in which resamples of n items are drawn."""
    step = max(1, _CELLS // max(n, 1))
    return [min(step, resamples - done) for done in range(0, resamples, step)]


def bootstrap(statistic: Statistic, n: int, resampling: Resampling = DEFAULT) -> Interval | None:
    """Interval of a statistic over n items by the bias-corrected, accelerated bootstrap (BCa).

    The statistic sees how often each item was drawn and answers a value for each resample; clusters are items
    too, a paired difference is a statistic that uses the same counts twice.

        level(z) = Φ( z0 + (z0 + z) / (1 − a (z0 + z)) ),   z = ± t(level, n − 1) · sqrt(n / (n − 1))

    z0 from the share of resamples below the estimate (ties half), a from the jackknife. Percentiles are too
    narrow for small n; the factor and Student's t repair that. None when n < 2 or too few resamples have a
    value. References: Efron 1987; Hesterberg 2015 ("expanded percentile").
    """
    if n < 2:
        return None
    sizes = in_chunks(resampling.resamples, n)
    rng = np.random.default_rng(resampling.seed)
    drawn: Iterable[FloatArray] = (draw_counts(rng, size, [n]) for size in sizes)
    if len(sizes) == 1:
        drawn = [_only_batch(n, sizes[0], resampling.seed)]
    replicates = np.concatenate([statistic(counts) for counts in drawn])
    replicates = replicates[np.isfinite(replicates)]
    if replicates.size < 0.95 * resampling.resamples:
        return None
    estimate = statistic(np.ones((1, n)))[0]
    tied = np.abs(replicates - estimate) <= ROUNDING * np.abs(replicates).max()
    below = np.mean(np.where(tied, 0.5, replicates < estimate))
    edge = 0.5 / resampling.resamples
    z0 = scipy.special.ndtri(
        np.clip(below, edge, 1 - edge)
    )  # scipy.stats.norm.ppf without its checks, which take longer
    z = scipy.special.stdtrit(n - 1, 0.5 + resampling.level / 2) * math.sqrt(n / (n - 1))
    shifted = z0 + np.array([-z, z])
    # the acceleration is the skewness of the jackknife values: a = Σ L³ / (6 (Σ L²)^1.5), L_i = mean − value
    # without item i
    acceleration = 0.0
    if n <= _JACKKNIFE_LIMIT:
        values = np.concatenate([statistic(1.0 - np.eye(n)[i : i + 500]) for i in range(0, n, 500)])
        influence = values.mean() - values if np.isfinite(values).all() else np.zeros(1)
        with np.errstate(over="ignore", invalid="ignore"):  # powers of values near the largest float
            spread = (influence**2).sum()
            skewness = float((influence**3).sum() / (6 * spread**1.5)) if spread > 0 else 0.0
        acceleration = skewness if math.isfinite(skewness) else 0.0
    levels = scipy.special.ndtr(z0 + shifted / (1 - acceleration * shifted))
    low, high = np.quantile(replicates, levels)
    return float(low), float(high)


# a table has many means over the same items
_only_batch = lru_cache(maxsize=4)(lambda n, size, seed: draw_counts(np.random.default_rng(seed), size, [n]))


def mean_interval(
    values: npt.ArrayLike, resampling: Resampling = DEFAULT, clusters: npt.ArrayLike | None = None
) -> Interval | None:
    """Bootstrap interval of a mean; with clusters (one label for each value) whole clusters are drawn.

    mean = Σ_c count_c · sum_c / Σ_c count_c · size_c
    """
    statistic, drawn = cluster_mean("mean_interval", values, clusters)
    return bootstrap(statistic, drawn, resampling)


def mean_share_interval(
    values: npt.ArrayLike, resampling: Resampling = DEFAULT, clusters: npt.ArrayLike | None = None
) -> Interval | None:
    """mean_interval of values in 0..1; Wilson's over the clusters when every resample is the same."""
    statistic, drawn = cluster_mean("mean_share_interval", values, clusters)
    return share_interval(statistic, drawn, resampling)


def cluster_mean(name: str, values: npt.ArrayLike, clusters: npt.ArrayLike | None) -> tuple[Statistic, int]:
    """The mean as a statistic of how often each cluster was drawn, and the number of clusters."""
    value, group = clustered_values(name, values, clusters)
    sums, sizes = np.bincount(group, weights=value), np.bincount(group).astype(np.float64)
    return lambda counts: (counts @ sums) / (counts @ sizes), sums.size


def clustered_values(
    name: str, values: npt.ArrayLike, clusters: npt.ArrayLike | None
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Finite values and the number, from 0, of each one's cluster; without labels each is its own cluster."""
    value = finite_values(name, values)
    labels = np.arange(value.size) if clusters is None else np.asarray(clusters)
    group = np.unique(labels, return_inverse=True)[1].ravel().astype(np.int64)
    if group.size != value.size:
        raise BadProbe(f"{value.size} values need one label for each value (got {group.size} cluster labels)")
    return value, group


def wilson(share: float, n: int, level: float = 0.95) -> Interval:
    """Wilson's interval of a share of n items, which is not empty at 0 and 1, unlike a bootstrap's.

    (share + z²/2n ± z sqrt(share (1 − share)/n + z²/4n²)) / (1 + z²/n)     Reference: Wilson 1927.
    """
    z = float(scipy.special.ndtri(0.5 + level / 2))
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(max(share * (1 - share), 0.0) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def share_interval(statistic: Statistic, n: int, resampling: Resampling = DEFAULT) -> Interval | None:
    """Bootstrap interval of a share; Wilson's when equal resamples would read as certainty."""
    interval = bootstrap(statistic, n, resampling)
    if interval is not None and interval[0] < interval[1]:
        return interval
    return wilson(float(statistic(np.ones((1, n)))[0]), n, resampling.level) if n else None


def q_values(p_values: npt.ArrayLike) -> FloatArray:
    """Benjamini-Hochberg q-values, any shape: the false-discovery rate at which each test would just count.

        q_(i) = min_{j ≥ i} m p_(j) / j     p sorted upward, m tests

    NaN (no test) stays NaN and is not one of the m. Reference: Benjamini and Hochberg 1995.
    """
    p = np.asarray(p_values, dtype=np.float64)
    flat = p.ravel()
    tested = np.flatnonzero(~np.isnan(flat))
    order = tested[np.argsort(flat[tested], kind="stable")]
    scaled = flat[order] * (order.size / np.arange(1, order.size + 1))  # in this order no q falls below its p
    q = np.full(flat.size, np.nan)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q.reshape(p.shape)


def holm(p_values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> FloatArray:
    """Holm's adjusted p-values, any shape: a claim holds on a page of m claims if its own is below 0.05.

        p'_(i) = min(1, max_{j ≤ i} W_j p_(j) / w_(j)),   W_j = w_(j) + w_(j+1) + ... + w_(m)

    sorted by p / w upward. With equal weights W_j / w is m − j + 1. The chance that any of the claims is
    false is then at most 5 %, however the tests depend on each other, if weights do not depend on the data.
    NaN (no test) stays NaN and is not one of the m. Reference: Holm 1979.
    """
    p = np.asarray(p_values, dtype=np.float64)
    flat = p.ravel()
    weight = np.ones(flat.size) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    tested = np.flatnonzero(~np.isnan(flat))
    if tested.size and not (flat[tested].min() >= 0 and flat[tested].max() <= 1):
        raise BadProbe("A p-value for Holm's correction must lie in 0..1, or be NaN where there is none")
    if weight.size != flat.size or not (weight > 0).all():
        raise BadProbe(f"{flat.size} p-values need one weight above 0 each (got {weight.size} weights)")
    order = tested[np.argsort(flat[tested] / weight[tested], kind="stable")]
    remaining = np.cumsum(weight[order][::-1])[::-1]
    adjusted = np.full(flat.size, np.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(flat[order] * remaining / weight[order]))
    return adjusted.reshape(p.shape)


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> Measurement:
    """Spearman's rank correlation with its two-sided p-value: 1 same order, −1 opposite order, 0 unrelated.

    interval = tanh( atanh(rho) ± z · sqrt((1 + rho²/2) / (n − 3)) )     Reference: Bonett and Wright 2000.
    """
    a, b = finite_values("spearman", x), finite_values("spearman", y)
    if a.size != b.size:
        raise BadProbe(f"Spearman needs pairs (got {a.size} and {b.size} values)")
    known: dict[str, Any] = {"n": int(a.size), "neutral": 0.0, "settings": {"interval": "Bonett-Wright"}}
    if a.size < 3 or alike(a) or alike(b):
        return Measurement.missing(
            "spearman", "needs at least 3 pairs, with variation on both sides", **known
        )
    rho, p_value = (float(part) for part in scipy.stats.spearmanr(a, b))
    interval = None
    if a.size > 3:
        half = float(scipy.stats.norm.ppf(0.975)) * math.sqrt((1 + rho * rho / 2) / (a.size - 3))
        middle = math.atanh(min(1.0 - 1e-15, max(-1.0 + 1e-15, rho)))
        interval = (math.tanh(middle - half), math.tanh(middle + half))
    return Measurement("spearman", rho, interval, details={"p_value": p_value}, **known)


def paired_t_test(after: npt.ArrayLike, before: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """One-tailed paired t-test along the first axis: is `after` greater than `before`?

        t = mean(d) / (sd(d) / sqrt(n)),   d = after − before,   p = P(T_{n−1} ≥ t)

    Pairs with NaN are left out. t and p are NaN below 2 pairs and if sd(d) = 0.
    """
    d = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    n = np.sum(~np.isnan(d), axis=0)
    with np.errstate(all="ignore"):
        mean = np.nansum(d, axis=0) / n
        sd = np.sqrt(np.nansum((d - mean) ** 2, axis=0) / (n - 1))
        t = np.where((n > 1) & (sd > 1e-14 * np.abs(mean)), mean / (sd / np.sqrt(n)), np.nan)
    return np.asarray(t, dtype=np.float64), np.asarray(scipy.stats.t.sf(t, n - 1), dtype=np.float64)


def mean_sd(name: str, values: npt.ArrayLike, neutral: float | None = None) -> Measurement:
    """Mean over repetitions (seeds), their standard deviation (ddof = 1) and Student's interval."""
    value = finite_values(name, values)
    if not value.size:
        return Measurement.missing(name, "no repetition has a value", neutral=neutral)
    mean, sd, interval = float(value.mean()), None, None
    if value.size > 1:
        sd = float(value.std(ddof=1))
        half = float(scipy.stats.t.ppf(0.975, value.size - 1)) * sd / math.sqrt(value.size)
        interval = (mean - half, mean + half)
    known: dict[str, Any] = {"details": {"sd": sd}, "settings": {"interval": "Student's t over repetitions"}}
    return Measurement(name, mean, interval, int(value.size), neutral=neutral, **known)


def top_share_count(share: float, n: int) -> int:
    """ceil(share · n), the share as it is written: 0.07 of 100 is 7, not ceil(7.000000000000001)."""
    if not 0 < share <= 1:
        raise BadOption(f"share must be above 0 and at most 1, such as 0.10 for the top tenth (got {share})")
    return math.ceil(Fraction(str(float(share))) * n)


def top_mean(values: FloatArray, share: float) -> FloatArray:
    """The mean of the ceil(share · n) largest values of each row: [draw, item] -> [draw]"""
    rest = values.shape[1] - top_share_count(share, values.shape[1])
    return np.asarray(np.partition(values, rest, axis=1)[:, rest:].mean(axis=1), dtype=np.float64)


def finite_values(name: str, values: npt.ArrayLike) -> FloatArray:
    """A list of finite numbers as an array; the name says in an error who needs them."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise BadProbe(f"{name} needs one finite number per item, no NaN (got shape {array.shape})")
    return array
