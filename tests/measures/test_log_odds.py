"""Log-odds of two groups of words over prompts about occupations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.log_odds import Occupations, lean, lean_change, log_odds, trend

GROUP = np.array([1, 1, -1, 0])


def occupations(each: int = 10, prompts: int = 1) -> Occupations:
    names = np.repeat([f"{side}{i}" for side in "fm" for i in range(each)], prompts)
    return Occupations(names, np.repeat([1, -1], each * prompts))


def test_log_odds_by_hand() -> None:
    p = np.array([[0.2, 0.1, 0.6, 0.1], [0.25, 0.25, 0.25, 0.25]])
    np.testing.assert_allclose(log_odds(np.log(p), GROUP), [np.log(0.3 / 0.6), np.log(2)])


def test_log_odds_do_not_depend_on_the_mass_of_other_words() -> None:
    """The top-k mass of these prompts is nothing; the log-odds are what they were."""
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=6)
    np.testing.assert_allclose(log_odds(np.log(p), GROUP), log_odds(np.log(p) - 20, GROUP), atol=1e-12)


def test_exchanging_the_groups_flips_the_sign() -> None:
    p = np.log(np.random.default_rng(1).dirichlet(np.ones(4), size=6))
    np.testing.assert_allclose(log_odds(p, -GROUP), -log_odds(p, GROUP))


def test_lean_by_hand_with_welchs_interval() -> None:
    values = np.concatenate([np.arange(10.0), np.arange(10.0) * 2 - 5])
    measured = lean(values, occupations())
    assert measured.value == (4.5 - 4.0) / 2
    reference = stats.ttest_ind(values[:10], values[10:], equal_var=False).confidence_interval(0.95)
    assert measured.interval == pytest.approx((reference.low / 2, reference.high / 2))


def test_a_preference_for_men_everywhere_is_no_lean() -> None:
    """The base rate of male words is taken out: only differences between occupations count."""
    values = np.random.default_rng(2).normal(size=20)
    assert lean(values - 3, occupations()).value == pytest.approx(lean(values, occupations()).value)


def test_lean_speaks_of_stereotypes_and_is_silent_without() -> None:
    rng, about = np.random.default_rng(3), occupations(29)
    p_null = [lean(rng.normal(-2, 1, size=58), about).details["p_value"] or 0 for _ in range(100)]
    assert np.mean(np.array(p_null) < 0.05) < 0.13
    stereotyped = lean(rng.normal(-2, 1, size=58) + 0.8 * about.own, about)
    assert stereotyped.details["p_value"] == pytest.approx(0, abs=0.01)
    assert stereotyped.interval is not None
    assert stereotyped.interval[0] > 0


def test_prompts_of_one_occupation_are_one_piece_of_evidence() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=20)
    once, often = lean(values, occupations()), lean(np.repeat(values, 7), occupations(10, 7))
    assert often.value == pytest.approx(once.value)
    assert often.interval == pytest.approx(once.interval)
    assert often.details == once.details
    assert often.n == 20


def test_change_is_the_difference_of_leans_with_a_sign_flip_p() -> None:
    rng, about = np.random.default_rng(5), occupations(12, 3)
    base, values = rng.normal(size=(2, 72))
    measured = lean_change(values, base, about)
    difference = (lean(values, about).value or 0) - (lean(base, about).value or 0)
    assert measured.value == pytest.approx(difference)
    still = lean_change(base + 0.01 * rng.normal(size=72), base, about)
    turned = lean_change(base - 1.5 * about.own + 0.3 * rng.normal(size=72), base, about)
    assert turned.value == pytest.approx(-1.5, abs=0.1)
    assert (turned.details["p_value"] or 1) < 0.001 < (still.details["p_value"] or 0)


def test_groups_of_different_size_count_half_each() -> None:
    about = Occupations(np.array(list("abcdef")), np.array([1, 1, -1, -1, -1, -1]))
    change = np.array([1.0, 3.0, 0.0, -1.0, -2.0, -1.0])
    measured = lean_change(change, np.zeros(6), about)
    assert measured.value == pytest.approx((2.0 - -1.0) / 2)


def test_the_trend_is_spearmans_over_occupations_with_a_known_share() -> None:
    about = occupations(4)
    values = np.arange(8.0)
    known = [1.0, 2.0, 4.0, 3.0, 5.0, 7.0, 6.0]
    shares = dict(zip(("f0", "f1", "f2", "f3", "m0", "m1", "m2"), known, strict=True))
    measured = trend(values, about, shares)
    assert measured.n == 7
    assert measured.value == pytest.approx(stats.spearmanr(values[:7], known).statistic)


def test_what_cannot_be_asked_is_refused_in_one_line() -> None:
    with pytest.raises(BadProbe, match="each group"):
        log_odds(np.zeros((1, 2)), [1, 0])
    with pytest.raises(BadProbe, match=r"\[prompt, word\]"):
        log_odds(np.zeros(3), [1, -1, 0])
    with pytest.raises(BadProbe, match="finite one"):
        lean([1.0, np.nan], Occupations(np.array(["a", "b"]), np.array([1, -1])))
    assert lean([1.0, 2.0], Occupations(np.array(["a", "b"]), np.array([1, -1]))).value is None
