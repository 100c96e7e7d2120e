"""Sign flips: what a statistic would be if nothing but chance had chosen the sign of each cluster.

The labels of a stereotype and its opposite are exchanged in some clusters and not in others, all together
within a cluster. A model to which the labels mean nothing is as likely to show the one outcome as the other
(docs/method.md, Statistics).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Null
from levelhead.measures.statistics import FloatArray, clustered_values, in_chunks, top_share_count

DRAWS = 9_999  # the smallest p is then 1 / 10,000
_EXACT = 13  # up to so many clusters all 2^clusters − 1 other flips are tried, fewer than DRAWS
_ROUNDING = 8 * float(np.finfo(np.float64).eps)  # per item: a sum in another order may differ by so much


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
    value, member = _some("mean_null", values, clusters)
    sums = np.bincount(member, weights=value - center)
    observed = abs(float(sums.sum()))
    tolerance = _ROUNDING * sums.size * float(np.abs(sums).sum())
    extreme = total = 0
    for signs in _flips(sums.size, sums.size, seed, draws):
        extreme += int((np.abs(signs @ sums) >= observed - tolerance).sum())
        total += len(signs)
    spread = float(np.sqrt((sums**2).sum())) / value.size
    method = f"sign flips by cluster, two-sided, {_extent(sums.size)}"
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

    The largest are chosen anew in each flip, so the floor holds what choosing alone brings. Floor and spread
    are taken over the flips other than the observed one.
    """
    value, member = _some("top_share_null", values, clusters)
    rest = value.size - top_share_count(share, value.size)

    def top_mean(flipped: FloatArray) -> FloatArray:
        return np.asarray(np.partition(flipped, rest, axis=1)[:, rest:].mean(axis=1), dtype=np.float64)

    groups = int(member.max()) + 1
    flips = _flips(groups, value.size, seed, draws)
    null = np.concatenate([top_mean(signs[:, member] * value) for signs in flips])
    observed = float(top_mean(value[None])[0])
    tolerance = _ROUNDING * value.size * float(np.abs(value).max())
    extreme = int((null >= observed - tolerance).sum())
    spread = float(null.std(ddof=1)) if null.size > 1 else 0.0
    method = f"sign flips by cluster, one-sided, {_extent(groups)}"
    return Null(method, null.size, float(null.mean()), spread, (1 + extreme) / (1 + null.size))


def exchange_null(
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    statistic: Callable[[FloatArray], FloatArray],
    clusters: npt.ArrayLike,
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> Null:
    """What a change would be if chance had said, cluster by cluster, which answers came before; two-sided.

        T(e) = statistic(after, exchanged where e_c = −1) − statistic(before, exchanged in the same clusters)
        p = (1 + #{ e : |T(e)| ≥ |T(1)| }) / (1 + draws),   floor = 0,   spread = root mean square of T(e)

    before, after [item, column]; statistic [draw, item, column] -> [draw]. Exact for an edit that changes
    nothing. T(−e) = −T(e), so the floor is 0 whatever the statistic is.
    """
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if first.ndim != 2 or first.shape != second.shape:
        raise BadProbe(f"Answers {first.shape} before and {second.shape} after: give [item, column] twice.")
    _, member = _some("exchange_null", first[:, 0], clusters)
    observed = float((statistic(second[None]) - statistic(first[None]))[0])
    changes = []
    for signs in _flips(int(member.max()) + 1, 2 * first.size, seed, draws):
        turned = (signs[:, member] < 0)[:, :, None]
        changes.append(
            statistic(np.where(turned, first, second)) - statistic(np.where(turned, second, first))
        )
    change = np.concatenate(changes)
    tolerance = _ROUNDING * first.size * max(1.0, float(np.abs(change).max()))
    extreme = int((np.abs(change) >= abs(observed) - tolerance).sum())
    method = f"before and after exchanged by cluster, two-sided, {_extent(int(member.max()) + 1)}"
    spread = float(np.sqrt(np.mean(change**2)))
    return Null(method, change.size, 0.0, spread, (1 + extreme) / (1 + change.size))


def _some(
    name: str, values: npt.ArrayLike, clusters: npt.ArrayLike | None
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """At least one value, with the number of each one's cluster."""
    value, member = clustered_values(name, values, clusters)
    if not value.size:
        raise BadProbe(f"{name} got no value. Give at least one difference to flip.")
    return value, member


def _flips(clusters: int, width: int, seed: int, draws: int) -> Iterable[FloatArray]:
    """Signs [flip, cluster] in batches that fit for `width` numbers a flip; never the observed signs where
    all others are tried."""
    exact = clusters <= _EXACT
    sizes = tuple(in_chunks(2**clusters - 1 if exact else draws, width))
    drawn = _one_batch if len(sizes) == 1 else _batches
    return drawn(clusters, sizes, seed, exact)


@lru_cache(maxsize=8)  # a table has many means over the same clusters
def _one_batch(clusters: int, sizes: tuple[int, ...], seed: int, exact: bool) -> list[FloatArray]:
    return list(_batches(clusters, sizes, seed, exact))


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


def _extent(clusters: int) -> str:
    return f"all of {clusters} clusters" if clusters <= _EXACT else f"drawn for {clusters} clusters"
