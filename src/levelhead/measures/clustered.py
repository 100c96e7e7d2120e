"""Tests of means: would chance alone show as much? (docs/method/statistics.md, Statistics)

Permutations redraw which values are in which of two sets; sign flips exchange a stereotype and its opposite
in whole clusters. Sentences share a template, a pair of attribute words and a target word: each clustering
gets a cluster-robust t-test and sign flips, all of them together a multi-way t-test; the largest p counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Resampling,
    clustered_values,
    finite_values,
    in_chunks,
    top_mean,
)

DRAWS = 9_999  # the smallest p is then 1 / 10,000
_EXACT = 13  # up to so many clusters all 2^clusters − 1 other flips are tried, fewer than DRAWS
_ROUNDING = 8 * float(np.finfo(np.float64).eps)  # per item: a sum in another order may differ by so much
_PARTS = os.cpu_count() or 1  # of a draw, each sorted by a thread of its own
_RANKED = 2**62  # more partitions than this do not have a rank that fits an integer
Clusterings = Mapping[str, npt.ArrayLike]  # name -> a label for each item
TOGETHER = "together"  # the multi-way test's name


class Permutation(NamedTuple):
    """A permutation p-value and the number of partitions it rests on."""

    p_value: float
    partitions: int


def permutation_p_value(
    s_x: npt.ArrayLike, s_y: npt.ArrayLike, seed: int = 0, limit: int = 100_000
) -> Permutation:
    """Two-sided p-value: how often another split of X ∪ Y into the same sizes is at least as far apart.

        p = (b + 1) / (n + 1),   b = #{ splits : |mean s(X') − mean s(Y')| ≥ |mean s(X) − mean s(Y)| }

    n: all splits but the observed one while there are at most `limit`, else `limit` different ones drawn with
    the seed. A split that ties counts, and ties are decided in exact arithmetic. Reference: Caliskan et al.
    2017, one-sided there.
    """
    x, y = finite_values("permutation_p_value", s_x), finite_values("permutation_p_value", s_y)
    if not (x.size and y.size):
        raise BadProbe(f"A permutation test needs at least one value per set (got {x.size} and {y.size})")
    s, k = np.concatenate([x, y]), x.size
    masks = _partitions(s.size, k, seed, limit)
    # size · ΣX' − k · Σ(X ∪ Y) is the difference of means times |X|·|Y|: no division, so integers stay exact
    distance = np.abs(s.size * (masks @ s) - k * s.sum())
    observed = abs(s.size * math.fsum(x) - k * math.fsum(s))
    tolerance = 8 * s.size**2 * np.finfo(np.float64).eps * float(np.abs(s).sum())
    b = int((distance > observed + tolerance).sum())
    near = masks[np.abs(distance - observed) <= tolerance]
    if near.size:
        # floats are integers over a power of two: ties are decided over their largest denominator
        ratios = [float(value).as_integer_ratio() for value in s]
        common = max(denominator for _, denominator in ratios)
        exact = [numerator * (common // denominator) for numerator, denominator in ratios]
        total = sum(exact)
        threshold = abs(s.size * sum(exact[:k]) - k * total)
        sums = near.astype(object) @ np.array(exact, dtype=object)
        b += sum(abs(s.size * int(part) - k * total) >= threshold for part in sums)
    return Permutation((b + 1) / (len(masks) + 1), len(masks))


@lru_cache(maxsize=12)  # an audit tests the rows and parts of its lists more than once
def _partitions(n: int, k: int, seed: int, limit: int) -> npt.NDArray[np.bool_]:
    """Different choices of k of n items as masks [partition, item].

    The first k items are never chosen: they are the observed partition. Of more than 2^62 partitions no two
    of 100,000 drawn are equal but once in a billion draws, so they are not compared.
    """
    total = math.comb(n, k)
    rng = np.random.default_rng(seed)
    if total >= _RANKED and total - 1 > limit:
        parts = np.array_split(rng.random((limit, n)), _PARTS)
        with ThreadPoolExecutor(_PARTS) as threads:  # numpy sorts outside Python's lock
            return np.concatenate(list(threads.map(lambda keys: np.argsort(keys, axis=1) < k, parts)))
    # k-subsets by their ranks in lexicographic order; rank 0 is the first k items
    all_fit = total - 1 <= limit
    ranks = np.arange(1, total) if all_fit else 1 + rng.choice(total - 1, limit, replace=False, shuffle=False)
    masks = np.zeros((ranks.size, n), dtype=bool)
    rest, left = ranks.astype(np.int64), np.full(ranks.size, k)
    for item in range(n):
        with_item = np.array([0, *(math.comb(n - item - 1, j) for j in range(k))], dtype=np.int64)
        taken = (left > 0) & (rest < with_item[left])
        masks[:, item] = taken
        rest = np.where(taken, rest, rest - with_item[left])
        left = left - taken
    return masks


def mean_null(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    center: float = 0.0,
    seed: int = 0,
    draws: int = DRAWS,
) -> Null:
    """What the mean of values would be if each cluster's side of the center were chance; p is two-sided.

        T(e) = center + (1/n) Σ_c e_c S_c,   S_c = Σ_{i in c} (v_i − center),   e_c = ±1
        p = (1 + #{ e : |T(e) − center| ≥ |T(1) − center| }) / (1 + draws)
        floor = center,   spread = sqrt(Σ_c S_c²) / n     exact over all 2^clusters flips

    All other flips are tried for up to 13 clusters, else `draws` of them come from the seed. Ties count. The
    test is exact if signs of clusters are exchangeable, whatever the sizes. Reference: Fisher 1935.
    """
    value, member, extent, flips = _flips("mean_null", values, clusters, seed, draws)
    sums = np.bincount(member, weights=value - center)
    observed = abs(float(sums.sum()))
    tolerance = _ROUNDING * sums.size * float(np.abs(sums).sum())
    extreme = total = 0
    for signs in flips:
        extreme += int((np.abs(signs @ sums) >= observed - tolerance).sum())
        total += len(signs)
    spread = float(np.sqrt((sums**2).sum())) / value.size
    method = f"sign flips by cluster, two-sided, {extent}"
    return Null(method, total, center, spread, (1 + extreme) / (1 + total))


def top_share_null(
    values: npt.ArrayLike,
    share: float,
    clusters: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> Null:
    """What the mean of the largest values would be if each cluster's sign were chance; p is one-sided.

        T(e) = mean of the ceil(share · n) largest e_c(i) · v_i,   e_c = ±1
        p = (1 + #{ e : T(e) ≥ T(1) }) / (1 + draws),   floor = mean of T(e),   spread = its sd (ddof = 1)

    The largest are chosen again in each flip, so the floor holds what choosing alone brings. Floor and spread
    are taken over the flips other than the observed one.
    """
    value, member, extent, flips = _flips("top_share_null", values, clusters, seed, draws, np.size(values))
    null = np.concatenate([top_mean(signs[:, member] * value, share) for signs in flips])
    observed = float(top_mean(value[None], share)[0])
    tolerance = _ROUNDING * value.size * float(np.abs(value).max())
    extreme = int((null >= observed - tolerance).sum())
    spread = float(null.std(ddof=1)) if null.size > 1 else 0.0
    method = f"sign flips by cluster, one-sided, {extent}"
    return Null(method, null.size, float(null.mean()), spread, (1 + extreme) / (1 + null.size))


def _flips(
    name: str,
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None,
    seed: int,
    draws: int,
    width: int | None = None,
) -> tuple[FloatArray, npt.NDArray[np.int64], str, Iterable[FloatArray]]:
    """At least one value, the number of each one's cluster, how signs are drawn, and signs [flip, cluster].

    They come in batches that fit for `width` numbers per flip, None for one per cluster; never the observed
    signs where all others are tried.
    """
    value, member = clustered_values(name, values, clusters)
    if not value.size:
        raise BadProbe(f"{name} got no value. Give at least one difference to flip.")
    groups = int(member.max()) + 1
    exact = groups <= _EXACT
    sizes = tuple(in_chunks(2**groups - 1 if exact else draws, groups if width is None else width))
    said = f"all of {groups} clusters" if exact else f"drawn for {groups} clusters"
    return value, member, said, (_one_batch if len(sizes) == 1 else _batches)(groups, sizes, seed, exact)


def _batches(clusters: int, sizes: tuple[int, ...], seed: int, exact: bool) -> Iterator[FloatArray]:
    rng, done = np.random.default_rng(seed), 0
    for size in sizes:
        if exact:
            numbers = np.arange(done + 1, done + size + 1)[:, None]
            minus = (numbers >> np.arange(clusters)) & 1
        else:
            minus = rng.integers(0, 2, (size, clusters), dtype=np.int8)
        done += size
        yield np.asarray(1.0 - 2.0 * minus, np.float64)


# a table has many means over the same clusters
_one_batch = lru_cache(maxsize=8)(lambda *how: list(_batches(*how)))


# ---- clusters of several kinds at once


@dataclass(frozen=True)
class RobustTest:
    clusters: int
    stderr: float | None  # None where the variance is not positive
    t: float | None
    p_value: float | None  # two-sided, from Student's t with clusters − 1 degrees


def robust_test(scores: npt.ArrayLike, value: float, clusterings: Clusterings, k: int = 1) -> RobustTest:
    """Cluster-robust t-test of a coefficient, by one clustering or by several at once.

        V_c = G/(G − 1) · (n − 1)/(n − k) · Σ_g ( Σ_{i in g} score_i )²      CR1, G clusters, k coefficients
        V = Σ over sets of clusterings of ±V_c, c = their intersection       + for odd sets, − for even ones
        t = value / sqrt(V),   p = 2 P(T_{G−1} ≥ |t|),   G of the clustering with the fewest clusters

    scores [item]: what each item adds to the coefficient's error; (d − mean d) / n for a mean. References:
    Liang and Zeger 1986; Cameron, Gelbach and Miller 2011 for several clusterings.
    """
    score = finite_values("robust_test", scores)
    labels = []
    for name, given in clusterings.items():
        labels.append(np.unique(np.asarray(given), return_inverse=True)[1].ravel().astype(np.int64))
        if labels[-1].size != score.size:
            raise BadProbe(f"{score.size} items need as many labels of {name} (got {labels[-1].size})")
    fewest = min((int(label.max(initial=-1)) + 1 for label in labels), default=0)
    variance = 0.0
    for size in range(1, len(labels) + 1):
        for chosen in combinations(labels, size):
            together = np.stack(chosen, axis=1)
            group = np.unique(together, axis=0, return_inverse=True)[1].ravel()
            sums = np.bincount(group, weights=score)
            if sums.size < 2 or score.size <= k:
                continue
            factor = sums.size / (sums.size - 1) * (score.size - 1) / (score.size - k)
            variance += (1 if size % 2 else -1) * float(factor * (sums**2).sum())
    # intersections of clusterings are subtracted, so the sum may be 0 or below, which is no variance
    if fewest < 2 or not variance > 1e-28 * value**2:
        return RobustTest(fewest, None, None, None)
    stderr = math.sqrt(variance)
    t = value / stderr
    return RobustTest(fewest, stderr, t, 2 * float(scipy.stats.t.sf(abs(t), fewest - 1)))


def clustered_mean(
    name: str, d: npt.ArrayLike, clusterings: Clusterings, resampling: Resampling = DEFAULT
) -> Measurement:
    """The mean of differences d, with the widest interval and the largest p of all clusterings.

        mean ± t(level, G − 1) · sqrt(V)     V and G from robust_test, the widest of them

    null.p_value is the largest p of the t-tests and of the sign flips by each clustering; details hold t, p
    and the flips' p of every one.
    """
    values = finite_values(name, d)
    return clustered_effect(name, values, np.ones((values.size, 1)), clusterings, resampling)


def clustered_effect(
    name: str,
    y: npt.ArrayLike,
    design: npt.ArrayLike,
    clusterings: Clusterings,
    resampling: Resampling = DEFAULT,
) -> Measurement:
    """The first coefficient of a least-squares fit of y [item] by design [item, coefficient].

        value = Σ_i a_i y_i,   a = first line of (X'X)⁻¹ X'
        flips: value(e) = Σ_c e_c Σ_{i in c} a_i u_i,   u = residual of y fitted without the first column

    With a single column of ones it is clustered_mean. Flips leave the other coefficients as they are: the
    null is imposed, as in a wild cluster bootstrap (Cameron, Gelbach and Miller 2008).
    """
    values, x = finite_values(name, y), np.asarray(design, dtype=np.float64)
    if x.ndim != 2 or len(x) != values.size or not np.isfinite(x).all():
        raise BadProbe(f"The design of {name} needs one line per value, {values.size} (got {x.shape})")
    settings = {
        "interval": "cluster-robust t, the widest of all clusterings",
        "clusterings": list(clusterings),
        "seed": resampling.seed,
        "level": resampling.level,
    }
    known: dict[str, Any] = {"neutral": 0.0, "settings": settings, "n": values.size}
    if values.size <= x.shape[1] or np.linalg.matrix_rank(x) < x.shape[1]:
        return Measurement.missing(name, f"{values.size} items cannot tell its coefficients apart", **known)

    # the coefficient as a sum over items, a · y, with the residuals of the model with it and without it
    weights = np.linalg.pinv(x)  # [coefficient, item]
    a, residual, others = weights[0], values - x @ (weights @ values), x[:, 1:]
    restricted = values - others @ (np.linalg.pinv(others) @ values) if others.size else values
    value, scores = float(a @ values), a * residual
    sets = {label: {label: given} for label, given in clusterings.items()}
    if len(clusterings) > 1:
        sets[TOGETHER] = dict(clusterings)
    tests = {label: robust_test(scores, value, several, x.shape[1]) for label, several in sets.items()}
    most = max((test.clusters for test in tests.values()), default=0)
    if most < 2:
        reason = f"{scores.size} items in {most} clusters, at least 2 are needed"
        return Measurement.missing(name, reason, **known)
    nulls = {
        label: mean_null(scores.size * (a * restricted), given, seed=resampling.seed)
        for label, given in clusterings.items()
    }

    # the widest interval; one point where all items are the same and no test has an error
    level = 0.5 + resampling.level / 2
    quantiles = [float(scipy.stats.t.ppf(level, max(test.clusters - 1, 1))) for test in tests.values()]
    half = max(q * (test.stderr or 0.0) for q, test in zip(quantiles, tests.values(), strict=True))

    # the null of the clustering whose flips are the least surprised, with the largest p of all tests
    p_values = {f"t-test, {label}": test.p_value or 0.0 for label, test in tests.items()}
    p_values |= {f"sign flips, {label}": null.p_value for label, null in nulls.items()}
    largest = max(p_values, key=lambda label: p_values[label])
    null = nulls[max(nulls, key=lambda label: nulls[label].p_value)]
    method = f"t-tests and sign flips by cluster, two-sided; the largest p: {largest}"
    null = Null(method, null.draws, null.floor, null.spread, p_values[largest])
    details: dict[str, float | None] = {}
    for label, test in tests.items():
        own = {"clusters": float(test.clusters), "t": test.t, "p": test.p_value}
        details |= {f"{what}, {label}": number for what, number in own.items()}
    details |= {f"flips p, {label}": null.p_value for label, null in nulls.items()}
    return Measurement(name, value, (value - half, value + half), details=details, null=null, **known)
