"""The one currency: a number with everything a reader needs in order to trust or doubt it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

CHANGE = " change"  # how the name of a change ends
NULL_MODELS = "null twins"  # how the method of a null begins that was drawn from null models
LONG_TAILED = "long-tailed"  # in the method of a null that is
FUTILE = "stopped for futility"  # in the method of a null of which no more models were asked
ENOUGH = 19  # null models from which on it says something that a value is not told from theirs
ENOUGH_PLANNED = 9  # the same, of a claim that was planned with fewer than 19
ABOUT_NULLS = "null models"  # the setting that says on what they were evaluated, or why there are none
P_NULL_MODELS = "p_twins"  # the detail with the p against them, where another null has the larger p
P_EXCHANGE = "p_exchange"  # the detail with the p of exchanged group words (exchange.py)
EXCHANGED = "p of exchanged group words"  # in the method of a null whose own p is smaller than that


@dataclass(frozen=True)
class Null:
    """What a null model would show: the distribution that a value is held against.

        p_value = (1 + #{draws at least as extreme as the value}) / (1 + draws)

    A claim rests on p_value and on an interval beyond floor (least above 0, where it is known), not on the
    neutral value alone (docs/method.md,
    Statistics).
    """

    method: str  # how it was drawn, and which side counts as extreme
    draws: int  # draws other than the observed value itself
    floor: float  # mean of the draws: the value that noise alone has
    spread: float  # standard deviation of the draws
    p_value: float
    least: float | None = None  # the one-sided 95 % limit of the distance from floor on other items, if known
    planned: int | None = None  # null models that were to come, where a claim has its own number of them

    def __post_init__(self) -> None:
        if self.draws < 1 or not self.spread >= 0 or not 0 < self.p_value <= 1:
            raise ValueError(f"{self}: a null needs a draw, a spread of 0 or more, and 0 < p_value <= 1")

    @property
    def of_models(self) -> bool:
        """Whether it was drawn from null models."""
        return self.method.startswith(NULL_MODELS)

    @property
    def exchanged(self) -> bool:
        """Whether its p is that of exchanged group words, which is larger than that of its own draws."""
        return EXCHANGED in self.method

    @property
    def long_tailed(self) -> bool:
        """Whether a few of its models lie much farther out than a normal distribution has them."""
        return LONG_TAILED in self.method

    @property
    def enough(self) -> int:
        """From how many null models on silence says something: the planned number, from 9 to 19."""
        return ENOUGH if self.planned is None else min(ENOUGH, max(ENOUGH_PLANNED, self.planned))

    @property
    def futile(self) -> bool:
        """Whether no more null models were asked because the value lay too near to these for a claim."""
        return FUTILE in self.method


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
    null: Null | None = None  # what a null model would show, where that is known
    influence: Mapping[str, tuple[float, ...]] = field(default_factory=dict, repr=False)  # of each item

    def __post_init__(self) -> None:
        if (self.value is None) == (not self.reason):
            raise ValueError(
                f"{self.name}: a measurement has either a value or a reason, "
                f"got {self.value!r}, {self.reason!r}"
            )

    @classmethod
    def missing(cls, name: str, reason: str, **known: Any) -> Measurement:
        """A measurement that could not be taken, with its reason."""
        return cls(name, None, reason=reason, **known)

    @property
    def excess(self) -> float | None:
        """The value less its noise floor; None without a value or without a null.

        excess = value − floor
        """
        return None if self.value is None or self.null is None else self.value - self.null.floor

    def beyond(self, floor: float) -> bool:
        """Whether other items would lie beyond a floor too: by the null's own limit, else by the interval.

        A value without either is beyond nothing.
        """
        if self.null is not None and self.null.least is not None:
            return self.null.least > 0
        return self.interval is not None and not self.interval[0] <= floor <= self.interval[1]

    @property
    def held_against_models(self) -> bool:
        """Whether null models were asked too, be their p the larger one or not."""
        return P_NULL_MODELS in self.details or (self.null is not None and self.null.of_models)

    @property
    def p_value(self) -> float | None:
        """The p that a verdict rests on: that of the null, else the larger of the measure's own test and of
        exchanged group words; None where nothing was tested."""
        if self.null is not None:
            return self.null.p_value
        own, exchanged = self.details.get("p_value"), self.details.get(P_EXCHANGE)
        return own if own is None or exchanged is None else max(own, exchanged)

    @property
    def relative(self) -> float | None:
        """The value relative to the scale of the differences behind it, where the details name one.

        relative = value / rms     None without a value, and where every difference is 0
        """
        rms = self.details.get("rms", 1.0)
        return None if self.value is None or not rms else self.value / rms

    def to_json(self) -> dict[str, object]:
        """Plain data for a JSON line; keys always present so that readers need no guesses.

        Influences, hundreds of numbers that only a comparison of runs needs, stay in the run folder.
        """
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
            "null": None if self.null is None else asdict(self.null),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Measurement:
        """The measurement that to_json wrote; a ValueError names the first field that is absent or of the
        wrong type.

        Keys that to_json does not write are ignored: a line of a run folder has labels beside the number.
        """
        return cls(
            name=_text(data, "name"),
            value=_number_or_none("value", _field(data, "value")),
            interval=_interval(data),
            n=_whole("n", _field(data, "n")),
            unscored={key: _whole(f"unscored[{key!r}]", n) for key, n in _mapping(data, "unscored").items()},
            neutral=_number_or_none("neutral", _field(data, "neutral")),
            details={
                key: _number_or_none(f"details[{key!r}]", value)
                for key, value in _mapping(data, "details").items()
            },
            settings=_mapping(data, "settings"),
            reason=_text(data, "reason"),
            null=_null(data),
        )

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name}: not measured ({self.reason})"
        interval = "" if self.interval is None else f" [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"
        return f"{self.name} {self.value:.3f}{interval} n={self.n}"


def _field(data: Mapping[str, object], name: str) -> Any:
    if name not in data:
        raise ValueError(f"A measurement needs the field {name!r}; there are {', '.join(data) or 'none'}.")
    return data[name]


def _wrong(name: str, value: object, allowed: str) -> ValueError:
    return ValueError(f"Field {name} of a measurement is {value!r}; allowed is {allowed}.")


def _text(data: Mapping[str, object], name: str) -> str:
    value = _field(data, name)
    if not isinstance(value, str):
        raise _wrong(name, value, "a text")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(name, value, "a number")
    return float(value)


def _number_or_none(name: str, value: object) -> float | None:
    return None if value is None else _number(name, value)


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, value, "a whole number")
    return value


def _interval(data: Mapping[str, object]) -> tuple[float, float] | None:
    value = _field(data, "interval")
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise _wrong("interval", value, "null or a list of two numbers")
    return _number("interval", value[0]), _number("interval", value[1])


def _null(data: Mapping[str, object]) -> Null | None:
    if _field(data, "null") is None:
        return None
    null = _mapping(data, "null")
    parts = {name: _number(f"null.{name}", _field(null, name)) for name in ("floor", "spread", "p_value")}
    least, planned = _number_or_none("null.least", null.get("least")), null.get("planned")
    return Null(
        _text(null, "method"),
        _whole("null.draws", _field(null, "draws")),
        parts["floor"],
        parts["spread"],
        parts["p_value"],
        least,
        None if planned is None else _whole("null.planned", planned),
    )


def _mapping(data: Mapping[str, object], name: str) -> dict[str, object]:
    value = _field(data, name)
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _wrong(name, value, "an object with texts as keys")
    return dict(value)
