"""Effect sizes in natural units, beside them: what they divide by their own spread."""

from __future__ import annotations

from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat.effect import DIFFERENCE_HIGH, DIFFERENCE_LOW, SPREAD
from levelhead.pages.tables import Cell, words

_EFFECTS = {"seat": "cosine", "lpbs": "nats"}  # effect sizes, and the unit of their numerators


def natural_cell(info: MeasureInfo, measurement: Measurement) -> Cell:
    """A measure in natural units, the interval of the numerator itself below."""
    if measurement.value is None:
        return words("")
    if info.nats:
        return words("in nats as it is")
    unit, scale = _EFFECTS.get(info.name.split()[0]), measurement.details.get(SPREAD)
    if unit is None or scale is None:
        return words("")
    ends = ""
    own = [measurement.details.get(name) for name in (DIFFERENCE_LOW, DIFFERENCE_HIGH)]
    if None not in own:
        low, high = (float(end or 0.0) for end in own)
        ends = f"[{low:+z.3f}, {high:+z.3f}]".replace("-", "−")
    value = f"{scale * measurement.value:+z.3f}".replace("-", "−")
    return words(f"{value} {unit}", ends)
