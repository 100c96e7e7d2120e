"""How far a measurement lies from its neutral value, in the direction that counts as bias.

    size = |value − neutral|    where both directions are bias
         = value − neutral      where bias lies above
         = neutral − value      where it lies below

Interval and items are mirrored with the value, so that the sizes of two models can be compared item by item
also where one follows the stereotype and the other runs against it. Near the neutral value a mirrored
interval may reach below 0: the data leave the direction open.
"""

from __future__ import annotations

from dataclasses import replace

from levelhead.measures.catalog import Direction
from levelhead.measures.measurement import Measurement


def bias_size(measurement: Measurement, neutral: float, biased: Direction = "both") -> Measurement:
    """The measurement of the size alone; one without a value stays as it is."""
    value = measurement.value
    if value is None:
        return measurement
    below = biased == "below" or (biased == "both" and value < neutral)
    sign = -1.0 if below else 1.0
    ends = sorted(sign * (end - neutral) for end in measurement.interval or ())
    items = {kind: tuple(sign * each for each in own) for kind, own in measurement.influence.items()}
    interval = (ends[0], ends[1]) if ends else None
    return replace(
        measurement, value=sign * (value - neutral), interval=interval, neutral=0.0, influence=items
    )
