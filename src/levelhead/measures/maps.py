"""Scores of a model's heads: which are clear, do two maps agree, and which heads stand at the top of all?

Clear heads are those whose score holds on other items, farther than any head's does in null models
(docs/method/heads.md, Head scores). Scores b come from disjoint halves of the items, several splits:

    held[head] = mean over splits of  sign(b1) · min(|b1|, |b2|)   where b1 and b2 have one sign, else 0
    p[head] = (1 + #{null models whose largest |held| ≥ |held[head]|}) / (1 + K)

Agreement is Spearman's rho over all heads, compared with that of the same two maps in null models. For its
interval both maps are redrawn, b* = b + stderr · N(0, 1), and the redraws' distances from their own mean are
put around rho on Fisher's scale, because redrawing adds the noise once more and lowers every rho:

    z = atanh rho,   interval = tanh(z + quantiles of (z* − mean z*) at 2.5 % and 97.5 %)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.errors import BadProbe
from levelhead.measures.certificate import LEVEL as LEVEL
from levelhead.measures.measurement import ENOUGH, NULL_MODELS, Measurement, Null
from levelhead.measures.null import MANY, NullDistribution, futile, share, spent_p
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling, alike, spearman

AGREEMENT, HALVES = "agreement of maps", "agreement of halves"
CONSTANT = "constant scores"  # which have no ranks to compare
FEWEST = 3  # null models that a spread is estimated from
_LARGEST = 1 - 1e-9  # |rho| at which Fisher's scale ends
_SHARE = 0.1  # of the heads: the top of a map


def held_scores(halves: npt.ArrayLike) -> FloatArray:
    """What both halves say, in the mean over splits: [split, half, layer, head] -> [layer, head]"""
    first, second = np.moveaxis(_checked(halves), 1, 0)
    smaller = np.minimum(np.abs(first), np.abs(second))
    return np.asarray(np.where(first * second > 0, np.sign(first) * smaller, 0.0).mean(axis=0))


def half_agreement(halves: npt.ArrayLike) -> FloatArray:
    """Spearman's rho between the halves of each split, [split]; nan where a half has constant scores."""
    agreement = [
        np.nan
        if alike(one) or alike(other)
        else float(scipy.stats.spearmanr(one.ravel(), other.ravel()).statistic)
        for one, other in _checked(halves)
    ]
    return np.array(agreement, np.float64)


@dataclass(frozen=True)
class HeadTest:
    """Scores that hold on other items, and how they compare with null models."""

    held: FloatArray  # [layer, head]
    p_value: FloatArray  # [layer, head], corrected for the number of heads
    largest: Measurement  # the largest |held|, with that of null models as its null

    @property
    def clear(self) -> npt.NDArray[np.bool_]:
        """Which heads are clear: [layer, head]"""
        return np.asarray(self.p_value <= LEVEL)


def largest_held(null_models: npt.ArrayLike) -> NullDistribution:
    """The largest |held| of each null model, from half scores [null model, split, half, layer, head]."""
    values = [np.abs(held_scores(null_model)).max() for null_model in np.asarray(null_models, np.float64)]
    return NullDistribution(np.array(values))


def head_test(halves: npt.ArrayLike, null_models: npt.ArrayLike, planned: int | None = None) -> HeadTest:
    """Compare a model's half scores [split, half, layer, head] with those of its null models [null model,
    split, half, ...].

    Null models must have been scored on the same splits as the model, as many of them: then the test by rank
    is exact. planned: how many were to come, in rounds (null.py); with fewer than 19 the test is Student's.
    None: there are no rounds, and the test is by rank.
    """
    own, others = _checked(halves), np.asarray(null_models, np.float64)
    if others.shape[1:] != own.shape or len(others) < 2:
        raise BadProbe(
            f"Scores {own.shape} need [null model, *same shape] of 2 or more null models (got {others.shape})"
        )
    held = held_scores(own)
    sizes = np.abs(held)
    value = float(sizes.max())
    largest = largest_held(others)
    ranked = planned is None or planned >= ENOUGH  # with fewer, p by rank cannot be 0.05
    if planned is not None:
        stopped = not ranked and futile(largest.p_value(value, "logarithm"), len(largest), planned)
        spent = share(len(largest), planned)
        largest = replace(largest, share=spent, futile=stopped, planned=planned)
    if ranked:
        p_values = (1 + (largest.values[:, None, None] >= sizes).sum(axis=0)) / (1 + len(largest))
    else:
        student = [largest.p_value(size, "logarithm") for size in sizes.ravel().tolist()]
        divided = [min(1.0, p / largest.share) if largest.share else 1.0 for p in student]
        p_values = np.reshape(divided, sizes.shape)

    # the largest |held| itself: the exact p, or Student's where null models are too few for it
    p, how = largest.p_value(value, upper=True), "exact"
    if len(largest) < MANY and min(value, largest.values.min()) > 0:
        p, how = largest.p_value(value, "logarithm"), f"Student's t of logarithms{largest.looked}"
    said = f"{NULL_MODELS}; p one-sided, {how}"
    p = spent_p(p, largest.share)
    null = Null(said, len(largest), largest.floor, largest.spread, p, planned=largest.planned)
    measured = Measurement("largest held score", value, n=held.size, null=null)
    return HeadTest(held, np.asarray(p_values, np.float64), measured)


