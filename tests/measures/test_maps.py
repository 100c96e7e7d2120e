"""Agreement of maps and the top of all maps, on arrays alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from levelhead.measures.maps import (
    ScoredMap,
    against_null_models,
    halves_agreement,
    head_test,
    map_agreement,
    shared_top,
)
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling

RNG = np.random.default_rng(5)
ORDERED = np.arange(24.0).reshape(4, 6)
QUICK = Resampling(200)


def test_agreement_is_spearmans_rho_and_certain_scores_leave_no_interval_open() -> None:
    certain = ScoredMap(ORDERED, np.zeros((4, 6)))
    turned = ScoredMap(-(ORDERED**3), np.zeros((4, 6)))
    measured = map_agreement(certain, turned, QUICK)
    assert measured.value == pytest.approx(-1)
    assert measured.interval == pytest.approx((-1, -1), abs=1e-6)


def test_larger_standard_errors_leave_a_wider_interval_around_rho() -> None:
    other = ORDERED + RNG.normal(0, 4, (4, 6))
    widths = []
    for noise in (0.5, 4.0):
        error = np.full((4, 6), noise)
        measured = map_agreement(ScoredMap(ORDERED, error), ScoredMap(other, error), QUICK)
        assert measured.value is not None
        assert measured.interval is not None
        low, high = measured.interval
        assert low < measured.value < high
        widths.append(high - low)
    assert widths[1] > 2 * widths[0]


def test_scores_without_standard_errors_have_no_interval() -> None:
    unknown = ScoredMap(ORDERED, np.full((4, 6), np.nan))
    assert map_agreement(unknown, ScoredMap(ORDERED, np.zeros((4, 6))), QUICK).interval is None


def test_a_map_without_differences_agrees_with_nothing() -> None:
    flat = ScoredMap(np.ones((4, 6)), np.zeros((4, 6)))
    assert map_agreement(flat, ScoredMap(ORDERED, np.zeros((4, 6))), QUICK).value is None


def test_a_rho_that_null_models_have_too_is_not_beyond_them() -> None:
    nulls = [0.88, 0.9, 0.92, 0.91, 0.87]
    inside = against_null_models(Measurement("rho", 0.9), nulls)
    beyond = against_null_models(Measurement("rho", 0.9), [0.0, 0.1, -0.1, 0.05, -0.05])
    assert inside.null is not None
    assert beyond.null is not None
    assert inside.null.p_value > 0.5
    assert beyond.null.p_value < 0.001
    assert against_null_models(Measurement("rho", 0.9), nulls[:2]).null is None


def test_the_top_of_all_maps_by_hand() -> None:
    one, other = np.zeros(20), np.zeros(20)
    one[[3, 7]], other[[7, 11]] = (2.0, 1.0), (2.0, 1.0)
    found = shared_top([one, other], [[one, one], [one, -one]])
    assert (found.k, found.units) == (2, (7,))
    assert found.by_chance == pytest.approx(20 * 0.1**2)
    assert found.in_null_models == 1.0  # two heads, and none
    assert found.p == pytest.approx(2 / 3)


def test_models_without_meaning_have_a_significant_head_in_at_most_one_of_twenty() -> None:
    """300 null models against 19 others each, their scores drawn from one distribution."""
    drawn = RNG.standard_t(3, (300, 20, 2, 2, 3, 4))
    found = [bool((head_test(own, nulls).p_value <= 0.05).any()) for own, *nulls in drawn]
    assert np.mean(found) == pytest.approx(0.05, abs=0.035)


def test_maps_without_meaning_agree_beyond_null_models_in_at_most_one_of_twenty() -> None:
    """Maps that share half of their variance in every model: late layers matter for whatever is asked."""
    scores = RNG.normal(size=24) + RNG.normal(size=(400, 10, 2, 24))  # [trial, model, map, head]
    ranks = stats.rankdata(scores, axis=-1)
    ranks -= ranks.mean(axis=-1, keepdims=True)
    rho = (ranks[:, :, 0] * ranks[:, :, 1]).sum(-1) / (ranks[0, 0, 0] ** 2).sum()
    nulls = [against_null_models(Measurement("rho", own), others).null for own, *others in rho.tolist()]
    p = [null.p_value for null in nulls if null is not None]
    assert len(p) == 400
    assert rho.mean() > 0.3
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.035)


def test_halves_that_say_the_same_agree_beyond_those_of_null_models() -> None:
    same = np.stack([ORDERED, ORDERED + RNG.normal(0, 1, (4, 6))])[None]
    nulls = [RNG.normal(size=(1, 2, 4, 6)) for _ in range(9)]
    measured = halves_agreement(same, nulls)
    assert measured.value is not None
    assert measured.value > 0.9
    assert measured.null is not None
    assert measured.null.p_value < 0.001
