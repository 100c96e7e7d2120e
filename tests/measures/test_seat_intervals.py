"""Intervals over the items of SEAT's sets against known truth."""

from __future__ import annotations

import numpy as np
import pytest

from levelhead.measures.seat import effect_interval, item_interval, seat
from levelhead.measures.statistics import FloatArray, Resampling


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_interval_over_sentences_covers_the_seat_of_the_population(effect: float) -> None:
    rng = np.random.default_rng(0)
    base, direction = rng.normal(size=32) / 6, np.eye(32)[0] / 2
    lean = {"A": 1.0, "B": -1.0, "X": effect, "Y": -effect}

    def sentences(name: str, n: int) -> FloatArray:
        vectors = base + lean[name] * direction + rng.normal(size=(n, 32)) / 6
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    axis = sentences("A", 100_000).mean(axis=0) - sentences("B", 100_000).mean(axis=0)
    value = seat(sentences("X", 100_000) @ axis, sentences("Y", 100_000) @ axis)
    hits = 0
    for seed in range(1_000):
        drawn = {name: sentences(name, 20) for name in "ABXY"}
        interval = item_interval(drawn, Resampling(300, seed))  # the permutation test would take minutes
        assert interval is not None
        hits += interval[0] <= value <= interval[1]
    assert 930 <= hits <= 970


def test_an_interval_of_two_a_side_is_given_up_when_resamples_have_no_spread() -> None:
    assert effect_interval(np.array([1.0, 2.0]), np.array([0.0, 0.5])) is None
