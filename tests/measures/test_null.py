"""A null distribution: p-values that are exact, floors, and thousands of draws from a pool read once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.null import NullDistribution, null_range, sound_choice


def null(*values: float) -> NullDistribution:
    return NullDistribution(np.array(values))


def test_p_by_hand() -> None:
    """Center (1 + 2 + 3 + 10) / 4 = 4: distances 3, 2, 1 of the draws, 6 of the value."""
    assert null(1, 2, 3).p_value(10) == 1 / 4
    assert null(1, 2, 3).p_value(2) == 1  # the value is the center
    assert null(1, 2, 3).p_value(2, upper=True) == 3 / 4
    assert null(1, 2, 3).floor == 2
    assert null(1, 2, 3).spread == 1


def test_a_value_that_ties_with_a_draw_counts_the_tie() -> None:
    assert null(0.1 + 0.2, -0.3, 0.0).p_value(0.3) == pytest.approx(3 / 4)


def test_rounding_decides_neither_a_tie_nor_whether_draws_are_all_alike() -> None:
    rounded = 0.1 + 0.2
    assert null(0.3, 0.1, 0.0).p_value(rounded, upper=True) == pytest.approx(2 / 4)
    constant = null(0.3, rounded, 0.3)
    assert constant.p_value(rounded, "student") == 1.0
    assert constant.p_value(0.31, "student") == 0.0


@pytest.mark.parametrize("null_models", [4, 19])
def test_p_is_below_any_level_no_more_often_than_it_says(null_models: int) -> None:
    """Value and null models come from one skewed distribution: the exact p holds its level, whatever the
    shape."""
    draws = np.random.default_rng(0).exponential(size=(20_000, null_models + 1))
    p = np.array([NullDistribution(row[1:]).p_value(row[0]) for row in draws[:4_000]])
    for level in (1 / (null_models + 1), 2 / (null_models + 1), 0.5):
        assert (p <= level + 1e-9).mean() <= level + 3 * math.sqrt(level * (1 - level) / 4_000)
    assert p.min() == pytest.approx(1 / (null_models + 1))


def test_a_center_without_the_value_would_give_too_many_false_alarms() -> None:
    """Why the value takes part in its own center: with 4 draws, p <= 1/5 would come in far more than 20 %."""
    draws = np.random.default_rng(1).normal(size=(4_000, 5))
    away = np.abs(draws[:, 1:] - draws[:, 1:].mean(1, keepdims=True))
    own = np.abs(draws[:, 0] - draws[:, 1:].mean(1))
    careless = (own > away.max(1)).mean()
    exact = np.mean([NullDistribution(row[1:]).p_value(row[0]) <= 0.2 + 1e-9 for row in draws])
    assert careless > 0.3
    assert exact == pytest.approx(0.2, abs=0.02)


def test_shift_moves_floor_and_value_together_and_leaves_p() -> None:
    values = np.random.default_rng(2).normal(size=99)
    for value in (0.5, 2.5, -3.0):
        shifted = NullDistribution(values + 7).p_value(value + 7)
        assert shifted == NullDistribution(values).p_value(value)


def test_student_p_is_that_of_a_prediction_interval_and_goes_below_one_in_twenty() -> None:
    values = np.random.default_rng(3).normal(0.2, 0.05, size=19)
    own = NullDistribution(values)
    assert own.p_value(0.6, "student") < 1e-5 < own.p_value(0.6) == 0.05
    t = (0.25 - values.mean()) / (values.std(ddof=1) * math.sqrt(1 + 1 / 19))
    assert own.p_value(0.25, "student") == pytest.approx(2 * stats.t.sf(abs(t), 18))
    assert null(1, 1).p_value(1, "student") == 1
    assert null(1, 1).p_value(2, "student") == 0


def test_a_floor_far_from_0_is_not_sound_and_the_first_sound_way_is_chosen() -> None:
    rng = np.random.default_rng(4)
    everything, matched, single = (
        NullDistribution(rng.normal(mean, sd, size=19)) for mean, sd in ((0.2, 0.06), (0.0, 0.1), (0.0, 0.2))
    )
    assert not everything.sound
    assert matched.sound
    ways = {"all words": everything, "matched": matched, "one token": single}
    assert sound_choice(ways)[0] == "matched"
    chosen, why = sound_choice({"all words": everything, "more": NullDistribution(everything.values + 1)})
    assert chosen == "all words"
    assert "no way is sound" in why
    tiny_floor = NullDistribution(rng.normal(0.02, 0.2, size=100_000))
    assert tiny_floor.sound  # clear of 0 with so many draws, and of no consequence


def test_bad_nulls_are_refused() -> None:
    for values in (np.array([1.0]), np.array([1.0, np.nan]), np.ones((2, 2))):
        with pytest.raises(BadProbe, match="at least 2"):
            NullDistribution(values)
    with pytest.raises(BadProbe, match="At least one way"):
        sound_choice({})


# Changes of log-odds by "The woman worked as a nurse." in 24 null models of lh:bert-mini: four copy the word.
COPIED = (
    -0.34,
    -0.2,
    0.0,
    0.08,
    0.09,
    0.09,
    0.09,
    0.09,
    0.11,
    0.16,
    0.22,
    0.22,
    0.23,
    0.3,
    0.32,
    0.45,
    0.5,
    0.64,
    0.68,
    0.98,
    2.37,
    3.19,
    3.55,
    3.95,
)


@pytest.mark.nightly
@pytest.mark.parametrize(("level", "most"), [(0.05, 0.06), (0.001, 0.008)])
def test_long_tails_are_rarely_called_meaning_where_a_normal_null_often_does(
    level: float, most: float
) -> None:
    rng, runs, long, normal = np.random.default_rng(0), 4_000, 0, 0
    for _ in range(runs):
        *draws, value = rng.choice(COPIED, 10) + 0.1 * rng.normal(size=10)
        long += NullDistribution(np.array(draws), long_tails=True).p_value(value, "student") < level
        normal += NullDistribution(np.array(draws)).p_value(value, "student") < level
    assert long / runs <= most < normal / runs


def test_the_p_of_a_long_tailed_null_by_hand() -> None:
    """Floor 0, spread 1, K = 5: t = 6 / sqrt(1.2) = 5.477; with 3 degrees of freedom 2 · P(T > t) = 0.012."""
    null = NullDistribution(np.array([-1.0, -1.0, 0.0, 1.0, 1.0]), long_tails=True)
    assert null.p_value(6.0, "student") == pytest.approx(0.01196, abs=1e-4)
    assert "long-tailed" in null.judged(6.0, "null_models").method
    two = NullDistribution(np.array([-1.0, 1.0]), long_tails=True)  # fewer degrees of freedom stay fewer
    assert two.p_value(6.0, "student") == NullDistribution(two.values).p_value(6.0, "student")


@pytest.mark.parametrize("long_tails", [False, True])
def test_the_range_of_null_models_ends_where_a_value_has_p_005(long_tails: bool) -> None:
    drawn = NullDistribution(np.random.default_rng(0).normal(0.3, 0.1, 9), long_tails)
    for end in null_range(drawn.judged(0.0, "null models")):
        assert drawn.p_value(end, "student") == pytest.approx(0.05)


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=9, unique=True), st.sampled_from((0.05, 0.0125)))
def test_what_is_detectable_has_the_level_as_its_p_on_one_side_and_less_on_the_other(
    values: list[float], level: float
) -> None:
    null = NullDistribution(np.asarray(values))
    if null.spread < 1e-6:
        return
    size = null.detectable(level)
    ps = [null.p_value(sign * size, "student") for sign in (1, -1)]
    assert max(ps) == pytest.approx(level, rel=1e-6)
    assert max(null.p_value(sign * 1.01 * size, "student") for sign in (1, -1)) < level
