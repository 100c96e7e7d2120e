"""Which heads are clear? Those whose score holds on other items, farther than any head's does in twins.

Scores b come from disjoint halves of the items (words with their pairs and targets together, items of one
cluster together), several splits. What one half says about a head counts as far as the other half says the
same:

    held[head] = mean over splits of  sign(b1) · min(|b1|, |b2|)   where b1 and b2 have one sign, else 0

In a null model the halves agree by chance only: there rho(b1, b2) scatters around 0. The null is
the largest |held| over all heads of each twin, with the same splits, so that

    p[head] = (1 + #{twins whose largest |held| ≥ |held[head]|}) / (1 + K)

is corrected for the number of heads: at most 5 % of null models have any head with p ≤ 0.05,
exactly, if twins are exchangeable. The largest |b| alone would not do: in meaningless models it is as large
as in real ones. With K = 19 the smallest p is 0.05, that of a head beyond all twins. Where fewer than 19 were
planned, as in an audit, p is Student's on the logarithms of the twins' largest |held|. Definitions:
docs/method.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.null import MANY, NullDistribution, divided_p, spent_p
from levelhead.measures.rounds import by_rank, largest_looked_at
from levelhead.measures.statistics import FloatArray, alike

LEVEL = 0.05


def held_scores(halves: npt.ArrayLike) -> FloatArray:
    """What both halves say, in the mean over splits: [split, half, layer, head] -> [layer, head]"""
    first, second = np.moveaxis(_checked(halves), 1, 0)
    smaller = np.minimum(np.abs(first), np.abs(second))
    return np.asarray(np.where(first * second > 0, np.sign(first) * smaller, 0.0).mean(axis=0))


def half_agreement(halves: npt.ArrayLike) -> FloatArray:
    """Spearman's rho of the heads' scores between the halves of each split, [split]; nan where a half has
    constant scores."""
    return np.array([_rho(one.ravel(), other.ravel()) for one, other in _checked(halves)], np.float64)


def _rho(one: FloatArray, other: FloatArray) -> float:
    return np.nan if alike(one) or alike(other) else float(stats.spearmanr(one, other).statistic)


@dataclass(frozen=True)
class HeadTest:
    """Scores that hold on other items, and how they compare with twins."""

    held: FloatArray  # [layer, head]
    p_value: FloatArray  # [layer, head], corrected for the number of heads
    largest: Measurement  # the largest |held|, with that of twins as its null

    @property
    def clear(self) -> npt.NDArray[np.bool_]:
        """Which heads are clear: [layer, head]"""
        return np.asarray(self.p_value <= LEVEL)


def largest_held(twins: npt.ArrayLike) -> NullDistribution:
    """The largest |held| of each twin, from half scores [twin, split, half, layer, head]."""
    values = [np.abs(held_scores(twin)).max() for twin in np.asarray(twins, np.float64)]
    return NullDistribution(np.array(values))


def head_test(halves: npt.ArrayLike, twins: npt.ArrayLike, planned: int | None = None) -> HeadTest:
    """Compare a model's half scores [split, half, layer, head] with those of its twins [twin, split, half,
    ...].

    Twins must have been scored on the same splits as the model, as many of them: then the test by rank is
    exact. planned: how many were to come, in rounds (rounds.py); with fewer than 19 the test is Student's.
    None: there are no rounds, and the test is by rank.
    """
    own, others = _checked(halves), np.asarray(twins, np.float64)
    if others.shape[1:] != own.shape or len(others) < 2:
        raise BadProbe(
            f"Twins {others.shape} came for scores {own.shape}; give [twin, *same shape], 2 or more."
        )
    held = held_scores(own)
    value = float(np.abs(held).max())
    largest = largest_held(others)
    if planned is not None:
        largest = largest_looked_at(largest, value, planned)
    measured = Measurement("largest held score", value, n=held.size, null=_judged(largest, value))
    return HeadTest(held, _p_values(np.abs(held), largest), measured)


def _p_values(sizes: FloatArray, largest: NullDistribution) -> FloatArray:
    """p of every |held| [layer, head]."""
    if largest.planned is None or by_rank(largest.planned):
        beyond = (largest.values[:, None, None] >= sizes).sum(axis=0)
        return np.asarray((1 + beyond) / (1 + len(largest)))
    student = [divided_p(largest.logarithmic_p_value(size), largest.share) for size in sizes.ravel().tolist()]
    return np.asarray(np.reshape(student, sizes.shape), np.float64)


def _judged(largest: NullDistribution, value: float) -> Null:
    """The null of the largest |held|, one-sided: the exact p, or Student's where twins are too few for it."""
    p, how = largest.upper_p_value(value), "exact"
    if len(largest) < MANY and min(value, largest.values.min()) > 0:
        p, how = largest.logarithmic_p_value(value), f"Student's t of logarithms{largest.looked}"
    p = spent_p(p, largest.share)
    said = f"null twins; p one-sided, {how}"
    return Null(said, len(largest), largest.floor, largest.spread, p, planned=largest.planned)


def _checked(halves: npt.ArrayLike) -> FloatArray:
    values = np.asarray(halves, np.float64)
    if values.ndim != 4 or values.shape[1] != 2 or not np.isfinite(values).all():
        raise BadProbe(f"Half scores of shape {values.shape} came; give finite [split, 2, layer, head].")
    return values
