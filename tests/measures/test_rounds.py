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
    largest_settled,
    least_p,
    least_p_of,
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
