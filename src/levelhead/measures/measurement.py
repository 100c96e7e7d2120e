"""The one currency: a number with everything a reader needs in order to trust or doubt it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

CHANGE = " change"  # how the name of a change ends
NULL_MODELS = "null models"  # how the method of a null begins that was drawn from null models
LONG_TAILED = "long-tailed"  # in the method of a null that is
FUTILE = "stopped for futility"  # in the method of a null of which no more models were evaluated
ENOUGH = 19  # null models from which on it says something that a value does not differ from theirs
ENOUGH_PLANNED = 9  # the same, of a claim that was planned with fewer than 19
ABOUT_NULLS = "null models"  # the setting that says on what they were evaluated, or why there are none
P_NULL_MODELS = "p_null_models"  # the detail with the p against them, where another null has the larger p
P_EXCHANGE = "p_exchange"  # the detail with the p of exchanged group words (exchange.py)
EXCHANGED = "p of exchanged group words"  # in the method of a null whose own p is smaller than that


# words that measures and records of results share
HeadSet = Literal["biased - regular", "biased"]
ContrastPart = Literal["whole", "stereotype", "group words"]
GlueVerdict = Literal["costs", "gains", "not inferior", "not shown"]


@dataclass(frozen=True)
class Null:
    """What a null model would show: the distribution that a value is compared with.

        p_value = (1 + #{draws at least as extreme as the value}) / (1 + draws)

    A claim rests on p_value and on an interval beyond floor (least above 0, where it is known), not on the
    neutral value alone (docs/method/statistics.md, Statistics).
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
    def enough(self) -> int:
        """From how many null models on silence says something: the planned number, from 9 to 19."""
        return ENOUGH if self.planned is None else min(ENOUGH, max(ENOUGH_PLANNED, self.planned))

    @property
    def futile(self) -> bool:
        """Whether no more null models were evaluated because the value lay too near to these for a claim."""
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
            got = f"got {self.value!r}, {self.reason!r}"
            raise ValueError(f"{self.name}: a measurement has either a value or a reason, {got}")

    @classmethod
    def missing(cls, name: str, reason: str, **known: Any) -> Measurement:
        """A measurement that could not be taken, with its reason."""
        return cls(name, None, reason=reason, **known)

    @property
    def excess(self) -> float | None:
        """The value less its noise floor, value − floor; None without a value or without a null."""
        return None if self.value is None or self.null is None else self.value - self.null.floor

    def beyond(self, floor: float) -> bool:
        """Whether other items would lie beyond a floor too: by the null's own limit, else by the interval."""
        if self.null is not None and self.null.least is not None:
            return self.null.least > 0
        return self.interval is not None and not self.interval[0] <= floor <= self.interval[1]

    @property
    def held_against_models(self) -> bool:
        """Whether null models were evaluated too, be their p the larger one or not."""
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
        """value / rms of the differences behind it, where the details name one; None where all are 0."""
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
        """The measurement that to_json wrote; a ValueError names the first field that is absent or wrong.

        Other keys are ignored: a line of a run folder has labels beside the number.
        """
        interval = _field(data, "interval")
        if interval is not None and (not isinstance(interval, (list, tuple)) or len(interval) != 2):
            raise ValueError(_WRONG.format("interval", interval, "null or a list of two numbers"))
        ends = None if interval is None else tuple(_checked("interval", each, float) for each in interval)
        unscored, details = _field(data, "unscored", dict), _field(data, "details", dict)
        null = None
        if _field(data, "null") is not None:
            given = _field(data, "null", dict)
            numbers = [_field(given, name, float, "null.") for name in ("floor", "spread", "p_value")]
            later = [
                None if given.get(name) is None else _checked(f"null.{name}", given[name], kind)
                for name, kind in (("least", float), ("planned", int))
            ]
            null = Null(_field(given, "method", str), _field(given, "draws", int, "null."), *numbers, *later)
        return cls(
            name=_field(data, "name", str),
            value=_field(data, "value", float, optional=True),
            interval=ends,
            n=_field(data, "n", int),
            unscored={key: _checked(f"unscored[{key!r}]", n, int) for key, n in unscored.items()},
            neutral=_field(data, "neutral", float, optional=True),
            details={
                key: None if value is None else _checked(f"details[{key!r}]", value, float)
                for key, value in details.items()
            },
            settings=_field(data, "settings", dict),
            reason=_field(data, "reason", str),
            null=null,
        )

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name}: not measured ({self.reason})"
        interval = "" if self.interval is None else f" [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"
        return f"{self.name} {self.value:.3f}{interval} n={self.n}"


_WRONG = "Field {} of a measurement is {!r}; allowed is {}."
_ALLOWED = {str: "a text", float: "a number", int: "a whole number", dict: "an object with texts as keys"}


def _field(
    data: Mapping[str, object], name: str, kind: type | None = None, of: str = "", optional: bool = False
) -> Any:
    """A field as data of one kind; None where it is optional."""
    if name not in data:
        raise ValueError(f"A measurement needs the field {name!r}; there are {', '.join(data) or 'none'}.")
    value = data[name]
    return value if kind is None or (optional and value is None) else _checked(of + name, value, kind)


def _checked(name: str, value: object, kind: type) -> Any:
    fits = isinstance(value, (int, float) if kind is float else Mapping if kind is dict else kind)
    if isinstance(value, bool) or (isinstance(value, Mapping) and not all(isinstance(k, str) for k in value)):
        fits = False
    if not fits:
        raise ValueError(_WRONG.format(name, value, _ALLOWED[kind]))
    return kind(value)
