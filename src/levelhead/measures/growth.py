"""By how much the size of a bias grows, and whether a bias stands out from null models (docs/atlas.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from levelhead.measures.certified import LEVEL, PairedItems, mean_interval


@dataclass(frozen=True)
class Growth:
    """|after| − |before| of a weighted mean over items."""

    before: float
    after: float
    grown: float
    low: float | None
    high: float | None


def size_growth(items: PairedItems, cells: int) -> Growth:
    """The growth of a quantity's size; the interval holds for so many cells together (Bonferroni).

    The directions before and after are taken as known.
    """
    before, after = items.mean(items.before), items.mean(items.after)
    grown = np.copysign(1.0, after) * items.after - np.copysign(1.0, before) * items.before
    low, high = mean_interval(grown, items, 1 - LEVEL / cells) or (None, None)
    return Growth(before, after, abs(after) - abs(before), low, high)


def size_p_value(size: float, nulls: Sequence[float]) -> float | None:
    """The p of a size |J| against those of K null models; None below 3.

        t = |J| / sqrt(mean of J² over null models),   Student's t with K degrees of freedom, two-sided

    What null models lean to is counted as spread.
    """
    if len(nulls) < 3:
        return None
    scale = math.sqrt(float(np.mean(np.square(nulls))))
    return float(2 * stats.t.sf(abs(size) / scale, len(nulls))) if scale > 0 else None
