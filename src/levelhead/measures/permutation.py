"""The permutation test of two sets of numbers (docs/method.md, Statistics)."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.statistics import FloatArray, finite_values

_PARTS = os.cpu_count() or 1  # of a draw, each sorted by a thread of its own
_RANKED = 2**62  # more partitions than this do not have a rank that fits an integer


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
        raise BadProbe(
            f"A permutation test got sets of {x.size} and {y.size} values. Both need at least one."
        )
    s, k = np.concatenate([x, y]), x.size
    masks = _partitions(s.size, k, seed, limit)
    # size · ΣX' − k · Σ(X ∪ Y) is the difference of means times |X|·|Y|: no division, so integers stay exact
    distance = np.abs(s.size * (masks @ s) - k * s.sum())
    observed = abs(s.size * math.fsum(x) - k * math.fsum(s))
    tolerance = 8 * s.size**2 * np.finfo(np.float64).eps * float(np.abs(s).sum())
    b = int((distance > observed + tolerance).sum())
    near = masks[np.abs(distance - observed) <= tolerance]
    if near.size:
        exact = _integers(s)
        total = sum(exact)
        threshold = abs(s.size * sum(exact[:k]) - k * total)
        sums = near.astype(object) @ np.array(exact, dtype=object)
        b += sum(abs(s.size * int(part) - k * total) >= threshold for part in sums)
    return Permutation((b + 1) / (len(masks) + 1), len(masks))


def _integers(values: FloatArray) -> list[int]:
    """Floats are integers over a power of two: the same values as exact integers over their largest
    denominator."""
    ratios = [float(value).as_integer_ratio() for value in values]
    common = max(denominator for _, denominator in ratios)
    return [numerator * (common // denominator) for numerator, denominator in ratios]


@lru_cache(maxsize=12)  # an audit tests the rows and parts of its lists more than once
def _partitions(n: int, k: int, seed: int, limit: int) -> npt.NDArray[np.bool_]:
    """Different choices of k of n items as masks [partition, item].

    The first k items are never chosen: they are the observed partition. Of more than 2^62 partitions no two
    of 100,000 drawn are equal but once in a billion draws, so they are not compared.
    """
    total = math.comb(n, k)
    rng = np.random.default_rng(seed)
    if total - 1 <= limit:
        return _unrank(np.arange(1, total), n, k)
    if total < _RANKED:
        return _unrank(1 + rng.choice(total - 1, limit, replace=False, shuffle=False), n, k)
    parts = np.array_split(rng.random((limit, n)), _PARTS)
    with ThreadPoolExecutor(_PARTS) as threads:  # numpy sorts outside Python's lock
        return np.concatenate(list(threads.map(lambda keys: np.argsort(keys, axis=1) < k, parts)))


def _unrank(ranks: npt.NDArray[np.int64], n: int, k: int) -> npt.NDArray[np.bool_]:
    """The k-subsets of n items with these ranks in lexicographic order; rank 0 is the first k items."""
    masks = np.zeros((ranks.size, n), dtype=bool)
    rest, left = ranks.astype(np.int64), np.full(ranks.size, k)
    for item in range(n):
        with_item = np.array([0, *(math.comb(n - item - 1, j) for j in range(k))], dtype=np.int64)
        taken = (left > 0) & (rest < with_item[left])
        masks[:, item] = taken
        rest = np.where(taken, rest, rest - with_item[left])
        left = left - taken
    return masks
