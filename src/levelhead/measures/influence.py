"""What each item adds to a value, kept so that two runs on the same items can be compared item by item.

    influence of a unit = what the value changes by when the unit counts a little more, to first order
                        = ( T(1 + h e_i) − T(1 − h e_i) ) / 2h       T: the value by how often units count
    difference of two runs: d = b − a,   influence of a unit on d = that on b − that on a
    interval = d ± quantile · error,     symmetric studentized bootstrap over the units of every kind
    p = share of redraws with |t*| ≥ |d| / error

A unit is what the measure's own interval redraws. Two equal models have the difference 0 [0, 0]. References:
Efron and Tibshirani 1993 (infinitesimal jackknife), Davison and Hinkley 1997 (studentized bootstrap).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import (
    DEFAULT,
    ROUNDING,
    FloatArray,
    Interval,
    Resampling,
    Statistic,
    cluster_mean,
)

Influence = dict[str, tuple[float, ...]]  # kind of unit -> of each unit, in the order of the data
_STEP = 1e-3
_DIGITS = 6  # significant ones that are kept
_ROUNDED = 1e-5  # of the largest: what six digits and another processor's float32 sums can change
_ROWS = 500  # weights held at once
_CELLS = 1 << 23  # counts that are kept for another measure of the same units, 64 MiB


def influence(statistic: Statistic, n: int, unit: str, resampling: Resampling) -> Influence:
    """Of each of n units on a statistic; nothing where the resampling does not ask to keep items."""
    if not resampling.items or n < 2:
        return {}
    up, down = (
        np.concatenate([statistic(1.0 + sign * _STEP * np.eye(n)[i : i + _ROWS]) for i in range(0, n, _ROWS)])
        for sign in (1.0, -1.0)
    )
    return kept({unit: (up - down) / (2 * _STEP)}, resampling)


def mean_influence(
    values: npt.ArrayLike, unit: str, resampling: Resampling, clusters: npt.ArrayLike | None = None
) -> Influence:
    """Of each value, or of each cluster of values, on their mean."""
    if not resampling.items:
        return {}
    return influence(*cluster_mean(unit, values, clusters), unit, resampling)


def kept(by_kind: dict[str, FloatArray], resampling: Resampling) -> Influence:
    """Influences as a measurement keeps them; nothing unless items are kept and all are finite."""
    if not resampling.items or not all(np.isfinite(own).all() for own in by_kind.values()):
        return {}
    return {
        kind: tuple(float(f"{value:.{_DIGITS}g}") for value in own.tolist()) for kind, own in by_kind.items()
    }


class PairedTest(NamedTuple):
    """The difference of two runs on the same items: its 95 % interval, and p that there is none.

    p is None where no unit differs and the values still do: nothing tells how other items would differ.
    """

    interval: Interval
    p: float | None


def paired_test(first: Measurement, second: Measurement) -> PairedTest | None:
    """Second − first, tested by what each unit adds to either; None where they kept other units."""
    kinds = first.influence.keys()
    if not kinds or kinds != second.influence.keys() or first.value is None or second.value is None:
        return None
    if any(len(first.influence[kind]) != len(second.influence[kind]) for kind in kinds):
        return None
    gaps = [np.subtract(second.influence[kind], first.influence[kind]) for kind in kinds]
    difference = second.value - first.value
    largest = max(np.abs(run.influence[kind]).max(initial=0.0) for run in (first, second) for kind in kinds)
    if not any((np.abs(gap) > _ROUNDED * largest).any() for gap in gaps):
        same = abs(difference) <= _ROUNDED * max(abs(first.value), abs(second.value), largest)
        return PairedTest((difference, difference), 1.0 if same else None)
    drawn = studentized(gaps, DEFAULT)
    if drawn is None:
        return None
    t, error = drawn
    half = float(np.quantile(t, DEFAULT.level)) * error
    observed = abs(difference) / error
    p = float((1 + (t >= observed * (1 - ROUNDING)).sum()) / (1 + t.size))
    # where no redraw is as extreme, redraws can only say p < 1 / (1 + draws), which no correction for
    # hundreds of differences survives; there the tail is Student's, if that is smaller
    if p <= 1 / (1 + t.size):
        p = min(p, float(2 * scipy.stats.t.sf(observed, min(gap.size for gap in gaps) - 1)))
    return PairedTest((difference - half, difference + half), p)


def studentized(influences: Sequence[FloatArray], resampling: Resampling) -> tuple[FloatArray, float] | None:
    """|t*| of redraws, and the error of the value itself.

    The influences of each kind add up to 0; a kind of one unit leaves the error unknown.
    """
    if any(own.size < 2 for own in influences):
        return None
    total, variance = np.zeros(resampling.resamples), np.zeros(resampling.resamples)
    error = 0.0
    sizes = tuple(own.size for own in influences)
    drawn_by = _few_counts if resampling.resamples * sum(sizes) <= _CELLS else _counts
    counts = drawn_by(sizes, resampling.seed, resampling.resamples)
    for own, drawn in zip(influences, counts, strict=True):
        sums, squares = (drawn @ np.stack([own, own**2], axis=1)).T
        total += sums
        spread = squares - sums**2 / own.size
        variance += np.where(spread > ROUNDING * squares, spread, 0.0) * own.size / (own.size - 1)
        error += own.size * own.var(ddof=1)
    if not error > 0:
        return None
    with np.errstate(all="ignore"):
        t = np.abs(total) / np.sqrt(variance)
    return t[np.isfinite(t)], math.sqrt(error)


def _counts(sizes: tuple[int, ...], seed: int, resamples: int) -> Iterator[FloatArray]:
    """How often each unit is drawn, for each kind of so many units: [resample, unit]"""
    rng, every = np.random.default_rng(seed), np.arange(resamples)[:, None]
    for size in sizes:
        drawn = rng.integers(size, size=(resamples, size)) + size * every
        counts = np.bincount(drawn.ravel(), minlength=resamples * size).astype(np.float64)
        yield counts.reshape(resamples, size)


# SEAT, its numerator and its excess over null models redraw the same units
_few_counts = lru_cache(maxsize=2)(lambda *how: list(_counts(*how)))
