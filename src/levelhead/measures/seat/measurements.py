"""SEAT over given vectors, with its p-value and interval."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat.effect import SETS, associations, effect_measurement, why_no_effect
from levelhead.measures.seat.intervals import METHOD, item_interval
from levelhead.measures.statistics import DEFAULT, Resampling


def seat_measurement(vectors: Mapping[str, npt.ArrayLike], resampling: Resampling = DEFAULT) -> Measurement:
    """SEAT over given vectors, one for each sentence (or word): vectors["A"], ["B"], ["X"], ["Y"], each
    [item, d].

    The p-value permutes X ∪ Y; the interval resamples the items of each of the four sets. n counts the items
    of all sets.
    """
    _check_sets(vectors)
    arrays = {name: np.asarray(vectors[name], dtype=np.float64) for name in SETS}
    sizes = {f"n_{name.lower()}": float(len(arrays[name])) for name in SETS}
    settings = resampling.settings(METHOD, "items, within each set")
    known: dict[str, Any] = {"n": int(sum(sizes.values())), "settings": settings, "details": sizes}
    if empty := [name for name in SETS if not len(arrays[name])]:
        return Measurement.missing("seat", f"no item in {', '.join(empty)}", neutral=0.0, **known)
    s_x, s_y = (associations(arrays[name], arrays["A"], arrays["B"]) for name in "XY")
    if reason := why_no_effect(s_x, s_y):
        return Measurement.missing("seat", reason, neutral=0.0, **known)
    return effect_measurement("seat", s_x, s_y, item_interval(arrays, resampling), known)


def _check_sets(sets: Collection[str]) -> None:
    if set(sets) != set(SETS):
        raise BadProbe(f"Sets {sorted(sets)} came; SEAT needs exactly A, B (attributes) and X, Y (targets).")
