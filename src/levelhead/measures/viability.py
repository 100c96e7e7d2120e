"""Is a changed model still of use? One rule for the whole product (docs/method.md, NLI fairness)."""

from __future__ import annotations

import math
from typing import TypeGuard

POINTS = 0.05  # of an ability that is a share: what may be lost, as in the projective paper
RATIO = 1.05  # of a perplexity: what it may be multiplied by
ROUNDING = 1e-9  # 0.54 − 0.05 in floats is a little more than 0.49, which must still be viable


def viable(ability: float | None, base: float | None) -> bool | None:
    """Whether an ability (a share of right answers) is at most five points below that of the base model.

        ability ≥ base − 0.05

    None when either was not measured (None or NaN). Reference: the projective paper, caption of Table 7.
    """
    if not (_known(ability) and _known(base)):
        return None
    return ability >= base - POINTS - ROUNDING


def viable_ratio(ratio: float | None) -> bool | None:
    """Whether a perplexity is at most 5 % above that of the base model; ratio = perplexity / base perplexity.

        ratio ≤ 1.05

    None when it was not measured (None or NaN). The rule is ours: the papers have none for perplexities.
    """
    if not _known(ratio):
        return None
    return ratio <= RATIO + ROUNDING


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and not math.isnan(value)
