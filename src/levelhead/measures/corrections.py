"""Several claims on one page: how small each p must be so that hardly any page claims too much
(docs/method.md, Statistics).

Holm's correction bounds the chance of any false claim. Benjamini and Hochberg's q-values, which bound the
share of false ones among many discoveries, are in measures/statistics.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.statistics import FloatArray


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Holm's adjusted p-values, any shape: a claim holds on a page of m claims if its own is below 0.05.

        p'_(i) = min(1, max_{j ≤ i} (m − j + 1) p_(j))     p sorted upward, j from 1, m tests

    The chance that any of the claims is false is then at most 5 %, however the tests depend on each other.
    NaN (no test) stays NaN and is not one of the m. Reference: Holm 1979.
    """
    p = np.asarray(p_values, dtype=np.float64)
    flat = p.ravel()
    tested = np.flatnonzero(~np.isnan(flat))
    if tested.size and not (flat[tested].min() >= 0 and flat[tested].max() <= 1):
        raise BadProbe("A p-value outside 0..1 came to Holm's correction. Give p-values, NaN where none is.")
    order = tested[np.argsort(flat[tested], kind="stable")]
    scaled = flat[order] * np.arange(order.size, 0, -1)
    adjusted = np.full(flat.size, np.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted.reshape(p.shape)
