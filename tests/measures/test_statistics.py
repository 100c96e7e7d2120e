"""Intervals that cover, p-values that are uniform, and numbers that other implementations agree with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from levelhead.errors import BadOption, BadProbe
from levelhead.measures.statistics import (
    FloatArray,
    Interval,
    Resampling,
    alike,
    bootstrap,
    draw_counts,
    mean_interval,
    mean_sd,
    paired_t_test,
    q_values,
    share_interval,
    spearman,
    top_share_count,
    wilson,
)

Simulation = Callable[[np.random.Generator, Resampling], tuple[Interval | None, float]]


def coverage(simulate: Simulation) -> float:
    """Share of 1,000 simulations whose 95 % interval holds the truth."""
    rng, hits = np.random.default_rng(1), 0
    for seed in range(1_000):
        interval, truth = simulate(rng, Resampling(500, seed=seed))
        assert interval is not None
        hits += interval[0] <= truth <= interval[1]
    return hits / 1_000


# --- intervals


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 30])
def test_mean_interval_of_normal_values_covers_in_93_to_97_percent(n: int) -> None:
    assert 0.93 <= coverage(lambda rng, how: (mean_interval(rng.normal(size=n), how), 0.0)) <= 0.97


@pytest.mark.slow
def test_mean_interval_of_skewed_values_covers_in_93_to_97_percent() -> None:
    assert 0.93 <= coverage(lambda rng, how: (mean_interval(rng.exponential(size=40), how), 1.0)) <= 0.97


@pytest.mark.nightly
def test_cluster_interval_covers_where_an_interval_over_single_values_does_not() -> None:
    cluster = np.repeat(np.arange(40), 5)

    def values(rng: np.random.Generator) -> FloatArray:
        return rng.normal(size=40)[cluster] + rng.normal(size=200)

    assert 0.93 <= coverage(lambda rng, how: (mean_interval(values(rng), how, cluster), 0.0)) <= 0.97
    assert coverage(lambda rng, how: (mean_interval(values(rng), how), 0.0)) < 0.85


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.95])
def test_share_interval_covers_in_93_to_97_percent(share: float) -> None:
    def simulate(rng: np.random.Generator, how: Resampling) -> tuple[Interval | None, float]:
        hits = (rng.random(150) < share).astype(float)
        return share_interval(lambda counts: counts @ hits / counts.sum(axis=1), 150, how), share

    assert 0.93 <= coverage(simulate) <= 0.97


@pytest.mark.slow
def test_spearman_interval_covers_the_known_correlation_of_a_normal_pair() -> None:
    def simulate(rng: np.random.Generator, how: Resampling) -> tuple[Interval | None, float]:
        x = rng.normal(size=76)
        return spearman(x, 0.5 * x + math.sqrt(0.75) * rng.normal(size=76)).interval, 6 / math.pi * math.asin(
            0.25
        )

    assert 0.93 <= coverage(simulate) <= 0.97


def test_bootstrap_agrees_with_scipys_bca_for_many_items() -> None:
    values = np.random.default_rng(0).gamma(2, size=400)
    ours = mean_interval(values, Resampling(20_000))
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, rng=0).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.012)


def test_seed_decides_the_interval_and_drawing_in_chunks_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=50)
    whole = mean_interval(values)
    assert whole == mean_interval(values, Resampling(seed=0))
    assert whole != mean_interval(values, Resampling(seed=4))
    monkeypatch.setattr("levelhead.measures.statistics._CELLS", 777)
    assert mean_interval(values) == pytest.approx(whole, abs=1e-12)


def test_counts_keep_every_strata_size() -> None:
    counts = draw_counts(np.random.default_rng(0), 200, [3, 1, 6])
    for stratum, size in ((counts[:, :3], 3), (counts[:, 3:4], 1), (counts[:, 4:], 6)):
        assert (stratum.sum(axis=1) == size).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(10), abs=0.3)


def test_paired_interval_is_much_narrower_than_two_apart() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(size=100) * 10
    before, after = hard + rng.normal(size=100) * 0.1, hard + 0.5 + rng.normal(size=100) * 0.1
    paired, alone = mean_interval(after - before), mean_interval(after)
    assert paired is not None
    assert alone is not None
    assert 0.4 < paired[0] < paired[1] < 0.6
    assert alone[1] - alone[0] > 20 * (paired[1] - paired[0])


def test_one_item_has_no_interval_and_a_statistic_that_mostly_fails_has_none() -> None:
    assert mean_interval([1.0]) is None
    assert bootstrap(lambda counts: np.where(counts[:, 0] > 1, np.nan, 1.0), 10) is None


def test_share_of_nothing_but_hits_is_not_certain() -> None:
    interval = share_interval(lambda counts: np.ones(len(counts)), 20)
    assert interval is not None
    assert interval[0] == pytest.approx(1 / (1 + 1.959964**2 / 20))
    assert interval[1] == 1.0


@pytest.mark.parametrize(("share", "n"), [(0.0, 5), (0.3, 10), (1.0, 164), (0.25, 1000)])
def test_wilson_agrees_with_scipy(share: float, n: int) -> None:
    theirs = stats.binomtest(round(share * n), n).proportion_ci(method="wilson")
    assert wilson(round(share * n) / n, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize("bad", [{"resamples": 10}, {"level": 1.0}])
def test_resampling_refuses_what_makes_no_interval(bad: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match="allowed are 100 or more"):
        Resampling(**bad)


def test_lengths_that_do_not_match_and_nan_are_refused() -> None:
    with pytest.raises(BadProbe, match="one label for each value"):
        mean_interval([1.0, 2.0], clusters=[1])
    with pytest.raises(BadProbe, match="finite"):
        mean_interval([1.0, math.nan])


# --- several tests, ranks, t


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_q_values_agree_with_statsmodels(p: list[float]) -> None:
    assert q_values(p) == pytest.approx(multipletests(p, method="fdr_bh")[1], abs=1e-12)


def test_no_q_value_is_below_its_p_value_not_even_by_rounding() -> None:
    p = np.repeat(0.8444218515250481, 12)  # 12 p / 12 is a little less than p in floats
    assert (q_values(p) >= p).all()


def test_q_values_keep_the_shape_and_leave_out_what_was_not_tested() -> None:
    q = q_values([[0.01, np.nan], [0.04, 0.03]])
    assert q == pytest.approx(np.array([[0.03, np.nan], [0.04, 0.04]]), nan_ok=True)


def test_spearman_agrees_with_scipy_and_has_no_value_for_a_constant() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.normal(size=30)
    ours, (rho, p_value) = spearman(x, y), stats.spearmanr(x, y)
    assert ours.value == pytest.approx(rho)
    assert ours.details["p_value"] == pytest.approx(p_value)
    assert spearman(x, -y).value == pytest.approx(-rho)
    assert spearman([1, 2, 3, 4], [1, 4, 9, 16]).value == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4], [5, 5, 5, 5]).value is None


def test_a_constant_with_another_processors_rounding_is_a_constant() -> None:
    rounded = [0.3, 0.1 + 0.2, 0.3, 0.1 + 0.2]
    assert rounded[0] != rounded[1]
    assert alike(rounded)
    assert alike([0.0, 0.0], [])
    assert not alike([0.3, 0.3 + 1e-9])
    assert spearman(rounded, [1, 2, 3, 4]).value is None


def test_ties_with_the_estimate_are_ties_up_to_rounding() -> None:
    items = np.arange(6.0)
    noise = np.random.default_rng(0)

    def coarse(counts: FloatArray, rounding: float = 0.0) -> FloatArray:
        means = np.round(counts @ items / counts.sum(axis=1), 1) + 1.0
        return np.asarray(means * (1 + rounding * noise.integers(-1, 2, len(means))))

    assert bootstrap(lambda counts: coarse(counts, 1e-15), 6) == pytest.approx(bootstrap(coarse, 6), rel=1e-9)


def test_paired_t_test_agrees_with_scipy_for_every_column_and_skips_nan() -> None:
    rng = np.random.default_rng(0)
    after, before = rng.normal(0.2, 1, size=(40, 3)), rng.normal(size=(40, 3))
    after[5, 1] = np.nan
    t, p = paired_t_test(after, before)
    theirs = stats.ttest_rel(after, before, alternative="greater", nan_policy="omit")
    assert t == pytest.approx(np.asarray(theirs.statistic))
    assert p == pytest.approx(np.asarray(theirs.pvalue))


def test_paired_t_test_without_variation_has_no_t() -> None:
    t, p = paired_t_test(np.ones((5, 1)), np.zeros((5, 1)))
    assert np.isnan(t).all()
    assert np.isnan(p).all()


def test_mean_sd_by_hand() -> None:
    measured = mean_sd("seat", [1.0, 2.0, 3.0], neutral=0.0)
    assert (measured.value, measured.details["sd"], measured.n) == (2.0, 1.0, 3)
    assert measured.interval == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))
    assert mean_sd("seat", [1.0]).interval is None
    assert mean_sd("seat", []).value is None


@pytest.mark.parametrize(
    ("share", "n", "count"), [(0.07, 100, 7), (0.1, 234, 24), (0.1, 150, 15), (1.0, 3, 3)]
)
def test_top_share_is_counted_exactly_where_floats_would_give_one_more(
    share: float, n: int, count: int
) -> None:
    assert top_share_count(share, n) == top_share_count(np.float64(share), n) == count


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5])
def test_top_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(BadOption, match="above 0 and at most 1"):
        top_share_count(share, 10)
