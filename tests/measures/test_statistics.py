"""Intervals that cover, p-values that are uniform, and numbers that other implementations agree with."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from levelhead.errors import BadProbe
from levelhead.measures.statistics import (
    Interval,
    Resampling,
    _partitions,
    bootstrap,
    draw_counts,
    mean_interval,
    mean_sd,
    paired_interval,
    paired_t_test,
    permutation_p_value,
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


@pytest.mark.slow
def test_cluster_interval_covers_where_an_interval_over_single_values_does_not() -> None:
    cluster = np.repeat(np.arange(40), 5)

    def values(rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=40)[cluster] + rng.normal(size=200)

    assert 0.93 <= coverage(lambda rng, how: (mean_interval(values(rng), how, cluster), 0.0)) <= 0.97
    assert coverage(lambda rng, how: (mean_interval(values(rng), how), 0.0)) < 0.85


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
    paired, alone = paired_interval(after, before), mean_interval(after)
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
def test_resampling_refuses_what_makes_no_interval(bad: dict[str, float]) -> None:
    with pytest.raises(BadProbe, match="allowed are 100 or more"):
        Resampling(**bad)  # type: ignore[arg-type]


def test_lengths_that_do_not_match_and_nan_are_refused() -> None:
    with pytest.raises(BadProbe, match="one label for each value"):
        mean_interval([1.0, 2.0], clusters=[1])
    with pytest.raises(BadProbe, match="equal lengths"):
        paired_interval([1.0, 2.0], [1.0])
    with pytest.raises(BadProbe, match="finite"):
        mean_interval([1.0, math.nan])


# --- permutation


def brute_force(x: list[float], y: list[float]) -> Fraction:
    """All splits in exact fractions, the observed one as the +1 of both sides."""
    pooled = [Fraction(value) for value in (*x, *y)]

    def apart(chosen: tuple[int, ...]) -> Fraction:
        inside = sum(pooled[i] for i in chosen)
        return abs(inside / len(x) - (sum(pooled) - inside) / len(y))

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
    with pytest.raises(BadProbe, match="0 < share <= 1"):
        top_share_count(share, 10)
