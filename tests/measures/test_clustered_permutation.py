"""Permutation p-values: against brute force in fractions, against scipy, and uniform under the null."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.clustered import _partitions, permutation_p_value


def brute_force(x: list[float], y: list[float]) -> Fraction:
    """All splits in exact fractions, the observed one as the +1 of both sides."""
    pooled = [Fraction(value) for value in (*x, *y)]

    def apart(chosen: tuple[int, ...]) -> Fraction:
        inside = sum((pooled[i] for i in chosen), Fraction())
        return abs(inside / len(x) - (sum(pooled, Fraction()) - inside) / len(y))

    splits = list(itertools.combinations(range(len(pooled)), len(x)))
    return Fraction(sum(apart(split) >= apart(splits[0]) for split in splits), len(splits))


@given(st.data())
def test_p_value_equals_brute_force_in_fractions_also_with_ties(data: st.DataObject) -> None:
    value = st.sampled_from([0.1, 0.2, 0.3, 0.1 + 0.2, 0.7, -0.3, 1e-17])
    x = data.draw(st.lists(value, min_size=1, max_size=4))
    y = data.draw(st.lists(value, min_size=1, max_size=4))
    assert permutation_p_value(x, y).p_value == pytest.approx(float(brute_force(x, y)), abs=1e-15)


def test_ties_count_though_their_float_sums_differ() -> None:
    x, y = [0.1, 0.2, 0.3], [0.3, 0.2, 0.1]
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    assert permutation_p_value(x, y) == (1.0, 19)


def test_p_value_of_a_complete_separation_by_hand() -> None:
    # 6 splits of {1,2 | 3,4}: only the observed one and its mirror image are 2 apart
    assert permutation_p_value([3.0, 4.0], [1.0, 2.0]) == (2 / 6, 5)


def test_p_value_agrees_with_scipys_exact_test() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.5, 1, size=6), rng.normal(size=6)
    theirs = stats.permutation_test((x, y), lambda a, b: a.mean() - b.mean(), n_resamples=np.inf)
    assert permutation_p_value(x, y).p_value == pytest.approx(theirs.pvalue, abs=1e-12)


def test_swapping_the_sets_leaves_the_p_value() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=5), rng.normal(size=8)
    assert permutation_p_value(x, y) == permutation_p_value(y, x)


@pytest.mark.parametrize(("n", "k"), [(12, 6), (30, 15), (100, 40)])
def test_drawn_partitions_are_different_of_one_size_and_never_the_observed(n: int, k: int) -> None:
    masks = _partitions(n, k, seed=1, limit=500)
    assert masks.shape == (500, n)
    assert len(np.unique(masks, axis=0)) == 500
    assert (masks.sum(axis=1) == k).all()
    assert not masks[:, :k].all(axis=1).any()
    assert masks.mean(axis=0) == pytest.approx(np.full(n, k / n), abs=0.1)


def test_all_partitions_are_used_while_the_limit_allows() -> None:
    assert (
        permutation_p_value(np.arange(10.0), np.arange(10.0), limit=200_000).partitions
        == math.comb(20, 10) - 1
    )
    assert permutation_p_value(np.arange(10.0), np.arange(10.0)).partitions == 100_000


def test_drawn_partitions_estimate_the_exact_p_value_and_obey_the_seed() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.6, 1, size=9), rng.normal(size=9)
    exact = permutation_p_value(x, y).p_value
    drawn = permutation_p_value(x, y, seed=5, limit=5_000)
    assert drawn == permutation_p_value(x, y, seed=5, limit=5_000)
    assert drawn.p_value != permutation_p_value(x, y, seed=6, limit=5_000).p_value
    assert drawn.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact / 5_000))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(("n_x", "n_y", "limit"), [(6, 6, 100_000), (8, 5, 100_000), (40, 40, 999)])
def test_p_values_are_uniform_under_the_null(n_x: int, n_y: int, limit: int) -> None:
    rng = np.random.default_rng(0)
    p = [
        permutation_p_value(rng.normal(size=n_x), rng.normal(size=n_y), i, limit).p_value for i in range(500)
    ]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_empty_sets_and_nan_are_refused() -> None:
    with pytest.raises(BadProbe, match="at least one"):
        permutation_p_value([], [1.0])
    with pytest.raises(BadProbe, match="finite"):
        permutation_p_value([math.nan], [1.0])
