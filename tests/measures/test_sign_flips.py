"""Sign flips: what a statistic shows when every preference could as well have been its opposite."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.sign_flips import (
    pair_preferences,
    paired_ss,
    rms,
    sign_flips,
    signed_preference,
    top_mean_test,
)
from levelhead.measures.stereoset import strength, triple_strength


def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(values.mean(axis=1))


def test_p_of_the_mean_by_hand() -> None:
    """Of the 8 sign vectors of 1, 2, 3 two have a mean as far from 0 as the observed one."""
    test = sign_flips([1.0, 2.0, 3.0], mean)
    assert test.value == 2
    assert test.p_value == 2 / 8
    assert test.floor == pytest.approx(-2 / 7)  # of the other seven


def test_p_of_the_mean_is_scipys() -> None:
    s = np.random.default_rng(0).normal(0.4, 1.0, size=12)
    reference = stats.permutation_test(
        (s,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=10_000
    )
    assert sign_flips(s, mean).p_value == pytest.approx(reference.pvalue, abs=1e-12)


def test_the_noise_floor_of_strength_by_hand() -> None:
    """Top half of two values: the larger. Under the three other signs of (1, 3): 3, 1, -1, so the floor is
    1."""
    test = top_mean_test([1.0, 3.0], share=0.5)
    assert test.value == 3
    assert test.floor == pytest.approx((3 + 1 - 1) / 3)
    assert test.excess == pytest.approx(2)
    assert test.p_value == (1 + 1) / 4


def test_the_value_is_that_of_strength() -> None:
    p = np.random.default_rng(1).uniform(size=(4, 57))
    s = triple_strength(*p)
    measured = strength(*p)
    assert top_mean_test(s).value == pytest.approx(measured.value)


def test_noise_has_strength_but_no_excess_and_its_p_is_uniform() -> None:
    rng = np.random.default_rng(2)
    tests = [top_mean_test(rng.normal(size=40), seed=i) for i in range(120)]
    # a bootstrap interval would call every one of these clear of 0
    assert min(test.value for test in tests) > 0.9
    assert abs(np.mean([test.excess for test in tests])) < 0.1
    assert np.mean([test.p_value < 0.05 for test in tests]) < 0.11
    assert np.mean([test.p_value < 0.5 for test in tests]) == pytest.approx(0.5, abs=0.15)


def test_exchanging_stereotype_and_anti_stereotype_turns_the_excess_over() -> None:
    s = np.random.default_rng(3).normal(0.5, 1.0, size=200)
    biased, turned = top_mean_test(s), top_mean_test(-s)
    assert biased.p_value < 0.01
    assert biased.excess > 0.2
    assert turned.value > 0.5  # as with the shipped triples: the value alone stays far above 0
    assert turned.excess < -0.2
    assert turned.p_value > 0.9


def test_clusters_flip_together() -> None:
    """One context asked 50 times is no more evidence than once."""
    s = np.repeat([0.5, 0.4, 0.6, 0.3], 50)
    labels = np.repeat(["a", "b", "c", "d"], 50)
    assert sign_flips(s, mean).p_value < 0.001
    assert sign_flips(s, mean, labels).p_value == 2 / 16


def test_many_clusters_are_drawn_and_agree_with_all_of_them() -> None:
    s = np.random.default_rng(4).normal(0.5, 1.0, size=14)
    signs = np.array(list(product([-1.0, 1.0], repeat=14)))
    exact = np.mean(np.abs((signs * s).mean(1)) >= abs(s.mean()) - 1e-12)
    assert sign_flips(s, mean).p_value == pytest.approx(exact, abs=0.01)


def test_preference_of_a_pair_by_hand_and_its_invariants() -> None:
    assert pair_preferences([3.0], [1.0], [0.5], [1.5])[0] == (3 - 1 - 0.5 + 1.5) / 2
    logits = np.random.default_rng(5).normal(size=(4, 9))
    likelier_sentence = logits + np.array(
        [[1.0], [0.0], [1.0], [0.0]]
    )  # Stereo and its swapped form, Anti_GS
    np.testing.assert_allclose(pair_preferences(*logits), pair_preferences(*likelier_sentence))
    with pytest.raises(BadProbe, match="every pair"):
        pair_preferences([1.0], [1.0, 2.0], [1.0], [1.0])


def test_the_mean_preference_has_an_interval_a_p_and_a_companion_that_scaling_leaves_alone() -> None:
    values = np.random.default_rng(6).normal(0.3, 1.0, size=120)
    measured, flatter = signed_preference(values), signed_preference(0.5 * values)
    assert measured.value == pytest.approx(values.mean())
    assert measured.details["p_value"] == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=0.01)
    assert measured.interval is not None
    assert measured.interval[0] < values.mean() < measured.interval[1]
    assert flatter.value == pytest.approx(0.5 * values.mean())
    assert flatter.details["scale_free"] == pytest.approx(measured.details["scale_free"])
    assert measured.details["scale_free"] == pytest.approx(values.mean() / rms(values))
    assert flatter.details["p_value"] == measured.details["p_value"]


def test_contexts_asked_several_times_widen_the_interval() -> None:
    values = np.repeat(np.random.default_rng(7).normal(0.3, 1.0, size=40), 5)
    alone = signed_preference(values).interval
    by_context = signed_preference(values, np.repeat(np.arange(40), 5)).interval
    assert alone is not None
    assert by_context is not None
    assert by_context[1] - by_context[0] > 1.8 * (alone[1] - alone[0])


def test_paired_ss_by_hand_and_as_the_mean_of_both() -> None:
    measured = paired_ss([1.0, -1.0, 0.0, 2.0], [1.0, 1.0, -3.0, -0.5])
    assert measured.value == (2 + 1 + 0.5 + 1) / 8
    assert measured.details["ss"] == 2.5 / 4
    assert measured.details["ss_swapped"] == 2 / 4
    assert measured.neutral == 0.5


def test_a_model_that_always_prefers_feminine_sentences_has_paired_ss_one_half() -> None:
    lean = np.random.default_rng(8).choice([-1.0, 1.0], size=50)
    measured = paired_ss(lean, -lean)
    assert measured.value == 0.5
    assert measured.details["p_value"] == 1


def test_too_little_is_not_measured_and_nonsense_is_refused() -> None:
    assert signed_preference([1.0]).value is None
    assert paired_ss([1.0], [1.0]).value is None
    with pytest.raises(BadProbe, match="at least 2"):
        sign_flips([np.nan, 1.0], mean)
    with pytest.raises(BadProbe, match="one label"):
        sign_flips([1.0, 2.0], mean, ["a"])
    with pytest.raises(BadProbe, match="both differences"):
        paired_ss([1.0], [1.0, 2.0])
