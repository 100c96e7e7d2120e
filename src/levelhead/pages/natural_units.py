"""Effect sizes in natural units, beside them: what they divide by their own spread."""

from __future__ import annotations

from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat.effect import SPREAD
from levelhead.pages.tables import Cell, words

_EFFECTS = {"seat": "cosine", "lpbs": "nats"}  # effect sizes, and the unit of their numerators


def natural_cell(info: MeasureInfo, measurement: Measurement) -> Cell:
    """A measure in natural units, its interval below: that of the effect size times the same spread."""
    if measurement.value is None:
        return words("")
    if info.nats:
        return words("in nats as it is")
    unit, scale = _EFFECTS.get(info.name.split()[0]), measurement.details.get(SPREAD)
    if unit is None or scale is None:
        return words("")
    ends = ""
    if measurement.interval is not None:
        low, high = (scale * end for end in measurement.interval)
        ends = f"[{low:+z.3f}, {high:+z.3f}]".replace("-", "−")
    value = f"{scale * measurement.value:+z.3f}".replace("-", "−")
    return words(f"{value} {unit}", ends)
