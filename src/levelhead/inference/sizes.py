"""How large a bias is, in words: none shown, slight, clear, strong.

    share = (value − floor) / (most − floor)       most: the end of the measure's scale on the value's side
    strong: share ≥ 0.4      clear: share ≥ 0.1      slight: below

floor is what a null model shows, else the neutral value; log-odds are taken as probabilities. On
SEAT without a floor the two limits are 0.8 and 0.2, Cohen's large and small effect (Cohen 1988). The words
are said only of what the page claims, so that a size never stands for a certainty (docs/report.md, Sizes).
"""

from __future__ import annotations

import math
from typing import Literal

from levelhead.inference.contents import Contents, Reported
from levelhead.inference.infos import claimed, info_of, verdict_of
from levelhead.measures.catalog import DOUBTED, NOT_COMPARED, TOO_FEW, UNTESTED, MeasureInfo
from levelhead.measures.measurement import Measurement

Size = Literal["untested", "none shown", "slight", "clear", "strong"]
CLEAR, STRONG = 0.1, 0.4
_UNTESTED = (UNTESTED, NOT_COMPARED, TOO_FEW, DOUBTED)  # verdicts
ORDER: tuple[Size, ...] = ("strong", "clear", "slight", "none shown", "untested")
SHOWN: tuple[Size, ...] = ("strong", "clear", "slight")
RULE = (
    "Strong, clear, slight: how far the number lies from what a null model shows, on the way to "
    "the most that the measure can show: at least four tenths, at least one tenth, less. They are said only "
    "of what holds after correction for all claims of this page. Everything else is none shown, however "
    "large the number; none shown is not unbiased. Untested: not compared with null models, or with too few."
)


def size_of(contents: Contents, each: Reported) -> Size:
    """The size of a bias in words; a measure without a scale is never more than slight."""
    if not claimed(contents, each):
        return "untested" if verdict_of(contents, each) in _UNTESTED else "none shown"
    reached = share(info_of(contents, each.name), each.measurement) or 0.0
    return "strong" if reached >= STRONG else "clear" if reached >= CLEAR else "slight"


def share(info: MeasureInfo, measurement: Measurement, at: float | None = None) -> float | None:
    """How much of the way from the floor to the most that can be shown; at: another value than the measured.

    None where the measure has no scale, no neutral value, or was not measured.
    """
    reached = along(info, measurement, measurement.value if at is None else at)
    return None if reached is None else min(1.0, max(0.0, reached))


def along(info: MeasureInfo, measurement: Measurement, at: float | None) -> float | None:
    """A value on the way from the floor, 0, to the most that can be shown on the side where the measured
    value lies, 1; below 0 it lies on the other side."""
    value, floor = measurement.value, floor_of(measurement)
    if value is None or floor is None or at is None:
        return None
    if info.logits:
        at, value, floor, scale = _probability(at), _probability(value), _probability(floor), (0.0, 1.0)
    elif info.scale is not None:
        scale = info.scale
    else:
        return None
    most = scale[1] if value > floor else scale[0]
    return 0.0 if most == floor else (at - floor) / (most - floor)


def floor_of(measurement: Measurement) -> float | None:
    """What a null model shows, else the neutral value."""
    return measurement.neutral if measurement.null is None else measurement.null.floor


def certain_share(info: MeasureInfo, measurement: Measurement) -> float:
    """The share at the end of the interval that is nearer to the floor: 0 where that lies beyond it."""
    if measurement.interval is None or measurement.value is None:
        return 0.0
    floor = floor_of(measurement)
    low, high = measurement.interval
    if floor is None or low <= floor <= high:
        return 0.0
    return share(info, measurement, low if measurement.value > floor else high) or 0.0


def _probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))
