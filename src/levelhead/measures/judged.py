"""Differences that a judge with known error rates finds, corrected for its errors (Rogan and Gladen 1978).

A judge gives each text s in [0, 1]: 1 for yes, 0 for no, one half where it is undecided. On texts whose true
label is known its mean is m1 for yes and m0 for no: its sensitivity, and one less its specificity. Then

    E[s] = share · m1 + (1 − share) · m0
    share = (E[s] − m0) / (m1 − m0)
    difference of two groups = (difference of s) / slope,   slope = m1 − m0

Of pairs s is 1 for the text that is preferred and 0 for the other one. With h the mean of s of the better
text, slope = 2 h − 1, and the corrected difference is P(first is better) − P(second is better).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Interval

LEAST = 10  # labeled texts of each kind, or labeled pairs
_NORMAL_95, _ONE_SIDED_95 = 1.959964, 1.644854
_MEAN = "mean, "  # how the details of a paired gap name a group's mean


@dataclass(frozen=True)
class Calibration:
    """What a judge's scores are worth, by labels."""

    slope: float  # by how much its score rises with the truth: 1 for a judge that never errs, 0 for a guess
    error: float  # standard error of the slope
    base: float | None  # its mean score of texts that are not; None: pairs

    @property
    def tells(self) -> bool:
        """Whether it tells labels apart significantly better than a guess (one-sided, 95 %)."""
        return self.slope - _ONE_SIDED_95 * self.error > 0

    def widened(self, value: float, interval: Interval | None) -> Interval | None:
        """An interval of a corrected difference, with the error of the slope too (delta method).

        var(d / slope) = var(d) / slope² + d² var(slope) / slope⁴
        """
        if interval is None:
            return None
        own = _NORMAL_95 * value * self.error / self.slope
        low, high = interval
        return value - math.hypot(value - low, own), value + math.hypot(high - value, own)


def calibrated(yes: Sequence[float], no: Sequence[float] | None = None) -> Calibration:
    """By scores of labeled texts that are and that are not; or of the better texts of labeled pairs alone.

    Variances are those of counts with one right and one wrong answer added (Agresti and Coull 1998): a judge
    that makes no mistake on thirty texts is not known to make none.
    """

    def variance(scores: Sequence[float]) -> float:
        n, share = len(scores), (sum(scores) + 1) / (len(scores) + 2)
        return share * (1 - share) / (n + 2)

    if no is None:
        return Calibration(2 * float(np.mean(yes)) - 1, 2 * math.sqrt(variance(yes)), None)
    high, base = float(np.mean(yes)), float(np.mean(no))
    return Calibration(high - base, math.sqrt(variance(yes) + variance(no)), base)


def corrected(found: Measurement, by: Calibration) -> Measurement:
    """A difference of a judge's scores as one of true shares, with the errors of both; p stays as it is."""
    if found.value is None:
        return found
    scale, value = 1 / by.slope, found.value / by.slope
    ends = None if found.interval is None else (found.interval[0] * scale, found.interval[1] * scale)
    null = found.null
    if null is not None:
        least = None if null.least is None else null.least * scale
        null = replace(null, floor=null.floor * scale, spread=null.spread * scale, least=least)
    details = {name: each for name, each in found.details.items() if not name.startswith(_MEAN)}
    if by.base is not None:
        shares = ((name, each) for name, each in found.details.items() if name.startswith(_MEAN))
        details |= {name: None if each is None else (each - by.base) * scale for name, each in shares}
    return replace(
        found,
        value=value,
        interval=by.widened(value, ends),
        null=null,
        details={**details, "judge, slope": by.slope, "judge, error of the slope": by.error},
        influence={kind: tuple(each * scale for each in own) for kind, own in found.influence.items()},
    )
