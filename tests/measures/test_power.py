"""Planning: the power that is promised is the power that tests have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from levelhead.errors import BadOption
from levelhead.measures.power import MOST_SAMPLES, Spread, detectable, needed, power, spread, standard_error

WORLDS = 4_000


def simulated(effect: float, between: float, within: float, prompts: int, samples: int) -> float:
    """How often a t-test of paired means finds the effect."""
    rng = np.random.default_rng(1)
    gaps = effect + between * rng.normal(size=(WORLDS, prompts))
    noise = within * rng.normal(size=(2, WORLDS, prompts, samples)).mean(axis=3)
    found = ttest_1samp(gaps + noise[0] - noise[1], 0.0, axis=1)
    return float(np.mean(found.pvalue < 0.05))


@pytest.mark.parametrize(
    ("between", "within", "prompts", "samples"),
    [(0.3, 1.0, 20, 8), (0.0, 1.0, 60, 4), (0.5, 0.2, 5, 2), (1.0, 1.0, 100, 1)],
)
def test_promised_power_agrees_with_simulation(
    between: float, within: float, prompts: int, samples: int
) -> None:
    effect = detectable(between, within, prompts, samples)
    assert simulated(effect, between, within, prompts, samples) == pytest.approx(0.8, abs=0.03)
    stderr = standard_error(between, within, prompts, samples)
    half = simulated(effect / 2, between, within, prompts, samples)
    assert half == pytest.approx(power(effect / 2, stderr, prompts), abs=0.03)


def test_the_standard_error_by_hand() -> None:
    assert standard_error(0.3, 1.0, 25, 8) == pytest.approx(math.sqrt((0.09 + 2 / 8) / 25))
    assert power(0.0, 1.0, 10) == pytest.approx(0.05)
    assert power(-0.4, 0.1, 30) == pytest.approx(power(0.4, 0.1, 30))
    assert power(1e6, 1.0, 30) == 1.0
    assert (power(1.0, 0.0, 30), detectable(0.0, 0.0, 30, 8)) == (1.0, 0.0)


def test_more_of_everything_shows_less_and_scales_with_the_spread() -> None:
    base = detectable(0.3, 1.0, 20, 8)
    assert detectable(0.3, 1.0, 40, 8) < base
    assert detectable(0.3, 1.0, 20, 16) < base
    assert detectable(0.3, 1.0, 20, 8, wanted=0.9) > base
    assert detectable(3.0, 10.0, 20, 8) == pytest.approx(10 * base)


def test_a_sample_for_a_difference_is_the_smallest_that_shows_it() -> None:
    prompts, samples = needed(0.2, 0.3, 1.0, 60)
    assert prompts == 60
    assert detectable(0.3, 1.0, prompts, samples) <= 0.2 < detectable(0.3, 1.0, prompts, samples - 1)
    assert needed(5.0, 0.3, 1.0, 60) == (60, 1)
    prompts, samples = needed(0.05, 0.3, 1.0, 60)  # no number of samples of 60 prompts shows it
    assert samples == MOST_SAMPLES
    assert detectable(0.3, 1.0, prompts, samples) <= 0.05 < detectable(0.3, 1.0, prompts - 1, samples)


def test_the_spread_of_a_pilot() -> None:
    first = np.asarray([[1.0, 3.0], [5.0, 7.0]])
    second = np.asarray([[0.0, 2.0], [1.0, 3.0]])
    assert spread(first, second) == pytest.approx(Spread(math.sqrt(4.5 - 2.0), math.sqrt(2.0)))
    rng = np.random.default_rng(0)
    gap = rng.normal(0, 0.5, (4_000, 1))
    found = spread(gap + rng.normal(size=(4_000, 4)), rng.normal(size=(4_000, 4)))
    assert found.between == pytest.approx(0.5, abs=0.05)
    assert found.within == pytest.approx(1.0, abs=0.02)
    some = np.full((2, 2), np.nan)
    assert spread(np.vstack([first, some]), np.vstack([second, some])) == spread(first, second)
    assert spread(some, some) == Spread(0.0, 0.0)


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(BadOption, match="2 or more prompts"):
        detectable(0.1, 0.1, 1, 8)
    with pytest.raises(BadOption, match="detect must not be 0"):
        needed(0.0, 0.1, 0.1, 8)
    with pytest.raises(BadOption, match="detect must be larger"):
        needed(1e-6, 1.0, 1.0, 8)
    with pytest.raises(BadOption, match="both sides"):
        spread([1.0, 2.0], [1.0, 2.0])
