"""Worlds without an effect, and with one: how often a measure claims something."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import binom

from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling

QUICK = Resampling(resamples=100)
DRAWS = 399
WORLDS = 200
MOST = int(binom.ppf(0.999, WORLDS, 0.05))  # claims that a measure of 5 % makes hardly ever


def claims(world: Callable[[np.random.Generator], float | None]) -> int:
    """How often p is below 0.05."""
    found = [world(np.random.default_rng(seed)) for seed in range(WORLDS)]
    return sum(p is not None and p < 0.05 for p in found)


def p_of(measurement: Measurement) -> float | None:
    return measurement.p_value
