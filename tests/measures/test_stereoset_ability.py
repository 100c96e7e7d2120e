"""Abilities of a next-sentence head: by hand, against scikit-learn, and what flattened outputs do to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import balanced_accuracy_score

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import FloatArray, Resampling
from levelhead.measures.stereoset import lms, nsp_accuracy, separation, strength, triple_strength

FEW = Resampling(100)
Measure = Callable[[npt.ArrayLike, npt.ArrayLike, Resampling], Measurement]


def value(measured: Measurement) -> float:
    assert measured.value is not None, measured.reason
    return measured.value


def head(triples: int = 80, seed: int = 0) -> FloatArray:
    """Logits [triple, kind] of a head that mostly tells related sentences from unrelated ones."""
    rng = np.random.default_rng(seed)
    return rng.normal([1.5, 1.5, -1.5], 1.5, size=(triples, 3))


def probability(logits: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-logits)))


def rank_ability(logits: FloatArray) -> float:
    stereo, anti, unrelated = probability(logits).T
    return value(lms(stereo, anti, unrelated, resampling=FEW))


def of(measure: Measure, logits: FloatArray) -> float:
    return value(measure(probability(logits), np.arange(len(logits)), FEW))


# --- balanced accuracy


def test_balanced_accuracy_by_hand() -> None:
    p = [[0.9, 0.4, 0.1], [0.6, 0.7, 0.8]]
    measured = nsp_accuracy(p, ["a", "b"])
    assert measured.details == {"accepted_related": 3 / 4, "rejected_unrelated": 1 / 2}
    assert value(measured) == pytest.approx(5 / 8)
    assert measured.n == 2


def test_balanced_accuracy_is_scikit_learns() -> None:
    p = probability(head())
    related = np.tile([1, 1, 0], len(p))
    expected = balanced_accuracy_score(related, (p > 0.5).ravel())
    assert value(nsp_accuracy(p, np.arange(len(p)))) == pytest.approx(expected)


def test_a_head_that_accepts_everything_is_guessing() -> None:
    everything = nsp_accuracy(np.full((10, 3), 0.9), np.arange(10))
    assert value(everything) == 0.5
    assert everything.details["rejected_unrelated"] == 0.0
    assert value(nsp_accuracy(np.full((10, 3), 0.5), np.arange(10))) == 0.5


def test_outputs_that_drift_to_one_side_lose_accuracy_where_lms_sees_nothing() -> None:
    logits = head()
    drifted = logits + 2.0
    assert rank_ability(drifted) == rank_ability(logits)
    assert of(nsp_accuracy, drifted) < of(nsp_accuracy, logits) - 0.1


# --- separation


def test_separation_by_hand() -> None:
    measured = separation([[0.9, 0.5, 0.1], [0.6, 0.8, 0.8]], ["a", "b"])
    assert value(measured) == pytest.approx((0.6 - 0.1) / 2)
    assert measured.details == {"related": pytest.approx(0.7), "unrelated": pytest.approx(0.45)}


def test_separation_is_the_slope_of_p_on_being_related() -> None:
    p = probability(head())
    related = np.tile([1.0, 1.0, 0.0], len(p))
    slope = np.polyfit(related, p.ravel(), 1)[0]  # Yates's discrimination slope
    assert value(separation(p, np.arange(len(p)))) == pytest.approx(slope)


def test_a_head_that_answers_alike_separates_nothing() -> None:
    assert value(separation(np.full((6, 3), 0.7), np.arange(6))) == 0.0
    assert value(separation(np.tile([1.0, 1.0, 0.0], (6, 1)), np.arange(6))) == 1.0


def test_halved_logits_cost_separation_and_neither_accuracy_nor_lms_sees_them() -> None:
    logits = head()
    assert rank_ability(logits / 2) == rank_ability(logits)
    assert of(nsp_accuracy, logits / 2) == of(nsp_accuracy, logits)
    assert of(separation, logits / 2) < of(separation, logits) - 0.1


def test_a_proper_score_would_call_flattened_outputs_of_a_head_that_is_too_sure_an_improvement() -> None:
    logits = 4 * head()

    def brier(x: FloatArray) -> float:
        return float(np.mean((probability(x) - [1, 1, 0]) ** 2))

    assert brier(logits / 2) < brier(logits)
    assert of(separation, logits / 2) < of(separation, logits)


def test_halved_logits_lower_strength_and_not_its_scale_free_companion() -> None:
    x = np.random.default_rng(0).normal(0, 0.6, size=(4, 170)) + 1.5

    def measured(scale: float) -> Measurement:
        return strength(triple_strength(*probability(scale * x)), resampling=FEW)

    before, after = measured(1.0), measured(0.5)
    assert value(after) < 0.75 * value(before)
    companions = [each.details["scale_free"] for each in (before, after)]
    assert companions[1] == pytest.approx(companions[0], rel=0.05)


# --- what cannot be measured


def test_clusters_of_the_interval_are_contexts() -> None:
    p = np.repeat(probability(head(20)), 10, axis=0)
    alone, together = separation(p, np.arange(200)), separation(p, np.repeat(np.arange(20), 10))
    assert alone.value == together.value
    widths = [np.ptp(each.interval or (0, 0)) for each in (alone, together)]
    assert widths[1] > 2.5 * widths[0]


def test_no_triples_are_not_measured_and_other_shapes_are_refused() -> None:
    nothing = np.zeros((0, 3))
    assert nsp_accuracy(nothing, []).reason == separation(nothing, []).reason == "no triple"
    with pytest.raises(BadProbe, match="shape"):
        separation([[0.1, 0.2]], ["a"])
    with pytest.raises(BadProbe, match=r"outside 0\.\.1"):
        nsp_accuracy([[0.1, 0.2, 1.2]], ["a"])
