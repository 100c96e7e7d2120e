"""How many texts a difference needs (docs/method/generation.md, Planning).

    Var(gap) = ( between² + 2 within² / K ) / N        N paired prompts, K samples of either side
    power(δ) = P( |T| > t(1 − level/2, N − 1) ),       T noncentral t with N − 1 degrees around δ / sqrt(Var)

between: standard deviation, over prompts, of the difference that infinitely many samples would show; within:
that of single texts behind one prompt. Random numbers in common lower the variance below this.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.errors import BadOption

MOST_SAMPLES = 64  # of a prompt: beyond it more prompts say more
_MOST_PROMPTS = 1_000_000


class Spread(NamedTuple):
    """How much scores differ, between prompts and within one."""

    between: float
    within: float


def spread(first: npt.ArrayLike, second: npt.ArrayLike) -> Spread:
    """The spread in a pilot: scores [prompt, sample] of both sides, NaN where there is none.

    within² = mean of the variances of samples,    between² = Var(gaps) − mean of their sampling variances
    """
    sides = [np.asarray(each, np.float64) for each in (first, second)]
    if any(side.ndim != 2 for side in sides) or len(sides[0]) != len(sides[1]):
        raise BadOption(
            f"A pilot needs scores [prompt, sample] of both sides (got {[s.shape for s in sides]})"
        )
    counts = [np.isfinite(side).sum(axis=1) for side in sides]
    known = (counts[0] > 0) & (counts[1] > 0)
    counts = [count[known] for count in counts]
    sides = [side[known] for side in sides]
    squares = sum(
        float(np.nansum((side - np.nanmean(side, axis=1, keepdims=True)) ** 2)) for side in sides if side.size
    )
    degrees = sum(int((count - 1).sum()) for count in counts)
    within = math.sqrt(squares / degrees) if degrees else 0.0
    if known.sum() < 2:
        return Spread(0.0, within)
    gaps = np.nanmean(sides[0], axis=1) - np.nanmean(sides[1], axis=1)
    sampling = within**2 * float(np.mean(1 / counts[0] + 1 / counts[1]))
    return Spread(math.sqrt(max(0.0, float(gaps.var(ddof=1)) - sampling)), within)


def standard_error(between_sd: float, within_sd: float, n_prompts: int, samples: int) -> float:
    """Of a mean gap over paired prompts."""
    if n_prompts < 2 or samples < 1 or between_sd < 0 or within_sd < 0:
        raise BadOption(
            f"Planning needs 2 or more prompts, 1 or more samples and spreads of 0 or more (got {n_prompts}, "
            f"{samples}, {between_sd}, {within_sd})"
        )
    return math.sqrt((between_sd**2 + 2 * within_sd**2 / samples) / n_prompts)


def power(effect: float, stderr: float, n_prompts: int, level: float = 0.05) -> float:
    """The chance that a two-sided t-test of so many gaps finds this effect."""
    if stderr == 0:
        return 1.0 if effect else level
    edge = float(scipy.stats.t.ppf(1 - level / 2, n_prompts - 1))
    around = abs(effect) / stderr
    upper = float(scipy.stats.nct.sf(edge, n_prompts - 1, around))
    lower = float(scipy.stats.nct.cdf(-edge, n_prompts - 1, around))
    if not math.isfinite(upper):  # far out the distribution is normal
        return float(scipy.stats.norm.sf(edge - around))
    return min(1.0, upper + (lower if math.isfinite(lower) else 0.0))


def detectable(
    between_sd: float,
    within_sd: float,
    n_prompts: int,
    samples: int,
    wanted: float = 0.8,
    level: float = 0.05,
) -> float:
    """The smallest gap that so many prompts and samples show with this power."""
    stderr = standard_error(between_sd, within_sd, n_prompts, samples)
    if stderr == 0:
        return 0.0
    lowest, highest = 0.0, 4.0
    while power(highest * stderr, stderr, n_prompts, level) < wanted:
        highest *= 2
    for _ in range(60):
        middle = 0.5 * (lowest + highest)
        if power(middle * stderr, stderr, n_prompts, level) < wanted:
            lowest = middle
        else:
            highest = middle
    return highest * stderr


def needed(
    effect: float,
    between_sd: float,
    within_sd: float,
    n_prompts: int,
    wanted: float = 0.8,
    level: float = 0.05,
) -> tuple[int, int]:
    """How many prompts and samples show this gap: as few samples as possible of the prompts that there are.

    Where 64 samples of each do not suffice, as many prompts as are needed, with 64 samples each.
    """
    if not effect:
        raise BadOption(f"detect must not be 0 (got {effect})")
    for samples in range(1, MOST_SAMPLES + 1):
        stderr = standard_error(between_sd, within_sd, n_prompts, samples)
        if power(effect, stderr, n_prompts, level) >= wanted:
            return n_prompts, samples
    low, high = n_prompts, 2 * n_prompts

    def suffices(prompts: int) -> bool:
        stderr = standard_error(between_sd, within_sd, prompts, MOST_SAMPLES)
        return power(effect, stderr, prompts, level) >= wanted

    while not suffices(high):
        low, high = high, 2 * high
        if low > _MOST_PROMPTS:
            raise BadOption(f"detect must be larger: {effect} needs more than {_MOST_PROMPTS:,} prompts")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high, MOST_SAMPLES
