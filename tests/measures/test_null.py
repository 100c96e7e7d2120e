"""A null distribution: p-values that are exact, floors, and thousands of draws from a pool read once."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.null import NullDistribution, null_range, null_seats, sound_choice
from levelhead.measures.seat.effect import associations, seat
from levelhead.measures.seat_effect import WordSets


def null(*values: float) -> NullDistribution:
    return NullDistribution(np.array(values))


def test_p_by_hand() -> None:
    """Center (1 + 2 + 3 + 10) / 4 = 4: distances 3, 2, 1 of the draws, 6 of the value."""
    assert null(1, 2, 3).p_value(10) == 1 / 4
    assert null(1, 2, 3).p_value(2) == 1  # the value is the center
    assert null(1, 2, 3).upper_p_value(2) == 3 / 4
    assert null(1, 2, 3).floor == 2
    assert null(1, 2, 3).spread == 1
    assert null(1, 2, 3).excess(10) == 8


def test_a_value_that_ties_with_a_draw_counts_the_tie() -> None:
    assert null(0.1 + 0.2, -0.3, 0.0).p_value(0.3) == pytest.approx(3 / 4)


def test_rounding_decides_neither_a_tie_nor_whether_draws_are_all_alike() -> None:
    rounded = 0.1 + 0.2
    assert null(0.3, 0.1, 0.0).upper_p_value(rounded) == pytest.approx(2 / 4)
    constant = null(0.3, rounded, 0.3)
    assert constant.student_p_value(rounded) == 1.0
    assert constant.student_p_value(0.31) == 0.0


@pytest.mark.parametrize("twins", [4, 19])
def test_p_is_below_any_level_no_more_often_than_it_says(twins: int) -> None:
    """Value and twins come from one skewed distribution: the exact p holds its level, whatever the shape."""
    draws = np.random.default_rng(0).exponential(size=(20_000, twins + 1))
    p = np.array([NullDistribution(row[1:]).p_value(row[0]) for row in draws[:4_000]])
    for level in (1 / (twins + 1), 2 / (twins + 1), 0.5):
        assert (p <= level + 1e-9).mean() <= level + 3 * math.sqrt(level * (1 - level) / 4_000)
    assert p.min() == pytest.approx(1 / (twins + 1))


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
    assert own.student_p_value(0.6) < 1e-5 < own.p_value(0.6) == 0.05
    t = (0.25 - values.mean()) / (values.std(ddof=1) * math.sqrt(1 + 1 / 19))
    assert own.student_p_value(0.25) == pytest.approx(2 * stats.t.sf(abs(t), 18))
    assert null(1, 1).student_p_value(1) == 1
    assert null(1, 1).student_p_value(2) == 0


def test_the_upper_quantile_of_19_draws_is_their_largest() -> None:
    assert NullDistribution(np.arange(19.0)).upper_quantile(0.95) == 18
    assert NullDistribution(np.arange(39.0)).upper_quantile(0.95) == 37
    assert NullDistribution(np.arange(18.0)).upper_quantile(0.95) == math.inf


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
    with pytest.raises(BadProbe, match="at least one way"):
        sound_choice({})


# ---- pools of vectors


WORDS = WordSets({"A": [0, 1, 1], "B": [2, 3, 4], "X": [5, 6, 7, 8], "Y": [9, 10, 11]})


def test_one_draw_is_seat_of_the_words_that_were_drawn() -> None:
    """An independent computation: every draw must be the SEAT of some assignment of distinct pool words."""
    pool = np.random.default_rng(5).normal(size=(12, 6)) + 0.5
    only = WordSets({"A": [0], "B": [1], "X": [2, 3], "Y": [4, 5]})
    draws = null_seats(pool[:6], only, draws=50, seed=1).values
    possible = []
    for order in permutations(range(6)):
        a, b, *targets = pool[list(order)]
        x, y = np.array(targets[:2]), np.array(targets[2:])
        possible.append(seat(associations(x, [a], [b]), associations(y, [a], [b])))
    assert np.abs(draws[:, None] - np.array(possible)).min(axis=1).max() < 1e-12
    assert len(np.unique(draws.round(9))) > 30


def test_repeats_stay_repeats() -> None:
    """A word listed twice gets one stand-in: with A of one word, listed once or thrice, nothing changes."""
    pool = np.random.default_rng(6).normal(size=(30, 6))
    once = WordSets({"A": [0], "B": [2], "X": [5, 6, 7], "Y": [9, 10, 11]})
    thrice = WordSets({**once.sets, "A": [0, 0, 0]})
    np.testing.assert_allclose(null_seats(pool, once).values, null_seats(pool, thrice).values, atol=1e-12)


def test_words_are_exchanged_within_their_stratum_only() -> None:
    """Pool words of stratum 1 share a direction: if A and X are of stratum 1, the floor is far above 0."""
    rng = np.random.default_rng(7)
    pool = rng.normal(size=(200, 16))
    pool[100:, 0] += 2.0
    strata = [1] * 2 + [0] * 3 + [1] * 4 + [0] * 3  # A and X
    of_pool = [0] * 100 + [1] * 100
    mixed = null_seats(pool, WORDS)
    split = null_seats(pool, WORDS, (strata, of_pool))
    assert abs(mixed.floor) < 4 * mixed.floor_error
    assert split.floor > 0.6
    with pytest.raises(BadProbe, match="Stratum 1: 6 listed words and 2 pool words"):
        null_seats(pool, WORDS, (strata, [0] * 198 + [1] * 2))


def test_a_planted_association_is_found_and_random_words_are_not() -> None:
    rng = np.random.default_rng(8)
    sets = WordSets({"A": range(10), "B": range(10, 20), "X": range(20, 35), "Y": range(35, 50)})
    p_random: list[float] = []
    p_planted: list[float] = []
    for seed in range(60):
        pool = rng.normal(size=(200, 16))
        for planted in (False, True):
            vectors = pool.copy()
            if planted:
                vectors[[*sets.sets["A"], *sets.sets["X"]], 0] += 1.0
                vectors[[*sets.sets["B"], *sets.sets["Y"]], 0] -= 1.0
            a, b, x, y = (vectors[sets.of(name)] for name in "ABXY")
            value = seat(associations(x, a, b), associations(y, a, b))
            p = null_seats(vectors, sets, draws=400, seed=seed).p_value(value)
            (p_planted if planted else p_random).append(p)
    assert np.mean(np.array(p_planted) < 0.05) > 0.95
    assert np.mean(np.array(p_random) < 0.05) < 0.15
    assert np.mean(np.array(p_random) < 0.5) > 0.25


def test_the_same_seed_draws_the_same_values() -> None:
    pool = np.random.default_rng(9).normal(size=(30, 4))
    np.testing.assert_array_equal(
        null_seats(pool, WORDS, seed=3).values, null_seats(pool, WORDS, seed=3).values
    )
    assert (null_seats(pool, WORDS, seed=3).values != null_seats(pool, WORDS, seed=4).values).any()


# Changes of log-odds by "The woman worked as a nurse." in 24 null twins of lh:bert-mini: four copy the word.
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
        long += NullDistribution(np.array(draws), long_tails=True).student_p_value(value) < level
        normal += NullDistribution(np.array(draws)).student_p_value(value) < level
    assert long / runs <= most < normal / runs


def test_the_p_of_a_long_tailed_null_by_hand() -> None:
    """Floor 0, spread 1, K = 5: t = 6 / sqrt(1.2) = 5.477; with 3 degrees of freedom 2 · P(T > t) = 0.012."""
    null = NullDistribution(np.array([-1.0, -1.0, 0.0, 1.0, 1.0]), long_tails=True)
    assert null.student_p_value(6.0) == pytest.approx(0.01196, abs=1e-4)
    assert "long-tailed" in null.judged(6.0, "twins").method
    two = NullDistribution(np.array([-1.0, 1.0]), long_tails=True)  # fewer degrees of freedom stay fewer
    assert two.student_p_value(6.0) == NullDistribution(two.values).student_p_value(6.0)


@pytest.mark.parametrize("long_tails", [False, True])
def test_the_range_of_null_models_ends_where_a_value_has_p_005(long_tails: bool) -> None:
    drawn = NullDistribution(np.random.default_rng(0).normal(0.3, 0.1, 9), long_tails)
    for end in null_range(drawn.judged(0.0, "null twins")):
        assert drawn.student_p_value(end) == pytest.approx(0.05)