def _checked(halves: npt.ArrayLike) -> FloatArray:
    values = np.asarray(halves, np.float64)
    if values.ndim != 4 or values.shape[1] != 2 or not np.isfinite(values).all():
        raise BadProbe(f"Half scores must be finite [split, 2, layer, head] (got shape {values.shape})")
    return values


@dataclass(frozen=True, eq=False)
class ScoredMap:
    """Scores of all heads with their standard errors, nan where they are not known."""

    values: FloatArray  # [layer, head]
    stderr: FloatArray


def map_agreement(first: ScoredMap, second: ScoredMap, resampling: Resampling = DEFAULT) -> Measurement:
    """Spearman's rho of two maps, with the interval that their standard errors leave."""
    plain = spearman(first.values.ravel(), second.values.ravel())
    how = resampling.settings("scores redrawn with their standard errors, Fisher's scale", "scores")
    if plain.value is None:
        return Measurement.missing(AGREEMENT, CONSTANT, n=plain.n, neutral=0.0)
    if not all(np.isfinite(each.stderr).all() for each in (first, second)):
        how = {"interval": "none: the scores have no standard errors"}
        return Measurement(AGREEMENT, plain.value, n=plain.n, neutral=0.0, settings=how)
    rng = np.random.default_rng(resampling.seed)
    centered = []
    for each in (first, second):
        noise = rng.standard_normal((resampling.resamples, each.values.size))
        ranks = scipy.stats.rankdata(each.values.ravel() + noise * each.stderr.ravel(), axis=1)
        centered.append(ranks - ranks.mean(axis=1, keepdims=True))
    norms = [np.sqrt((each**2).sum(axis=1)) for each in centered]
    drawn = (centered[0] * centered[1]).sum(axis=1) / np.maximum(norms[0] * norms[1], 1e-300)
    z = _fisher(drawn)
    tail = (1 - resampling.level) / 2
    low, high = np.quantile(z - z.mean(), [tail, 1 - tail]) + float(_fisher(np.array(plain.value)))
    interval = (math.tanh(low), math.tanh(high))
    return Measurement(AGREEMENT, plain.value, interval, n=plain.n, neutral=0.0, settings=how)


def _fisher(rho: FloatArray) -> FloatArray:
    return np.asarray(np.arctanh(np.clip(rho, -_LARGEST, _LARGEST)), np.float64)


def against_null_models(measured: Measurement, nulls: Sequence[float]) -> Measurement:
    """A rank correlation compared with that of null models; unchanged where those are fewer than 3."""
    if measured.value is None or len(nulls) < FEWEST:
        return measured
    values = NullDistribution(np.asarray(nulls))
    p = NullDistribution(_fisher(values.values)).p_value(float(_fisher(np.array(measured.value))), "student")
    method = f"{NULL_MODELS}; p two-sided, Student's t on Fisher's scale"
    null = Null(method, len(values), values.floor, values.spread, max(p, 1e-12))
    return replace(measured, null=null)


def halves_agreement(halves: npt.ArrayLike, nulls: Sequence[npt.ArrayLike]) -> Measurement:
    """How far halves [split, 2, layer, head] rank heads alike, averaged over splits, against null models."""
    own, *drawn = (rho[np.isfinite(rho)] for rho in map(half_agreement, (halves, *nulls)))
    if not own.size:
        return Measurement.missing(HALVES, CONSTANT, neutral=0.0)
    measured = Measurement(HALVES, float(own.mean()), n=int(own.size), neutral=0.0)
    return against_null_models(measured, [float(each.mean()) for each in drawn if each.size])


@dataclass(frozen=True)
class SharedTop:
    """Units that stand among the k highest of every map."""

    k: int
    units: tuple[int, ...]  # by their places in the flat map
    by_chance: float  # how many unrelated maps would share
    in_null_models: float | None  # how many the null models' maps share, on average
    p: float | None  # exact: of as many in null models


def shared_top(maps: Sequence[npt.ArrayLike], nulls: Sequence[Sequence[npt.ArrayLike]]) -> SharedTop:
    """The units at the top of all maps; nulls: the same maps in every null model.

    n units, m maps: unrelated maps share n · (k / n)^m of their k highest, k a tenth of the units.
    """
    size = np.size(maps[0])
    k = max(1, round(_SHARE * size))
    # the units among the k highest of all maps, ties by place: of these maps, then of every null model's
    shared = []
    for group in (maps, *nulls):
        tops = [set(np.argsort(-np.ravel(each), kind="stable")[:k].tolist()) for each in group]
        shared.append(set.intersection(*tops))
    own, counts = shared[0], [len(each) for each in shared[1:]]
    p = (1 + sum(count >= len(own) for count in counts)) / (1 + len(counts)) if counts else None
    mean = float(np.mean(counts)) if counts else None
    return SharedTop(k, tuple(sorted(own)), size * (k / size) ** len(maps), mean, p)
