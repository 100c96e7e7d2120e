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


def holm(p_values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> FloatArray:
    """Holm's adjusted p-values, any shape: a claim holds on a page of m claims if its own is below 0.05.

        p'_(i) = min(1, max_{j ≤ i} W_j p_(j) / w_(j)),   W_j = w_(j) + w_(j+1) + ... + w_(m)

    sorted by p / w upward. With equal weights W_j / w is m − j + 1. The chance that any of the claims is
    false is then at most 5 %, however the tests depend on each other, if weights do not depend on the data.
    NaN (no test) stays NaN and is not one of the m. Reference: Holm 1979.
    """
    p = np.asarray(p_values, dtype=np.float64)
    flat = p.ravel()
    weight = np.ones(flat.size) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    tested = np.flatnonzero(~np.isnan(flat))
    if tested.size and not (flat[tested].min() >= 0 and flat[tested].max() <= 1):
        raise BadProbe("A p-value outside 0..1 came to Holm's correction. Give p-values, NaN where none is.")
    if weight.size != flat.size or not (weight > 0).all():
        raise BadProbe(f"{flat.size} p-values came with {weight.size} weights; give one above 0 for each.")
    order = tested[np.argsort(flat[tested] / weight[tested], kind="stable")]
    remaining = np.cumsum(weight[order][::-1])[::-1]
    adjusted = np.full(flat.size, np.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(flat[order] * remaining / weight[order]))
    return adjusted.reshape(p.shape)
