"""Null models in rounds: stopping early changes no certain verdict and spends no more than the error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from levelhead.measures.null import MANY, NullDistribution
from levelhead.measures.rounds import (
    ALPHA,
    MAIN_LEVEL,
    SURE_LEVEL,
    closed,
    futile,
    largest_settled,
    least_p,
    least_p_of,
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
            return look, null.claimed_p(value)
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
            assert NullDistribution(nulls, share=share(PLANNED, PLANNED)).claimed_p(value) >= ALPHA
    assert early > 200


def test_no_null_models_to_come_give_a_smaller_p_than_the_least() -> None:
    rng = np.random.default_rng(3)
    there = NullDistribution(rng.normal(size=9))
    for value in (0.1, 0.7, 2.0):
        least = least_p(there, value, PLANNED)
        places = there.floor + np.linspace(-3, 3, 61) * there.spread
        more = [np.full(10, place) for place in places] + list(rng.normal(size=(200, 10)))
        reached = [
            NullDistribution(np.concatenate([there.values, new])).student_p_value(value) for new in more
        ]
        assert min(reached) >= least * 0.9 * 0.999  # the last look may spend 0.9 of the error
        assert min(reached) <= least * 0.9 * 1.02  # and the bound is reached
        from_p = least_p_of(there.student_p_value(value), 9, PLANNED)
        assert from_p == pytest.approx(least * 0.9)


def pursued(value: float, nulls: np.ndarray) -> tuple[int, float]:
    """After how many null models no more are asked for a claim beside the main one, and the p reported."""
    early = (k for k in looks(PLANNED) if k == PLANNED or closed(NullDistribution(nulls[:k]), value, PLANNED))
    look = next(early)
    return look, looked_at(NullDistribution(nulls[:look]), value, PLANNED).claimed_p(value)


@pytest.mark.parametrize("long_tailed", [False, True])
def test_a_stop_for_futility_makes_no_claim_and_adds_no_error(long_tailed: bool) -> None:
    rng, shape = np.random.default_rng(6), (300, PLANNED + 1)
    drawn = rng.standard_t(5, shape) if long_tailed else rng.normal(size=shape)
    futile_ones = 0
    for row in drawn:
        null = NullDistribution(row[1:10])
        if futile(null, row[0], PLANNED):
            futile_ones += 1
            assert looked_at(null, row[0], PLANNED).claimed_p(row[0]) >= ALPHA
    assert futile_ones > 270
    claimed = sum(pursued(row[0], row[1:])[1] < ALPHA for row in drawn)
    assert claimed / len(drawn) <= ALPHA + 2 * np.sqrt(ALPHA / len(drawn))


@pytest.mark.parametrize("excess", [3.5, 5.0])
def test_futility_costs_less_than_one_claim_in_a_hundred(excess: float) -> None:
    rng, level = np.random.default_rng(7), ALPHA / 20  # of a claim on a page of twenty
    drawn = rng.normal(size=(300, PLANNED))
    last = share(PLANNED, PLANNED)
    full = sum(NullDistribution(row, share=last).claimed_p(excess) < level for row in drawn)
    stopped_early = sum(pursued(excess, row)[1] < level for row in drawn)
    assert full - stopped_early <= len(drawn) / 100


def test_no_claim_is_futile_before_nine_null_models_or_where_more_than_nineteen_are_planned() -> None:
    nulls = np.random.default_rng(8).normal(size=PLANNED)
    assert futile(NullDistribution(nulls[:9]), 0.0, PLANNED)
    assert not futile(NullDistribution(nulls[:9]), 9.0, PLANNED)
    assert not futile(NullDistribution(nulls[:5]), 0.0, PLANNED)
    assert not futile(NullDistribution(nulls[:9]), 0.0, 9)
    assert not futile(NullDistribution(nulls[:9]), 0.0, 39)
    quiet = looked_at(NullDistribution(nulls[:9]), 0.0, PLANNED).judged(0.0, "null twins")
    assert quiet.futile
    assert not says_too_little(quiet)


def test_a_strong_association_is_settled_at_the_first_look_and_a_doubtful_one_is_not() -> None:
    nulls = np.random.default_rng(4).normal(0.16, 0.06, PLANNED)
    assert stopped(1.2, nulls, MAIN_LEVEL)[0] == 5
    assert stopped(0.16, nulls, MAIN_LEVEL)[0] < PLANNED
    assert stopped(0.32, nulls, MAIN_LEVEL)[0] == PLANNED


def test_null_models_after_which_no_more_could_change_anything_are_not_too_few() -> None:
    nulls = NullDistribution(np.random.default_rng(5).normal(size=5))
    near, far = (nulls.judged(nulls.floor + z * nulls.spread, "null twins") for z in (0.1, 1.8))
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
    assert largest_settled(largest, 0.35, 9)  # of so few no head can be clear at all
