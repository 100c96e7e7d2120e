"""SEAT's associations and effect size by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest

from levelhead.errors import BadProbe
from levelhead.measures.clustered import permutation_p_value
from levelhead.measures.seat import associations, seat
from tests.measures.seat_cases import some_vectors


def test_associations_by_hand() -> None:
    assert associations([[3, 4]], [[1, 0]], [[0, 2]]) == pytest.approx([0.6 - 0.8])
    assert associations([[1, 0], [0, 1]], [[1, 0], [1, 1]], [[0, 1]]) == pytest.approx(
        [(1 + math.sqrt(0.5)) / 2, math.sqrt(0.5) / 2 - 1]
    )


def test_equal_vectors_have_equal_associations_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    word = rng.normal(size=768)
    s = associations(np.tile(word, (37, 1)), rng.normal(size=(9, 768)), rng.normal(size=(11, 768)))
    assert len(set(s.tolist())) == 1


def test_seat_by_hand() -> None:
    # s = 1, 3 | 0, 0: difference 2, mean 1, sum of squares 0 + 4 + 1 + 1 = 6, std sqrt(6 / 3)
    assert seat([1.0, 3.0], [0.0, 0.0]) == pytest.approx(2 / math.sqrt(2))


def test_seat_of_raw_values_refuses_what_has_no_effect_size() -> None:
    with pytest.raises(BadProbe, match="standard deviation is 0"):
        seat([1.0, 1.0], [1.0, 1.0])
    with pytest.raises(BadProbe, match="at least 2"):
        seat([1.0], [1.0, 2.0])


@pytest.mark.slow
def test_p_values_of_random_vectors_are_uniform() -> None:
    p = []
    for seed in range(500):
        v = some_vectors(seed, (4, 4, 6, 6))
        s_x, s_y = (associations(v[name], v["A"], v["B"]) for name in "XY")
        p.append(permutation_p_value(s_x, s_y).p_value)
    assert kstest(p, "uniform").pvalue > 0.01
