"""Null models in rounds: stopping early changes no certain verdict and spends no more than the error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from levelhead.measures.measurement import NULL_MODELS, Null
from levelhead.measures.null import (
    ALPHA,
    FUTILE_FROM,
    MAIN_LEVEL,
    MANY,
    SURE_LEVEL,
    NullDistribution,
    closed,
    futile,
    largest_settled,
    least_p,
    looked_at,
    looks,
    says_too_little,
    settled,
    share,
)

PLANNED = 19


def stopped(value: float, nulls: np.ndarray, level: float) -> tuple[int, float]:
    """After how many null models an audit stops, and the p that it reports."""
    for look in looks(PLANNED):
        null = NullDistribution(nulls[:look], share=share(look, PLANNED))
        if look == PLANNED or settled(null, value, PLANNED, level):
            return look, null.judged(value, NULL_MODELS).p_value
    raise AssertionError


@pytest.mark.parametrize("planned", [2, 5, 6, 9, 12, 19, 39, 198, MANY, 500])
def test_the_looks_spend_the_whole_error_and_no_more(planned: int) -> None:
    assert sum(share(look, planned) for look in looks(planned)) == pytest.approx(1)
    assert looks(planned)[-1] == planned
    if planned >= MANY:
        assert looks(planned) == (planned,)


@pytest.mark.parametrize(("level", "long_tailed"), [(MAIN_LEVEL, False), (ALPHA, False), (ALPHA, True)])
def test_models_without_meaning_get_a_claim_no_more_often_than_the_level_at_any_stop(
    level: float, long_tailed: bool
) -> None:
    rng, shape = np.random.default_rng(1), (1_000, PLANNED + 1)
    drawn = rng.standard_t(5, shape) if long_tailed else rng.normal(size=shape)
    claimed = sum(stopped(row[0], row[1:], level)[1] < level for row in drawn)
    assert claimed / len(drawn) <= level + 2 * np.sqrt(level / len(drawn))


def test_a_silent_stop_has_the_verdict_that_all_null_models_would_have_given() -> None:
    rng = np.random.default_rng(2)
    early = 0
    for _ in range(400):
        value, nulls = rng.normal(), rng.normal(size=PLANNED)
        look, p = stopped(value, nulls, SURE_LEVEL)
        if look < PLANNED and p >= ALPHA:
            early += 1
            assert (
                NullDistribution(nulls, share=share(PLANNED, PLANNED)).judged(value, NULL_MODELS).p_value
                >= ALPHA
            )
    assert early > 200


def test_no_null_models_to_come_give_a_smaller_p_than_the_least() -> None:
    rng = np.random.default_rng(3)
    there = NullDistribution(rng.normal(size=9))
    for value in (0.1, 0.7, 2.0):
        least = least_p(there, value, PLANNED)
        places = there.floor + np.linspace(-3, 3, 61) * there.spread
        more = [np.full(10, place) for place in places] + list(rng.normal(size=(200, 10)))
        reached = [
            NullDistribution(np.concatenate([there.values, new])).p_value(value, "student") for new in more
        ]
        assert min(reached) >= least * 0.9 * 0.999  # the last look may spend 0.9 of the error
        assert min(reached) <= least * 0.9 * 1.02  # and the bound is reached
        assert says_too_little(there.judged(value, NULL_MODELS)) == (least * 0.9 < ALPHA)  # the same from p


@pytest.mark.parametrize("planned", range(3, 20))
def test_any_number_of_planned_null_models_has_a_least_p(planned: int) -> None:
    drawn = np.random.default_rng(planned).normal(size=planned)
    for so_far in range(2, planned):
        assert (
            0 <= least_p(NullDistribution(drawn[:so_far]), 1.0, planned) <= 1.5
        )  # p over its share of the error


def pursued(value: float, nulls: np.ndarray) -> tuple[int, float]:
    """After how many null models no more are asked for a claim beside the main one, and the p reported."""
    early = (k for k in looks(PLANNED) if k == PLANNED or closed(NullDistribution(nulls[:k]), value, PLANNED))
    look = next(early)
    return look, looked_at(NullDistribution(nulls[:look]), value, PLANNED).judged(value, NULL_MODELS).p_value


@pytest.mark.parametrize("long_tailed", [False, True])
def test_a_stop_for_futility_makes_no_claim_and_adds_no_error(long_tailed: bool) -> None:
    rng, shape = np.random.default_rng(6), (300, PLANNED + 1)
    drawn = rng.standard_t(5, shape) if long_tailed else rng.normal(size=shape)
    futile_ones = 0
    for row in drawn:
        null = NullDistribution(row[1:10])
        if futile(null.p_value(row[0], "student"), len(null), PLANNED):
            futile_ones += 1
            assert looked_at(null, row[0], PLANNED).judged(row[0], NULL_MODELS).p_value >= ALPHA
    assert futile_ones > 270
    claimed = sum(pursued(row[0], row[1:])[1] < ALPHA for row in drawn)
    assert claimed / len(drawn) <= ALPHA + 2 * np.sqrt(ALPHA / len(drawn))


@pytest.mark.parametrize("excess", [3.5, 5.0])
def test_futility_costs_less_than_one_claim_in_a_hundred(excess: float) -> None:
    rng, level = np.random.default_rng(7), ALPHA / 20  # of a claim on a page of twenty
    drawn = rng.normal(size=(300, PLANNED))
    last = share(PLANNED, PLANNED)
    full = sum(NullDistribution(row, share=last).judged(excess, NULL_MODELS).p_value < level for row in drawn)
    stopped_early = sum(pursued(excess, row)[1] < level for row in drawn)
    assert full - stopped_early <= len(drawn) / 100


def student(nulls: np.ndarray, excess: float) -> np.ndarray:
    """Two-sided p of a value so far from 0 against each row of null models."""
    k = nulls.shape[1]
    t = np.abs(excess - nulls.mean(axis=1)) / (nulls.std(axis=1, ddof=1) * np.sqrt(1 + 1 / k))
    return np.asarray(2 * stats.t.sf(t, k - 1))


@pytest.mark.parametrize(
    ("look", "planned", "level", "most"),
    [
        (3, 5, 0.0025, 0.001),
        (3, 5, 0.005, 0.026),
        (3, 5, 0.0125, 0.16),
        (5, 9, 0.0025, 0.009),
        (5, 9, 0.005, 0.048),
        (5, 9, 0.0125, 0.17),
        (9, 19, 0.0025, 0.001),
        (9, 19, 0.005, 0.006),
        (9, 19, 0.0125, 0.055),
    ],
)
def test_the_power_that_futility_costs_is_what_the_method_page_says(
    look: int, planned: int, level: float, most: float
) -> None:
    """Claims that all planned null models would give at a level, and that a look calls futile."""
    rng = np.random.default_rng(9)
    lost = []
    for excess in np.arange(2, 8, 0.5):
        drawn = rng.normal(size=(10_000, planned))
        full = student(drawn, excess) / share(planned, planned) < level
        lost.append(np.mean(full & (student(drawn[:, :look], excess) >= FUTILE_FROM[look][1])))
    assert max(lost) < most
    if level == 0.0125:
        assert max(lost) > 0.03  # it does cost something


def test_claims_are_futile_after_3_of_5_null_models_5_of_9_and_9_of_19_alone() -> None:
    nulls = np.random.default_rng(8).normal(size=PLANNED)
    assert futile(NullDistribution(nulls[:3]).p_value(-1.5, "student"), 3, 5)
    assert not futile(NullDistribution(nulls[:3]).p_value(9.0, "student"), 3, 5)
    assert not futile(NullDistribution(nulls[:3]).p_value(-1.5, "student"), 3, 9)
    assert futile(NullDistribution(nulls[:9]).p_value(0.0, "student"), 9, PLANNED)
    assert not futile(NullDistribution(nulls[:9]).p_value(9.0, "student"), 9, PLANNED)
    assert not futile(NullDistribution(nulls[:5]).p_value(0.0, "student"), 5, PLANNED)
    assert futile(NullDistribution(nulls[:5]).p_value(0.0, "student"), 5, 9)
    assert not futile(NullDistribution(nulls[:5]).p_value(9.0, "student"), 5, 9)
    assert not futile(NullDistribution(nulls[:9]).p_value(0.0, "student"), 9, 9)
    assert not futile(NullDistribution(nulls[:9]).p_value(0.0, "student"), 9, 39)
    quiet = looked_at(NullDistribution(nulls[:9]), 0.0, PLANNED).judged(0.0, "null models")
    assert quiet.futile
    assert not says_too_little(quiet)


def test_the_look_after_3_null_models_spends_nothing_and_claims_nothing() -> None:
    assert looks(5) == (3, 5)
    assert looks(9) == (5, 9)
    assert (share(3, 5), share(5, 5)) == (0.0, 1.0)
    nulls = NullDistribution(np.array([-0.1, 0.0, 0.1]))
    assert not settled(nulls, 1e6, 5, ALPHA)
    assert replace(nulls, share=0.0).judged(1e6, NULL_MODELS).p_value == ALPHA
    quiet = looked_at(nulls, 0.2, 5).judged(0.2, "null models")
    assert quiet.futile
    assert says_too_little(quiet)  # of a plan of 5: nine could tell


def test_five_null_models_are_too_few_of_any_plan_and_nine_are_enough_where_nine_were_planned() -> None:
    near = Null("null models; p two-sided", 5, 0.0, 0.1, 0.06)
    assert [replace(near, planned=planned).enough for planned in (None, 5, 9, 12, 39)] == [19, 9, 9, 12, 19]
    assert says_too_little(near)
    assert says_too_little(replace(near, planned=5))
    assert says_too_little(replace(near, planned=9))
    assert says_too_little(replace(near, draws=9))
    assert not says_too_little(replace(near, draws=9, planned=9))
    assert says_too_little(replace(near, draws=9, planned=19))
    kept = looked_at(NullDistribution(np.arange(5.0)), 6.0, 9).judged(6.0, "null models")
    assert kept.planned == 9


def test_a_strong_association_is_settled_at_the_first_look_and_a_doubtful_one_is_not() -> None:
    nulls = np.random.default_rng(4).normal(0.16, 0.06, PLANNED)
    assert stopped(1.2, nulls, MAIN_LEVEL)[0] == 5
    assert stopped(0.16, nulls, MAIN_LEVEL)[0] < PLANNED
    assert stopped(0.32, nulls, MAIN_LEVEL)[0] == PLANNED


def test_null_models_after_which_no_more_could_change_anything_are_not_too_few() -> None:
    nulls = NullDistribution(np.random.default_rng(5).normal(size=5))
    near, far = (nulls.judged(nulls.floor + z * nulls.spread, "null models") for z in (0.1, 1.8))
    assert not says_too_little(near)
    assert says_too_little(far)
    assert not says_too_little(replace(far, draws=19))
    assert not says_too_little(None)


def test_one_null_model_beyond_the_largest_score_settles_that_no_head_is_clear() -> None:
    largest = NullDistribution(np.array([0.1, 0.2, 0.3]))
    assert largest_settled(largest, 0.25, PLANNED)
    assert not largest_settled(largest, 0.35, PLANNED)
    assert not largest_settled(largest, 0.25, 39)  # of 39 a head may leave one out
    assert largest_settled(largest, 0.15, 39)


def test_where_nine_are_planned_clear_heads_are_settled_by_logarithms() -> None:
    largest = NullDistribution(np.array([0.1, 0.2, 0.15, 0.12, 0.17]))
    assert largest_settled(largest, 0.2, 9)  # p 0.2: futile
    assert not largest_settled(largest, 0.4, 9)  # p 0.02
    assert not largest_settled(largest, 5.0, 9)  # p 2e-4: not yet sure, of which a first look may spend 0.05
    assert largest_settled(largest, 100.0, 9)  # sure
    assert not largest_settled(NullDistribution(largest.values[:4]), 0.2, 9)  # no look
