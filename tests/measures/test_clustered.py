"""Means of items in clusters: by hand, against scipy and statsmodels, and how often they claim too much."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.sandwich_covariance import cov_cluster_2groups

from levelhead.errors import BadProbe
from levelhead.measures.clustered import clustered_effect, clustered_mean, robust_test
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import FloatArray, Resampling

TEMPLATES, WORDS = 25, 12


def p_value(measured: Measurement) -> float:
    assert measured.null is not None
    return measured.null.p_value


def interval(measured: Measurement) -> tuple[float, float]:
    assert measured.interval is not None
    return measured.interval


def crossed(seed: int, n: int = 200, shift: float = 0.0) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Differences of n sentences with effects of their template and of their word, and both labels."""
    rng = np.random.default_rng(seed)
    template, word = rng.integers(0, TEMPLATES, n), rng.integers(0, WORDS, n)
    d = rng.normal(size=TEMPLATES)[template] + rng.normal(size=WORDS)[word] + rng.normal(size=n)
    return d + shift, {"template": template.astype(np.float64), "word": word.astype(np.float64)}


# --- by hand


def test_two_clusters_by_hand() -> None:
    d, clusters = np.array([1.0, 2.0, 3.0, 6.0]), ["a", "a", "b", "b"]
    # residuals −2 −1 | 0 3: sums −3 and 3; V = 2 · 18 / 16 = 2.25; t = 3 / 1.5
    test = robust_test((d - 3) / 4, 3.0, {"cluster": clusters})
    assert test.clusters == 2
    assert (test.stderr, test.t) == pytest.approx((1.5, 2.0))
    assert test.p_value == pytest.approx(2 * stats.t.sf(2, 1))
    measured = clustered_mean("change", d, {"cluster": clusters})
    assert measured.value == 3.0
    assert measured.details["t, cluster"] == pytest.approx(2.0)
    assert measured.details["flips p, cluster"] == 2 / 4  # of S = 3, 9 the flips give ±12 and ±6


def test_the_effect_of_two_sides_is_half_their_sum_and_half_their_difference() -> None:
    y, side = np.array([5.0, 7.0, 1.0]), np.array([1.0, 1.0, -1.0])
    sentences = {"sentence": np.arange(3)}
    level = clustered_effect("level", y, np.stack([np.ones(3), side], axis=1), sentences)
    tilt = clustered_effect("tilt", y, np.stack([side, np.ones(3)], axis=1), sentences)
    assert level.value == pytest.approx((6 + 1) / 2)
    assert tilt.value == pytest.approx((6 - 1) / 2)


# --- invariants and independent implementations


def test_items_that_are_their_own_clusters_have_the_plain_t_test() -> None:
    d = np.random.default_rng(0).normal(0.2, size=40)
    measured = clustered_mean("change", d, {"sentence": np.arange(40)})
    plain = stats.ttest_1samp(d, 0)
    assert measured.details["t, sentence"] == pytest.approx(plain.statistic)
    assert measured.details["p, sentence"] == pytest.approx(plain.pvalue)
    assert interval(measured) == pytest.approx(tuple(plain.confidence_interval(0.95)))


def test_one_clustering_is_that_of_statsmodels() -> None:
    y, labels = crossed(1)
    side = np.where(np.arange(200) % 3 == 0, 1.0, -1.0)
    design = np.stack([np.ones(200), side], axis=1)
    fit = sm.OLS(y, design).fit(
        cov_type="cluster", cov_kwds={"groups": labels["template"], "df_correction": True}, use_t=True
    )
    measured = clustered_effect("level", y, design, {"template": labels["template"]})
    assert measured.value == pytest.approx(fit.params[0])
    assert measured.details["t, template"] == pytest.approx(fit.tvalues[0])
    assert measured.details["p, template"] == pytest.approx(fit.pvalues[0])
    assert interval(measured) == pytest.approx(fit.conf_int()[0])


def test_two_clusterings_together_are_those_of_statsmodels() -> None:
    y, labels = crossed(2)
    fit = sm.OLS(y, np.ones(200)).fit()
    both, *_ = cov_cluster_2groups(fit, labels["template"].astype(int), labels["word"].astype(int))
    test = robust_test((y - y.mean()) / 200, float(y.mean()), labels)
    assert test.stderr == pytest.approx(np.sqrt(both[0, 0]))
    assert test.clusters == WORDS


