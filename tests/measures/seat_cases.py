"""Made-up vectors for the tests of SEAT, and SEAT written from its definition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.spatial.distance import cosine

from levelhead.measures.statistics import FloatArray

SETS: Mapping[str, Sequence[int]] = {
    "A": [0, 1, 2, 3],
    "B": [4, 5, 6, 7],
    "X": [8, 9, 10, 11],
    "Y": [12, 13, 14, 15],
}


def slow_seat(vectors: Mapping[str, FloatArray]) -> float:
    """Written from the definition, one pair of vectors at a time."""

    def s(w: FloatArray) -> float:
        near_a = [1 - cosine(w, a) for a in vectors["A"]]
        near_b = [1 - cosine(w, b) for b in vectors["B"]]
        return math.fsum(near_a) / len(near_a) - math.fsum(near_b) / len(near_b)

    s_x, s_y = [s(x) for x in vectors["X"]], [s(y) for y in vectors["Y"]]
    pooled = s_x + s_y
    mean = math.fsum(pooled) / len(pooled)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in pooled) / (len(pooled) - 1))
    return (math.fsum(s_x) / len(s_x) - math.fsum(s_y) / len(s_y)) / std


def some_vectors(seed: int = 0, sizes: tuple[int, int, int, int] = (5, 7, 6, 9)) -> dict[str, FloatArray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(size, 12)) for name, size in zip("ABXY", sizes, strict=True)}


def some_words(rng: np.random.Generator, effect: float) -> FloatArray:
    """Static vectors of 16 words with a planted association, [word, d]."""
    truth = rng.normal(size=(16, 16)) / 4 + 0.7 * rng.normal(size=16) / 4
    direction = rng.normal(size=16)
    direction /= 2 * np.linalg.norm(direction)
    for name, sign in zip("ABXY", (1, -1, effect, -effect), strict=True):
        truth[list(SETS[name])] += sign * direction
    return truth


def seat_of(static: FloatArray) -> float:
    return slow_seat({name: static[list(SETS[name])] for name in "ABXY"})
