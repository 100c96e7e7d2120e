"""Heads that hold on other words, against the largest that null models show."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.maps import half_agreement, head_test, held_scores, largest_held
from levelhead.measures.null import NullDistribution, largest_settled, share


def noise(rng: np.random.Generator, *shape: int) -> NDArray[np.float64]:
    return rng.normal(size=(*shape, 2, 8, 8))


def test_what_both_halves_say_by_hand() -> None:
    halves = np.array([[[[3.0, -2.0, 1.0]], [[1.0, -5.0, -1.0]]], [[[2.0, -1.0, 4.0]], [[4.0, 1.0, 6.0]]]])
    np.testing.assert_allclose(held_scores(halves), [[(1 + 2) / 2, (-2 + 0) / 2, (0 + 4) / 2]])


def test_exchanging_the_halves_changes_nothing_and_turning_the_signs_turns_the_scores() -> None:
    halves = noise(np.random.default_rng(0), 3)
    np.testing.assert_array_equal(held_scores(halves), held_scores(halves[:, ::-1]))
    np.testing.assert_array_equal(held_scores(-halves), -held_scores(halves))


def test_agreement_is_spearmans_rho_of_each_split() -> None:
    halves = noise(np.random.default_rng(1), 2)
    expected = [stats.spearmanr(one.ravel(), other.ravel()).statistic for one, other in halves]
    np.testing.assert_allclose(half_agreement(halves), expected)


def test_a_head_beyond_all_null_models_is_clear_and_one_that_flips_is_not() -> None:
    rng = np.random.default_rng(2)
    halves, null_models = noise(rng, 2), noise(rng, 19, 2)
    halves[:, :, 3, 4] = 9.0
    halves[:, 0, 5, 6], halves[:, 1, 5, 6] = 9.0, -9.0  # large in both halves, and never the same
    test = head_test(halves, null_models)
    assert test.clear[3, 4]
    assert test.p_value[3, 4] == 1 / 20
    assert not test.clear[5, 6]
    assert test.p_value[5, 6] == 1
    assert test.clear.sum() == 1


@pytest.mark.slow
def test_of_models_without_meaning_one_in_twenty_has_any_clear_head() -> None:
    """The family of 64 heads is corrected: scale and heavy tails of the scores do not matter."""
    rng = np.random.default_rng(3)
    any_clear = [
        head_test(scores[0], scores[1:]).clear.any()
        for scores in (rng.standard_t(3, size=(20, 2, 2, 8, 8)) for _ in range(600))
    ]
    assert np.mean(any_clear) == pytest.approx(0.05, abs=0.03)


def test_the_largest_score_alone_would_miss_what_holds() -> None:
    """Ten heads of middling size that hold in both halves: none is the largest in a single half."""
    rng = np.random.default_rng(4)
    halves, null_models = noise(rng, 2), noise(rng, 39, 2)
    halves.reshape(2, 2, 64)[:, :, :10] = 2.2
    test = head_test(halves, null_models)
    assert test.clear.ravel()[:10].all()
    largest = np.sort(np.abs(null_models.mean(axis=(1, 2))).reshape(39, 64).max(axis=1))
    assert np.abs(halves.mean(axis=(0, 1))).ravel()[:10].max() > largest[37]  # one mean would do here too
    single = np.sort(np.abs(null_models[:, 0, 0]).reshape(39, 64).max(axis=1))
    assert np.abs(halves[0, 0]).ravel()[:10].max() < single[20]


def test_the_largest_score_that_holds_stands_beside_that_of_the_null_models() -> None:
    rng = np.random.default_rng(5)
    halves, null_models = noise(rng, 3), noise(rng, 19, 3)
    halves[:, :, 2, 2] = 9.0
    largest = head_test(halves, null_models).largest
    assert largest.value == pytest.approx(9.0)
    assert largest.null is not None
    of_null_models = np.array([np.abs(held_scores(null_model)).max() for null_model in null_models])
    assert largest.null.floor == pytest.approx(of_null_models.mean())
    logs = np.log(of_null_models)
    t = (np.log(9.0) - logs.mean()) / (logs.std(ddof=1) * np.sqrt(1 + 1 / 19))
    assert largest.null.p_value == pytest.approx(stats.t.sf(t, 18))
    many = head_test(halves, noise(rng, 199, 3)).largest
    assert many.null is not None
    assert many.null.p_value == 1 / 200


def test_students_p_of_the_largest_score_is_small_as_often_as_it_says() -> None:
    """Heavy tails of the scores: t with 3 degrees of freedom."""
    rng = np.random.default_rng(7)
    p_values = []
    for _ in range(600):
        scores = rng.standard_t(3, size=(20, 2, 2, 8, 8))
        null = head_test(scores[0], scores[1:]).largest.null
        assert null is not None
        p_values.append(null.p_value)
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(np.array(p_values) < 0.005) < 0.02


def few(rng: np.random.Generator, tails: float | None) -> NDArray[np.float64]:
    """Half scores of a model and its 9 null models in two splits: normal, or with long tails."""
    shape = (10, 2, 2, 8, 8)
    return rng.normal(size=shape) if tails is None else rng.standard_t(tails, size=shape)


def test_where_nine_null_models_are_planned_p_is_students_on_logarithms_by_hand() -> None:
    scores = few(np.random.default_rng(8), None)
    scores[0, :, :, 2, 2] = 4.0
    test = head_test(scores[0], scores[1:], planned=9)
    logs = np.log([np.abs(held_scores(null_model)).max() for null_model in scores[1:]])
    t = (np.log(4.0) - logs.mean()) / (logs.std(ddof=1) * np.sqrt(1 + 1 / 9))
    p = stats.t.sf(t, 8)
    assert p < 0.001
    assert test.p_value[2, 2] == pytest.approx(p / 0.95)  # of the error 5 % may be spent after 5 null models
    assert test.largest.null is not None
    assert test.largest.null.p_value == pytest.approx(p / 0.95)
    assert test.largest.null.planned == 9
    assert np.argwhere(test.clear).tolist() == [[2, 2]]
    least = np.abs(test.held).min()
    t = (np.log(least) - logs.mean()) / (logs.std(ddof=1) * np.sqrt(1 + 1 / 9)) if least else -np.inf
    assert test.p_value.max() == pytest.approx(min(1.0, stats.t.sf(t, 8) / 0.95))
    ranked = head_test(scores[0], scores[1:])  # without rounds it is by rank, and 9 are too few
    assert ranked.p_value.min() == 0.1
    assert not ranked.clear.any()


def test_after_three_null_models_of_five_no_head_is_clear_however_large() -> None:
    scores = few(np.random.default_rng(9), None)
    scores[0, :, :, 2, 2] = 1e6
    early, all_of_them = (head_test(scores[0], scores[1 : 1 + n], planned=5) for n in (3, 5))
    assert early.p_value.min() == 1.0
    assert not early.clear.any()
    assert early.largest.null is not None
    assert early.largest.null.p_value == 0.05
    assert all_of_them.clear[2, 2]


def test_a_null_model_without_any_score_that_holds_leaves_the_test_to_ranks() -> None:
    scores = few(np.random.default_rng(9), None)
    scores[0, :, :, 2, 2] = 9.0
    scores[1] = 0.0
    test = head_test(scores[0], scores[1:], planned=9)
    assert test.p_value[2, 2] == pytest.approx(0.1 / 0.95)
    assert not test.clear.any()


@pytest.mark.slow
@pytest.mark.parametrize(("tails", "most"), [(None, 0.065), (3, 0.08)])
def test_of_models_without_meaning_one_in_twenty_has_a_clear_head_against_nine_null_models(
    tails: float | None, most: float
) -> None:
    """With the look after 5 null models, as an audit stops."""
    rng, claimed = np.random.default_rng(10), []
    for _ in range(1_000):
        own, *null_models = few(rng, tails)
        largest = largest_held(null_models)
        value = float(np.abs(held_scores(own)).max())
        first = NullDistribution(largest.values[:5])
        there = first if largest_settled(first, value, 9) else largest
        claimed.append(there.p_value(value, "logarithm") / share(len(there), 9) <= 0.05)
    assert 0.03 < np.mean(claimed) < most


def test_other_shapes_are_refused() -> None:
    rng = np.random.default_rng(6)
    with pytest.raises(BadProbe, match="same shape"):
        head_test(noise(rng, 2), noise(rng, 19, 3))
    with pytest.raises(BadProbe, match=r"\[split, 2, layer, head\]"):
        held_scores(np.zeros((2, 3, 8, 8)))
