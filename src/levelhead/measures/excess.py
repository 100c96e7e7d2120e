"""How far SEAT lies beyond what null models show, at least, on other words of this kind.

Other words would have another floor too: a tokenizer that cuts them into tokens leaves its mark on a model
and on its null twins alike. So the floor is redrawn with the words,

    excess = SEAT − floor                                floor = mean of SEAT over K twins
    influence of a unit = that on SEAT − mean over twins of that on the twin's SEAT
    least = |excess| − quantile · sqrt(error² + spread² / K)

error and the one-sided 95 % quantile come from redraws of attribute pairs, targets and templates as for
SEAT's own interval (crossed.py). Twins tell nothing of templates, so those move the model alone. Where much
of what words differ by is their tokens, this is known far better than SEAT itself: on lh:bert-mini's twins to
± 0.18 instead of ± 0.30 (docs/method.md, SEAT excess).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from levelhead.measures.influence import studentized
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling


def least_excess(
    value: float,
    null: NullDistribution,
    influences: Sequence[FloatArray],
    of_twins: Sequence[FloatArray],
    resampling: Resampling = DEFAULT,
) -> float | None:
    """The one-sided limit of |value − floor|: below 0 where other words may show nothing.

    influences: of attribute pairs, X, Y and perhaps templates on the model's SEAT; of_twins: of the first
    three on a twin's SEAT, the mean over twins. None where a kind has one unit only.
    """
    paired = [own - twin for own, twin in zip(influences, of_twins, strict=False)]
    drawn = studentized([*paired, *influences[len(of_twins) :]], resampling)
    if drawn is None:
        return None
    t, error = drawn
    one_sided = float(np.quantile(t, 2 * resampling.level - 1))  # of |t|, symmetric
    return abs(null.excess(value)) - one_sided * math.hypot(error, null.floor_error)
