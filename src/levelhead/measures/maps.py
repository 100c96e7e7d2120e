"""Maps of scores over the heads of a model: do two of them agree, and which heads stand at the top of all?

Agreement is Spearman's rho over all heads. Its interval shows how far the standard errors of the scores leave
it open: both maps are redrawn, b* = b + stderr · N(0, 1), and the redraws' distances from their own mean are
put around rho, on Fisher's scale, because redrawing adds the noise once more and lowers every rho:

    z = atanh rho,   interval = tanh(z + quantiles of (z* − mean z*) at 2.5 % and 97.5 %)

Heads are no sample of heads, so nothing is drawn from them. Maps of one model agree where nothing means
anything too: late layers matter more for whatever is asked, and two objectives can share their words. So rho
is held against that of the same two maps in null models, by Student's t of z. See docs/atlas.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from levelhead.measures.head_null import half_agreement
from levelhead.measures.measurement import NULL_MODELS, Measurement, Null
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling, spearman

AGREEMENT, HALVES = "agreement of maps", "agreement of halves"
CONSTANT = "constant scores"  # which have no ranks to compare
FEWEST = 3  # null models that a spread is estimated from
_LARGEST = 1 - 1e-9  # |rho| at which Fisher's scale ends
_SHARE = 0.1  # of the heads: the top of a map


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
    interval = _interval(first, second, plain.value, resampling)
    settings = how if interval else {"interval": "none: the scores have no standard errors"}
    return Measurement(AGREEMENT, plain.value, interval, n=plain.n, neutral=0.0, settings=settings)


def _interval(
    first: ScoredMap, second: ScoredMap, rho: float, resampling: Resampling
) -> tuple[float, float] | None:
    if not all(np.isfinite(each.stderr).all() for each in (first, second)):
        return None
    rng = np.random.default_rng(resampling.seed)
    ranks = [_redrawn_ranks(each, resampling.resamples, rng) for each in (first, second)]
    centered = [each - each.mean(axis=1, keepdims=True) for each in ranks]
    norms = [np.sqrt((each**2).sum(axis=1)) for each in centered]
    drawn = (centered[0] * centered[1]).sum(axis=1) / np.maximum(norms[0] * norms[1], 1e-300)
    z = _fisher(drawn)
    tail = (1 - resampling.level) / 2
    low, high = np.quantile(z - z.mean(), [tail, 1 - tail]) + float(_fisher(np.array(rho)))
    return math.tanh(low), math.tanh(high)


def _redrawn_ranks(scored: ScoredMap, resamples: int, rng: np.random.Generator) -> FloatArray:
    noise = rng.standard_normal((resamples, scored.values.size))
    drawn = scored.values.ravel() + noise * scored.stderr.ravel()
    return np.asarray(stats.rankdata(drawn, axis=1), np.float64)


def _fisher(rho: FloatArray) -> FloatArray:
    return np.asarray(np.arctanh(np.clip(rho, -_LARGEST, _LARGEST)), np.float64)


def against_null_models(measured: Measurement, nulls: Sequence[float]) -> Measurement:
    """A rank correlation held against that of null models; as it is where those are fewer than 3."""
    if measured.value is None or len(nulls) < FEWEST:
        return measured
    values = NullDistribution(np.asarray(nulls))
    p = NullDistribution(_fisher(values.values)).student_p_value(float(_fisher(np.array(measured.value))))
    method = f"{NULL_MODELS}; p two-sided, Student's t on Fisher's scale"
    null = Null(method, len(values), values.floor, values.spread, max(p, 1e-12))
    return replace(measured, null=null)


def halves_agreement(halves: npt.ArrayLike, nulls: Sequence[npt.ArrayLike]) -> Measurement:
    """How far the two halves of the items rank heads alike, in the mean over splits [split, 2, layer, head],
    against the same in null models."""
    own, *drawn = (_known(half_agreement(each)) for each in (halves, *nulls))
    if not own.size:
        return Measurement.missing(HALVES, CONSTANT, neutral=0.0)
    measured = Measurement(HALVES, float(own.mean()), n=int(own.size), neutral=0.0)
    return against_null_models(measured, [float(each.mean()) for each in drawn if each.size])


def _known(values: FloatArray) -> FloatArray:
    return values[np.isfinite(values)]


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
    own = _in_all(maps, k)
    counts = [len(_in_all(each, k)) for each in nulls]
    p = (1 + sum(count >= len(own) for count in counts)) / (1 + len(counts)) if counts else None
    mean = float(np.mean(counts)) if counts else None
    return SharedTop(k, tuple(sorted(own)), size * (k / size) ** len(maps), mean, p)


def _in_all(maps: Sequence[npt.ArrayLike], k: int) -> set[int]:
    """Units among the k highest of every map; ties by place."""
    tops = [set(np.argsort(-np.ravel(each), kind="stable")[:k].tolist()) for each in maps]
    return set.intersection(*tops)
