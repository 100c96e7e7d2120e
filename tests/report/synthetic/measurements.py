"""Made-up measurements."""

from __future__ import annotations

from typing import Any

from levelhead.measures.measurement import Measurement

HOSTILE = "<script>alert(1)</script>"
WEIGHTS = "ab" * 32  # a hash


def measured(name: str, value: float | None, half: float = 0.1, n: int = 120, **more: Any) -> Measurement:
    """A measurement with an interval of so much to either side; none below 0."""
    if value is None:
        return Measurement.missing(name, **{"reason": "no such head", **more})
    interval = None if half < 0 else (value - half, value + half)
    return Measurement(name, value, interval, n, **more)
