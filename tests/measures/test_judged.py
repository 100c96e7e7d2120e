"""Differences that a judge finds: the correction by hand, and how often its interval covers the truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from levelhead.measures.gaps import Design, paired_gap
from levelhead.measures.judged import Calibration, calibrated, corrected
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.statistics import Resampling

QUICK = Resampling(resamples=100)


def test_rogan_and_gladen_by_hand() -> None:
    """Sensitivity 0.9, specificity 0.8: an observed share of 0.41 is a true one of 0.3."""
    found = calibrated([1.0] * 9 + [0.0], [0.0] * 8 + [1.0] * 2)
    assert found.slope == pytest.approx(0.9 + 0.8 - 1)
    assert found.base == pytest.approx(0.2)
    own = Measurement(
        "gap", 0.41 - 0.34, (0.0, 0.14), n=50, details={"mean, a": 0.41, "mean, b": 0.34, "t": 2.0}
    )
    own = replace(own, null=Null("signs flipped", 99, 0.01, 0.02, 0.04), influence={"cluster": (0.7, -0.7)})
    true = corrected(own, found)
    assert true.value == pytest.approx(0.1)  # 0.3 less 0.2
    assert true.details["mean, a"] == pytest.approx(0.3)
    assert true.details["mean, b"] == pytest.approx(0.2)
    assert (true.details["t"], true.p_value) == (2.0, 0.04)
    assert true.null is not None
    assert true.null.spread == pytest.approx(0.02 / 0.7)
    assert true.influence["cluster"] == pytest.approx((1.0, -1.0))


def test_the_interval_holds_both_sources_of_variance_by_hand() -> None:
    by = Calibration(0.5, 0.05, 0.2)
    found = corrected(Measurement("gap", 0.1, (0.04, 0.16)), by)
    both = math.sqrt((0.06 / 0.5) ** 2 + (1.959964 * 0.2 * 0.05 / 0.5) ** 2)
    assert found.interval == pytest.approx((0.2 - both, 0.2 + both))
    known = corrected(Measurement("gap", 0.1, (0.04, 0.16)), replace(by, error=0.0))
    assert known.interval == pytest.approx((0.08, 0.32))
    zero = corrected(Measurement("gap", 0.0, (-0.1, 0.1)), by)
    assert zero.interval == pytest.approx((-0.2, 0.2))  # no difference is none at any slope


def test_pairs_have_one_rate_and_no_shares() -> None:
    found = calibrated([1.0] * 15 + [0.5] * 2 + [0.0] * 3)
    assert found.slope == pytest.approx(2 * 0.8 - 1)
    assert found.base is None
    own = Measurement("gap", 0.3, details={"mean, a": 0.65, "mean, b": 0.35})
    assert corrected(own, found).value == pytest.approx(0.5)
    assert "mean, a" not in corrected(own, found).details


def test_a_guess_tells_nothing_and_few_perfect_labels_are_not_certain() -> None:
    assert not calibrated([0.5] * 30, [0.5] * 30).tells
    assert not calibrated([1.0, 0.0] * 10, [1.0, 0.0] * 10).tells
    few, many = (calibrated([1.0] * n, [0.0] * n) for n in (10, 1_000))
    assert few.tells
    assert few.slope == many.slope == 1.0
    assert few.error > 5 * many.error > 0


def test_what_was_not_measured_stays_so() -> None:
    missing = Measurement.missing("gap", "one frame")
    assert corrected(missing, Calibration(0.5, 0.1, 0.2)) is missing


def _covered(world: int, labels: int, undecided: float) -> tuple[bool, bool]:
    """Whether corrected and uncorrected intervals hold the true difference, 0.5 less 0.25."""
    rng, frames, samples = np.random.default_rng([world, labels]), 60, 4

    def judge(truth: np.ndarray) -> np.ndarray:
        right = rng.random(truth.shape) < np.where(truth == 1, 0.85, 0.75)
        return np.where(rng.random(truth.shape) < undecided, 0.5, np.where(right, truth, 1 - truth))

    by = calibrated(judge(np.ones(labels)).tolist(), judge(np.zeros(labels)).tolist())
    groups = ["a", "b"]
    shares = np.array([[0.5], [0.25]])
    truth = (rng.random((frames, 2, samples)) < shares).astype(np.float64)
    names = [f"{frame}" for frame in range(frames) for _ in range(2 * samples)]
    design = Design(names, [g for _ in range(frames) for g in groups for _ in range(samples)], names)
    (found,) = paired_gap("gap", judge(truth).ravel(), design, replace(QUICK, seed=world), draws=19).values()
    true = corrected(found, by)
    assert true.interval is not None
    assert found.interval is not None
    return true.interval[0] <= 0.25 <= true.interval[1], found.interval[0] <= 0.25 <= found.interval[1]


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "undecided"), [(30, 0.0), (150, 0.1)])
def test_the_corrected_interval_covers_the_truth_and_the_uncorrected_one_does_not(
    labels: int, undecided: float
) -> None:
    every = np.array([_covered(world, labels, undecided) for world in range(400)])
    share, uncorrected = every.mean(axis=0)
    assert 0.92 <= share <= 0.99  # of 400; 95 % with a standard error of 1.1 %
    assert uncorrected < 0.6
