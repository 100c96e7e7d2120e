"""SEAT's value: associations of target words with two attribute sets, and the effect size between two target
sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.permutation import permutation_p_value
from levelhead.measures.statistics import FloatArray, Interval

SETS = ("A", "B", "X", "Y")  # attributes A and B, targets X and Y
SPREAD = "spread"  # the detail that holds the standard deviation of associations, which SEAT divides by
DIFFERENCE_LOW, DIFFERENCE_HIGH = "difference_low", "difference_high"  # details: the numerator's interval
FLAT = 1e-12  # a spread of cosines or log-probabilities below this is rounding, not association


def associations(vectors_w: npt.ArrayLike, vectors_a: npt.ArrayLike, vectors_b: npt.ArrayLike) -> FloatArray:
    """How much closer each word is to the attributes A than to B.

        s(w) = mean_{a∈A} cos(w, a) − mean_{b∈B} cos(w, b)

    The value lies between −2 and 2. Equal vectors get equal values to the bit, so ties stay ties. Reference:
    Caliskan et al. 2017.
    """
    direction = unit("A", vectors_a).mean(axis=0) - unit("B", vectors_b).mean(axis=0)
    return np.asarray((unit("W", vectors_w) * direction).sum(axis=1), dtype=np.float64)


def seat(s_x: npt.ArrayLike, s_y: npt.ArrayLike) -> float:
    """Effect size of an association test: how far apart the two target sets lie.

        SEAT = (mean s(x) − mean s(y)) / std s(w),  w in X ∪ Y, ddof = 1

    0: no association. ±2 is the extreme (for sets of equal size). Reference: May et al. 2019 (docs/method.md,
    SEAT).
    """
    x, y = np.asarray(s_x, dtype=np.float64), np.asarray(s_y, dtype=np.float64)
    if reason := why_no_effect(x, y):
        raise BadProbe(f"SEAT cannot be computed: {reason}.")
    return float((x.mean() - y.mean()) / np.concatenate([x, y]).std(ddof=1))


def why_no_effect(s_x: FloatArray, s_y: FloatArray) -> str:
    """The reason why these associations have no effect size, or an empty text."""
    if min(s_x.size, s_y.size) < 2:
        return f"X has {s_x.size} and Y has {s_y.size} usable entries, each needs at least 2"
    s = np.concatenate([s_x, s_y])
    if not np.isfinite(s).all():
        return "an association is not a finite number"
    if s.std(ddof=1) <= FLAT * max(1.0, float(np.abs(s).max())):
        return "all targets have the same association, the standard deviation is 0"
    return ""


def effect_measurement(
    name: str, s_x: FloatArray, s_y: FloatArray, interval: Interval | None, known: Mapping[str, Any]
) -> Measurement:
    """Effect size, permutation p-value and a given interval as one measurement.

    known: fields of the measurement that the caller knows; its settings hold the seed of the permutation
    test.
    """
    seed = int(known["settings"]["seed"])
    test = permutation_p_value(s_x, s_y, seed)
    spread = float(np.concatenate([s_x, s_y]).std(ddof=1))
    details = {"p_value": test.p_value, "partitions": float(test.partitions), SPREAD: spread}
    details |= known.get("details", {})
    return Measurement(name, seat(s_x, s_y), interval, neutral=0.0, **{**known, "details": details})


def difference_details(interval: Interval | None) -> dict[str, float]:
    """The interval of an effect size's numerator, in its natural unit, as details; empty without one."""
    return {} if interval is None else dict(zip((DIFFERENCE_LOW, DIFFERENCE_HIGH), interval, strict=True))


def unit(name: str, vectors: npt.ArrayLike) -> FloatArray:
    """Vectors [item, d] divided by their lengths; the name says in an error which set they are."""
    matrix = np.asarray(vectors, dtype=np.float64)
    norm = np.linalg.norm(matrix, axis=-1, keepdims=True)
    if matrix.ndim != 2 or not len(matrix) or not np.isfinite(norm).all() or (norm == 0).any():
        raise BadProbe(
            f"Vectors {name} {matrix.shape} are empty, zero or not finite; give [item, d], no zeros."
        )
    return np.asarray(matrix / norm, dtype=np.float64)
