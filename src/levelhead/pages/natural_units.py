"""Effect sizes in natural units, beside them: what they divide by their own spread."""

from __future__ import annotations

from levelhead.measures.measurement import Measurement
from levelhead.measures.seat.effect import DIFFERENCE_HIGH, DIFFERENCE_LOW, SPREAD
from levelhead.pages.tables import Cell, words

_EFFECTS = {"seat": "cosine", "lpbs": "nats"}  # effect sizes, and the unit of their numerators
_NATURAL = {"preference": "nats", "log_odds": "nats"}  # measures that have a natural unit as they are


def natural_cell(name: str, measurement: Measurement) -> Cell:
    """A measure in natural units, the interval of the numerator itself below."""
    kind = name.split()[0]
    unit = _EFFECTS.get(kind) or _NATURAL.get(kind)
    scale = measurement.details.get(SPREAD) if kind in _EFFECTS else 1.0
    if unit is None or scale is None or measurement.value is None:
        return words("")
    if kind in _NATURAL:
        return words(f"in {unit} as it is")
    ends = ""
    own = [measurement.details.get(name) for name in (DIFFERENCE_LOW, DIFFERENCE_HIGH)]
    if None not in own:
        low, high = (float(end or 0.0) for end in own)
        ends = f"[{low:+z.3f}, {high:+z.3f}]".replace("-", "−")
    value = f"{scale * measurement.value:+z.3f}".replace("-", "−")
    return words(f"{value} {unit}", ends)
