"""Several claims on one page: how small must a p-value be to speak for one of them?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.statistics import FloatArray


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Holm's adjusted p-values, any shape: at most 5 % of pages without anything have one below 0.05.

        p'_(i) = max_{j ≤ i} min(1, (m − j + 1) p_(j))     p sorted upward, m tests; NaN (no test) stays NaN

    Valid under any dependence of the tests, which share one model here. Reference: Holm 1979.
    """
    p = np.asarray(p_values, np.float64)
    flat = p.ravel()
    tested = np.flatnonzero(~np.isnan(flat))
    if tested.size and not ((flat[tested] >= 0) & (flat[tested] <= 1)).all():
        raise BadProbe("A p-value outside 0..1 came. Give probabilities, or NaN where nothing was tested.")
    order = tested[np.argsort(flat[tested], kind="stable")]
    adjusted = np.full(flat.size, np.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(flat[order] * np.arange(order.size, 0, -1)))
    return adjusted.reshape(p.shape)


def corrected(claims: Mapping[str, float | None]) -> dict[str, float | None]:
    """Holm over the claims of a page by name; a claim that was not tested (None) is none of them."""
    known = {name: p for name, p in claims.items() if p is not None}
    adjusted = dict(zip(known, holm(list(known.values())).tolist(), strict=True))
    return {name: adjusted.get(name) for name in claims}