def test_a_clustering_given_twice_changes_nothing() -> None:
    y, labels = crossed(3)
    once = robust_test(y - y.mean(), 1.0, {"word": labels["word"]})
    assert robust_test(y - y.mean(), 1.0, {"word": labels["word"], "again": labels["word"]}) == once


def test_the_largest_p_and_the_widest_interval_count() -> None:
    y, labels = crossed(4, shift=0.8)
    measured = clustered_mean("change", y, labels)
    p_values = [p for name, p in measured.details.items() if name.startswith(("p,", "flips p,"))]
    assert len(p_values) == 5  # two t-tests, one of both together, two of sign flips
    assert p_value(measured) == max(p for p in p_values if p is not None)
    alone = [interval(clustered_mean("change", y, {name: given})) for name, given in labels.items()]
    assert interval(measured)[0] <= min(low for low, _ in alone)


def test_exchanged_signs_turn_the_mean_and_keep_p() -> None:
    y, labels = crossed(5, shift=0.4)
    first, second = clustered_mean("change", y, labels), clustered_mean("change", -y, labels)
    assert second.value == pytest.approx(-(first.value or 0))
    assert p_value(second) == pytest.approx(p_value(first))


def test_a_tilt_between_the_sides_does_not_hide_their_level() -> None:
    rng = np.random.default_rng(0)
    side = np.tile([1.0, -1.0], 100)
    y = 0.3 + 3.0 * side + rng.normal(size=200)
    words = {"word": np.arange(200) // 2 % 20 * 2 + (side > 0)}  # words of either side only
    level = clustered_effect("level", y, np.stack([np.ones(200), side], axis=1), words)
    assert p_value(level) < 0.01
    assert p_value(clustered_mean("change", y, words)) > 0.2  # the tilt counts as spread of words


# --- calibration


@pytest.mark.nightly
@pytest.mark.slow
def test_crossed_clusters_claim_too_much_in_five_percent_and_a_plain_t_test_in_most() -> None:
    runs, plain, largest, covered = 400, 0, 0, 0
    for seed in range(runs):
        d, labels = crossed(seed)
        measured = clustered_mean("change", d, labels, Resampling(100, seed))
        plain += stats.ttest_1samp(d, 0).pvalue <= 0.05
        largest += p_value(measured) <= 0.05
        covered += interval(measured)[0] <= 0 <= interval(measured)[1]
    assert largest <= stats.binom.ppf(0.9995, runs, 0.05)
    assert plain > 0.4 * runs
    assert covered >= stats.binom.ppf(0.0005, runs, 0.95)


@pytest.mark.slow
def test_clustered_tests_are_not_deaf() -> None:
    seen = [p_value(clustered_mean("change", *crossed(seed, shift=1.5))) <= 0.05 for seed in range(100)]
    assert np.mean(seen) > 0.8  # 1.5 is four and a half standard errors


# --- what cannot be tested


def test_items_that_are_all_the_same_have_sign_flips_and_no_t() -> None:
    same, nothing = (clustered_mean("change", [d] * 3, {"sentence": [0, 1, 2]}) for d in (1.0, 0.0))
    assert (same.value, same.interval, same.details["t, sentence"]) == (1.0, (1.0, 1.0), None)
    assert (p_value(same), p_value(nothing)) == (2 / 8, 1.0)


def test_one_cluster_is_not_measured() -> None:
    assert "2 items in 1 clusters" in clustered_mean("change", [1.0, 2.0], {"all": ["a", "a"]}).reason
    through_both = clustered_effect("level", [1.0, 2.0], [[1.0, 1.0], [1.0, -1.0]], {"sentence": [0, 1]})
    assert "cannot tell" in through_both.reason  # as many coefficients as items leave no error to see
    one_side = np.ones((4, 2))
    assert clustered_effect("level", [1.0, 2.0, 0.0, 1.0], one_side, {"sentence": [0, 1, 2, 3]}).value is None


def test_wrong_labels_and_designs_are_refused() -> None:
    with pytest.raises(BadProbe, match="labels of word"):
        clustered_mean("change", [1.0, 2.0], {"word": ["a"]})
    with pytest.raises(BadProbe, match="design"):
        clustered_effect("level", [1.0, 2.0], np.ones((3, 1)), {"word": ["a", "b"]})
