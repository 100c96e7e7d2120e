"""Sign flips by hand, against scipy's, and how often they cry wolf."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from levelhead.errors import BadOption, BadProbe
from levelhead.measures.clustered import DRAWS, mean_null, top_share_null
from levelhead.measures.statistics import FloatArray

RUNS = 1_000
# 5 % of 1,000 runs: 99.9 % of binomial counts lie between
LEAST, MOST = (int(bound) for bound in stats.binom.ppf([0.0005, 0.9995], RUNS, 0.05))


# --- by hand


def test_three_differences_of_one_sign_have_p_one_quarter() -> None:
    null = mean_null([1.0, 2.0, 3.0])
    # of the 7 other flips only − − − lies as far from 0
    assert (null.draws, null.p_value, null.floor) == (7, 2 / 8, 0.0)
    assert null.spread == pytest.approx(np.sqrt(1 + 4 + 9) / 3)


def test_clusters_flip_whole() -> None:
    null = mean_null([1.0, 2.0, 3.0], ["nurse", "nurse", "pilot"])
    # S = 3, 3: sums of the flips are 0, 0 and −6
    assert (null.draws, null.p_value) == (3, 2 / 4)
    assert null.spread == pytest.approx(np.sqrt(9 + 9) / 3)


def test_a_share_is_flipped_about_its_center() -> None:
    null = mean_null([1.0, 1.0, 1.0, 0.0], center=0.5)
    # sums of four halves: ±1 in 8 of 16 flips, ±2 in 2, 0 in 6; the observed one is 1
    assert (null.draws, null.p_value, null.floor) == (15, 10 / 16, 0.5)


def test_the_largest_of_three_by_hand() -> None:
    null = top_share_null([3.0, -2.0, 1.0], share=1 / 3)
    largest = [max(a * 3.0, b * -2.0, c * 1.0) for a, b, c in itertools.product((1, -1), repeat=3)][1:]
    assert (null.draws, null.p_value) == (7, (1 + 3) / 8)  # three other flips keep 3 positive
    assert null.floor == pytest.approx(np.mean(largest))
    assert null.spread == pytest.approx(np.std(largest, ddof=1))


# --- invariants


def test_the_mean_of_all_flips_is_the_center_and_their_spread_is_the_stated_one() -> None:
    v = np.random.default_rng(0).normal(size=9)
    means = [float(np.mean(v * signs)) for signs in itertools.product((1, -1), repeat=9)]
    null = mean_null(v)
    assert null.floor == pytest.approx(np.mean(means))
    assert null.spread == pytest.approx(np.std(means))


def test_neither_exchanged_labels_nor_another_scale_change_p() -> None:
    v = np.random.default_rng(1).normal(0.2, size=60)
    assert mean_null(v).p_value == mean_null(-v).p_value == mean_null(7 * v).p_value
    assert top_share_null(v, 0.1).p_value == top_share_null(7 * v, 0.1).p_value
    assert top_share_null(7 * v, 0.1).floor == pytest.approx(7 * top_share_null(v, 0.1).floor)


def test_a_share_of_one_is_the_plain_mean() -> None:
    v = np.random.default_rng(2).normal(0.3, size=12)
    one_sided, two_sided = top_share_null(v, 1.0), mean_null(v)
    assert v.mean() > 0
    assert 2 * one_sided.p_value == pytest.approx(two_sided.p_value)


def test_drawn_flips_agree_with_all_of_them() -> None:
    v = np.random.default_rng(3).normal(0.3, size=13)
    copies = np.repeat(v / 2, 2)  # thirteen clusters again, written as twenty-six values
    exact = mean_null(v)
    assert mean_null(copies, np.repeat(np.arange(13), 2)).p_value == exact.p_value
    padded = np.concatenate([v, np.zeros(3)])  # sixteen clusters are drawn
    drawn = mean_null(padded, seed=5)
    assert (exact.draws, drawn.draws) == (2**13 - 1, DRAWS)
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.02)
    assert mean_null(padded, seed=5) == drawn != mean_null(padded, seed=6)


# --- an independent implementation


def test_p_values_are_those_of_scipy() -> None:
    rng = np.random.default_rng(4)
    v = rng.normal(0.4, size=11)

    def top_mean(x: FloatArray, axis: int) -> FloatArray:
        return np.asarray(np.sort(x, axis=axis)[..., -3:].mean(axis=axis))

    flips = {"permutation_type": "samples", "n_resamples": np.inf, "vectorized": True}
    plain = stats.permutation_test((v,), np.mean, alternative="two-sided", **flips)
    largest = stats.permutation_test((v,), top_mean, alternative="greater", **flips)
    assert mean_null(v).p_value == pytest.approx(plain.pvalue)
    null = top_share_null(v, 3 / 11)
    assert null.p_value == pytest.approx(largest.pvalue)
    assert null.floor == pytest.approx(largest.null_distribution.mean(), abs=0.01)


# --- calibration


@pytest.mark.slow
def test_flips_by_cluster_cry_wolf_in_five_percent_and_flips_by_value_more_often() -> None:
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(20), 5)
    by_cluster = by_value = 0
    for run in range(RUNS):
        v = rng.normal(size=20)[clusters] + rng.normal(size=100)
        by_cluster += mean_null(v, clusters, seed=run, draws=499).p_value <= 0.05
        by_value += mean_null(v, seed=run, draws=499).p_value <= 0.05
    assert LEAST <= by_cluster <= MOST
    assert by_value > 2 * MOST


@pytest.mark.nightly
@pytest.mark.slow
def test_the_largest_tenth_of_noise_cries_wolf_in_five_percent_though_it_is_never_zero() -> None:
    rng = np.random.default_rng(0)
    alarms, above_zero, excess = 0, 0, []
    for run in range(RUNS):
        v = rng.normal(size=100)
        null = top_share_null(v, 0.1, seed=run, draws=499)
        value = float(np.sort(v)[-10:].mean())
        alarms += null.p_value <= 0.05
        above_zero += value > 0
        excess.append(value - null.floor)
    assert LEAST <= alarms <= MOST
    assert above_zero == RUNS
    assert abs(np.mean(excess)) < 4 * np.std(excess) / np.sqrt(RUNS)


@pytest.mark.slow
def test_flips_are_not_deaf() -> None:
    rng = np.random.default_rng(0)
    seen = [mean_null(rng.normal(0.3, size=150), seed=run, draws=499).p_value <= 0.05 for run in range(300)]
    assert np.mean(seen) > 0.9  # the t-test's power is 0.95


# --- what cannot be asked


def test_wrong_values_labels_and_shares_are_refused() -> None:
    with pytest.raises(BadProbe, match="got no value"):
        mean_null([])
    with pytest.raises(BadProbe, match="one label for each value"):
        mean_null([1.0, 2.0], ["a"])
    with pytest.raises(BadProbe, match="NaN"):
        top_share_null([1.0, np.nan], 0.1)
    with pytest.raises(BadOption, match="above 0 and at most 1"):
        top_share_null([1.0], 0.0)
