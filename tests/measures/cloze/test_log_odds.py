"""Log-odds of two groups of words over prompts about occupations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.cloze.log_odds import lean, lean_change, log_odds, trend
from levelhead.measures.cloze.prompt_table import PromptTable
from levelhead.measures.measurement import Measurement

CODES = np.array([1, 1, -1, 0])


def table(each: int = 10, prompts: int = 0) -> PromptTable:
    """Occupations f0, f1 ... and m0, m1 ...: a base prompt for each, then so many with knowledge."""
    names = np.array([f"{side}{i:02}" for side in "fm" for i in range(each)])
    own = np.repeat([1, -1], each)
    kinds = np.repeat(["base", "counter"], [2 * each, 2 * each * prompts])
    turns = prompts + 1
    return PromptTable(kinds, np.tile(names, turns), np.tile(own, turns), ("female", "male"))


def p_of(measured: Measurement) -> float:
    assert measured.null is not None
    return measured.null.p_value


def test_log_odds_by_hand() -> None:
    p = np.array([[0.2, 0.1, 0.6, 0.1], [0.25, 0.25, 0.25, 0.25]])
    np.testing.assert_allclose(log_odds(np.log(p), CODES), [np.log(0.3 / 0.6), np.log(2)])


def test_log_odds_do_not_depend_on_the_mass_of_other_words() -> None:
    """The top-k mass of such prompts is nothing; their log-odds are what they were."""
    p = np.log(np.random.default_rng(0).dirichlet(np.ones(4), size=6))
    np.testing.assert_allclose(log_odds(p, CODES), log_odds(p - 20, CODES), atol=1e-12)


def test_exchanging_the_groups_flips_the_sign() -> None:
    p = np.log(np.random.default_rng(1).dirichlet(np.ones(4), size=6))
    np.testing.assert_allclose(log_odds(p, -CODES), -log_odds(p, CODES))


def test_lean_by_hand_with_welchs_interval() -> None:
    values = np.concatenate([np.arange(10.0), np.arange(10.0) * 2 - 5])
    measured = lean(values, table())
    assert measured.value == (4.5 - 4.0) / 2
    reference = stats.ttest_ind(values[:10], values[10:], equal_var=False).confidence_interval(0.95)
    assert measured.interval == pytest.approx((reference.low / 2, reference.high / 2))


def test_the_null_of_lean_is_the_exchange_of_occupations() -> None:
    values = np.random.default_rng(2).normal(size=8)
    measured = lean(values, table(4))
    reference = stats.permutation_test(
        (values[:4], values[4:]), lambda a, b, axis: (a.mean(axis) - b.mean(axis)) / 2, n_resamples=np.inf
    )
    assert p_of(measured) == pytest.approx(float(reference.pvalue))
    assert measured.null is not None
    assert measured.null.spread == pytest.approx(float(reference.null_distribution.std()))


def test_a_preference_for_men_everywhere_is_no_lean() -> None:
    values = np.random.default_rng(2).normal(size=20)
    assert lean(values - 3, table()).value == pytest.approx(lean(values, table()).value)


def test_lean_speaks_of_stereotypes_and_is_silent_without() -> None:
    rng, prompts = np.random.default_rng(3), table(29)
    silent = [p_of(lean(rng.normal(-2, 1, size=58), prompts)) for _ in range(100)]
    assert np.mean(np.array(silent) < 0.05) < 0.13
    stereotyped = lean(rng.normal(-2, 1, size=58) + 0.8 * prompts.own, prompts)
    assert p_of(stereotyped) < 0.001
    assert stereotyped.interval is not None
    assert stereotyped.interval[0] > 0


def test_prompts_of_one_occupation_are_one_piece_of_evidence() -> None:
    values = np.random.default_rng(4).normal(size=20)
    once = lean(values, table())
    often = lean(np.tile(values, 8), table(10, 7), "counter")
    assert often.value == pytest.approx(once.value)
    assert often.interval == pytest.approx(once.interval)
    assert often.n == 20


def test_change_is_the_difference_of_leans() -> None:
    prompts = table(12, 3)
    values = np.random.default_rng(5).normal(size=96)
    measured = lean_change(values, prompts, "counter")
    difference = (lean(values, prompts, "counter").value or 0) - (lean(values, prompts).value or 0)
    assert measured.value == pytest.approx(difference)
    assert measured.null is None
    assert lean(values, prompts, "counter").null is None


def test_a_change_is_held_against_the_same_change_in_twins() -> None:
    """Twins in which knowledge moves log-odds as far as in the model: its interval is far from 0, and says
    nothing."""
    rng, prompts = np.random.default_rng(6), table(12, 1)
    knowledge = np.where(prompts.kinds == "counter", prompts.own, 0)
    values = 0.8 * knowledge + 0.1 * rng.normal(size=48)
    copying = rng.normal(0.5, 0.5, size=(19, 1)) * knowledge + 0.1 * rng.normal(size=(19, 48))
    silent = 0.1 * rng.normal(size=(19, 48))
    as_twins, beyond = (lean_change(values, prompts, "counter", twins) for twins in (copying, silent))
    assert as_twins.value == beyond.value == pytest.approx(0.8, abs=0.1)
    assert as_twins.interval is not None
    assert as_twins.interval[0] > 0.5
    assert p_of(as_twins) > 0.2
    assert p_of(beyond) < 0.001
    expected = [lean_change(twin, prompts, "counter").value for twin in copying]
    assert as_twins.null is not None
    assert as_twins.null.floor == pytest.approx(np.mean([value for value in expected if value is not None]))


def test_knowledge_that_moves_all_occupations_alike_changes_nothing() -> None:
    prompts = table(12, 1)
    values = np.random.default_rng(7).normal(size=48)
    moved = values + np.where(prompts.kinds == "counter", 5.0, 0.0)
    one, other = (lean_change(given, prompts, "counter") for given in (values, moved))
    assert one.value == pytest.approx(other.value)
    assert one.interval == pytest.approx(other.interval)


def test_groups_of_different_size_count_half_each() -> None:
    names = np.array(list("abcdef"))
    prompts = PromptTable(
        np.repeat(["base", "more"], 6), np.tile(names, 2), np.tile([1, 1, -1, -1, -1, -1], 2), ("f", "m")
    )
    values = np.concatenate([np.zeros(6), [1.0, 3.0, 0.0, -1.0, -2.0, -1.0]])
    assert lean_change(values, prompts, "more").value == pytest.approx((2.0 - -1.0) / 2)


def test_the_trend_is_spearmans_over_occupations_with_a_known_share() -> None:
    values, known = np.arange(8.0), [1.0, 2.0, 4.0, 3.0, 5.0, 7.0, 6.0]
    shares = dict(zip(("f00", "f01", "f02", "f03", "m00", "m01", "m02"), known, strict=True))
    measured = trend(values, table(4), shares)
    assert measured.n == 7
    assert measured.value == pytest.approx(stats.spearmanr(values[:7], known).statistic)


def test_what_cannot_be_asked_is_refused_in_one_line() -> None:
    with pytest.raises(BadProbe, match="each group"):
        log_odds(np.zeros((1, 2)), [1, 0])
    with pytest.raises(BadProbe, match=r"\[prompt, token\]"):
        log_odds(np.zeros(3), [1, -1, 0])
    with pytest.raises(BadProbe, match="finite one"):
        lean(np.full(8, np.nan), table(4))
    assert "each group needs" in lean([1.0, 2.0], table(1)).reason
    assert "each group needs" in lean_change(np.zeros(8), table(4), "unknown kind").reason
