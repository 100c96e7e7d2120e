"""The one currency: a number with everything a reader needs in order to trust or doubt it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """A measured number, or the reason why there is none.

    value is None when nothing could be measured: never 0, which would read as 'unbiased'.
    """

    name: str
    value: float | None
    interval: tuple[float, float] | None = None  # 95 % unless settings["level"] says otherwise
    n: int = 0  # how many items the value rests on
    unscored: Mapping[str, int] = field(default_factory=dict)  # reason -> how many items
    neutral: float | None = None  # the value of a model without this bias
    details: Mapping[str, float | None] = field(default_factory=dict)  # p_value, t, q, ...
    settings: Mapping[str, Any] = field(default_factory=dict)  # seed, pooling, share, ...
    reason: str = ""  # why value is None

    def __post_init__(self) -> None:
        if (self.value is None) == (not self.reason):
            raise ValueError(
                f"{self.name}: a measurement has either a value or a reason, got {self.value!r}, {self.reason!r}"
            )

    @classmethod
    def missing(cls, name: str, reason: str, **known: Any) -> Measurement:
        """A measurement that could not be taken, with its reason."""
        return cls(name, None, reason=reason, **known)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a JSON line; keys always present so that readers need no guesses."""
        return {
            "name": self.name,
            "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "n": self.n,
            "unscored": dict(self.unscored),
            "neutral": self.neutral,
            "details": dict(self.details),
            "settings": dict(self.settings),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name}: not measured ({self.reason})"
        interval = "" if self.interval is None else f" [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"
        return f"{self.name} {self.value:.3f}{interval} n={self.n}"
