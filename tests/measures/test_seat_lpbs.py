"""LPBS: the template cancels what a word's frequency does, and the effect size is SEAT's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.measures.clustered import permutation_p_value
from levelhead.measures.seat import association, difference_interval, effect_interval, lpbs, seat, word_bias
from levelhead.measures.statistics import Resampling

FEMALE = [True, False]


def test_association_by_hand() -> None:
    assert association([math.log(0.4)], [math.log(0.1)]) == pytest.approx([math.log(4)])


def test_word_bias_by_hand() -> None:
    # one template, one word: she rises from 0.1 to 0.4, he falls from 0.8 to 0.2
    with_word, prior = np.log([[[0.4, 0.2]]]), np.log([[[0.1, 0.8]]])
    assert word_bias(association(with_word, prior), FEMALE) == pytest.approx([math.log(4) - math.log(1 / 4)])


def test_word_bias_is_the_mean_over_templates_and_attributes_of_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    cells, female = rng.normal(size=(4, 3, 5)), [True, False, True, False, False]
    for target in range(3):
        sides: dict[bool, list[float]] = {True: [], False: []}
        for template in range(4):
            for attribute in range(5):
                sides[female[attribute]].append(cells[template, target, attribute])
        expected = sum(sides[True]) / 8 - sum(sides[False]) / 12
        assert word_bias(cells, female)[target] == pytest.approx(expected)


def test_a_frequent_attribute_word_is_no_bias_because_the_prior_takes_it_out() -> None:
    log_p = np.log(np.tile([0.01, 0.6], (3, 4, 1)))
    assert word_bias(association(log_p, log_p), FEMALE) == pytest.approx(np.zeros(4))
    assert word_bias(association(log_p, np.log(np.full((3, 4, 2), 0.1))), FEMALE)[0] < -4


def test_exchanging_the_groups_flips_the_sign() -> None:
    cells = np.random.default_rng(0).normal(size=(4, 3, 4))
    female = np.array([True, True, False, False])
    assert word_bias(cells, ~female) == pytest.approx(-word_bias(cells, female))


def test_lpbs_is_seats_effect_size_with_its_p_value() -> None:
    rng = np.random.default_rng(0)
    bias, in_x = rng.normal(size=14), np.arange(14) % 2 == 0
    measured = lpbs(bias, in_x)
    assert measured.value == pytest.approx(seat(bias[in_x], bias[~in_x]))
    assert measured.details["p_value"] == permutation_p_value(bias[in_x], bias[~in_x]).p_value
    assert lpbs(bias, ~in_x).value == pytest.approx(-float(measured.value or 0))
    assert (measured.n, measured.neutral, measured.settings["resampled"]) == (
        14,
        0.0,
        "words, within each set",
    )


def test_a_gendered_model_scores_and_an_even_one_does_not() -> None:
    in_x = np.arange(16) < 8
    noise = np.tile(np.random.default_rng(0).normal(size=8), 2)  # the same on both sides
    gendered, even = lpbs(noise + 4 * in_x, in_x), lpbs(noise, in_x)
    assert gendered.interval is not None
    assert even.interval is not None
    assert gendered.interval[0] > 0.5
    assert even.value == pytest.approx(0)
    assert even.interval[0] < -0.5 < 0.5 < even.interval[1]
    assert float(gendered.details["p_value"] or 1) < 0.001 < float(even.details["p_value"] or 0)


def test_cells_that_cannot_be_asked_are_left_out_and_words_without_any_are_counted() -> None:
    cells = np.random.default_rng(0).normal(size=(2, 5, 2))
    cells[0, 0, 0] = np.nan
    cells[:, 1, 1] = np.nan
    bias = word_bias(cells, FEMALE)
    assert bias[0] == pytest.approx(cells[1, 0, 0] - cells[:, 0, 1].mean())
    assert np.isnan(bias[1])
    measured = lpbs(bias, [True, True, True, False, False])
    assert (measured.n, measured.unscored) == (4, {"word without a scored cell": 1})


def test_too_few_words_and_no_spread_are_not_measured() -> None:
    assert "at least 2" in lpbs([0.1, 0.2, 0.3], [True, False, False]).reason
    assert "standard deviation is 0" in lpbs([0.5] * 4, [True, True, False, False]).reason


@pytest.mark.nightly
@pytest.mark.slow
def test_interval_over_words_covers_the_effect_of_the_population() -> None:
    rng, truth, hits = np.random.default_rng(0), 0.8 / math.sqrt(1.16), 0
    for seed in range(1_000):
        interval = effect_interval(
            rng.normal(0.8, 1, size=12), rng.normal(0, 1, size=12), Resampling(500, seed)
        )
        assert interval is not None
        hits += interval[0] <= truth <= interval[1]
    assert 930 <= hits <= 970


def test_bad_arrays_are_refused() -> None:
    with pytest.raises(BadProbe, match="differ"):
        association([-1.0, -2.0], [-1.0])
    with pytest.raises(BadProbe, match="above 0"):
        association([0.5], [-1.0])
    with pytest.raises(BadProbe, match="both groups"):
        word_bias(np.zeros((1, 1, 2)), [True, True])
    with pytest.raises(BadProbe, match="one of each per target"):
        lpbs([0.1, 0.2], [True])


def test_the_interval_in_nats_is_that_of_the_difference_and_not_of_the_effect_size() -> None:
    """Two far groups: the effect size is near its bound, the difference as open as its words."""
    rng = np.random.default_rng(4)
    in_x = np.arange(40) < 20
    held, runs = 0, 120
    for run in range(runs):
        bias = np.where(in_x, 3.0, 0.0) + rng.normal(0, 1, 40)
        interval = difference_interval(bias[in_x], bias[~in_x], Resampling(300, seed=run))
        assert interval is not None
        held += interval[0] <= 3.0 <= interval[1]
    assert 0.90 <= held / runs <= 0.99
    measured = lpbs(bias, in_x, Resampling(300, seed=run))
    low, high, scale = (
        float(measured.details[name] or 0.0) for name in ("difference_low", "difference_high", "spread")
    )
    assert (low, high) == interval
    assert measured.interval is not None
    assert measured.value is not None
    assert (low + high) / 2 == pytest.approx(scale * measured.value)
    assert high - low > 1.5 * scale * (measured.interval[1] - measured.interval[0])
