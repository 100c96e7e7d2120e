"""What a release must keep to: thresholds as they are typed, or as a TOML file gives them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from levelhead.errors import BadOption
from levelhead.probes.files import finite, parse_toml, read_text, shown
from levelhead.results.codec import Record
from levelhead.results.records.common import BASE

Side = Literal["max", "min", "increase", "decrease"]
_SIDES: tuple[Side, ...] = ("max", "min", "increase", "decrease")  # the last two: since a baseline
_WORDS: dict[Side, str] = {
    "max": "at most",
    "min": "at least",
    "increase": "rises by at most",
    "decrease": "falls by at most",
}
OPTIONS: dict[Side, str] = {
    "max": "--max",
    "min": "--min",
    "increase": "--max-increase",
    "decrease": "--max-decrease",
}
_GIVE = "Give thresholds as a TOML file (docs/check.md)."


@dataclass(frozen=True)
class Threshold(Record):
    """A measure may be at most (max) or must be at least (min) so much, or may rise or fall by so much since
    a baseline."""

    measure: str
    side: Side
    limit: float

    def __str__(self) -> str:
        return f"{self.measure} {_WORDS[self.side]} {self.limit:g}"

    @property
    def of_change(self) -> bool:
        """Whether it is about the change since a baseline."""
        return self.side in ("increase", "decrease")


@dataclass(frozen=True)
class Plan:
    """What a release must keep to."""

    thresholds: tuple[Threshold, ...]
    bound: bool = False  # judge the interval's worse bound instead of the value
    variant: str = BASE


def threshold(text: str, side: Side) -> Threshold:
    """`seat=0.8` as it is typed."""
    name, separator, limit = text.rpartition("=")
    try:
        number = float(limit)
    except ValueError:
        number = math.nan
    if not separator or not name.strip() or not math.isfinite(number):
        raise BadOption(
            f"{OPTIONS[side]} {text!r} is no threshold. Write a measure, =, and a number, as in "
            f"{OPTIONS[side]} seat=0.8."
        )
    return Threshold(name.strip(), side, number)


def read_plan(path: str | Path) -> Plan:
    """Thresholds from a TOML file: tables [max] and [min], [increase] and [decrease] since a baseline;
    `bound = true` and `variant = "..."` on request."""
    file = Path(path)
    data = parse_toml(file, read_text(file, _GIVE, BadOption), _GIVE, BadOption)
    if strange := sorted(set(data) - {*_SIDES, "bound", "variant"}):
        allowed = "[max], [min], [increase], [decrease], bound, variant"
        raise BadOption(f"{path} has {strange[0]!r}; allowed are {allowed}.")
    thresholds = [each for side in _SIDES for each in _table(path, side, data.get(side, {}))]
    bound, variant = data.get("bound", False), data.get("variant", BASE)
    if not isinstance(bound, bool) or not isinstance(variant, str):
        raise BadOption(f"{path}: bound must be true or false, variant a text.")
    return Plan(tuple(thresholds), bound, variant)


def _table(path: str | Path, side: Side, table: object) -> list[Threshold]:
    """The thresholds of one table of the file."""
    if not isinstance(table, Mapping):
        raise BadOption(f"{path}: {side} must be a table, [{side}], of measures and numbers.")
    for name, limit in table.items():
        if finite(limit) is None:
            raise BadOption(f"{path}, [{side}]: {name} = {shown(limit)} is no finite number.")
    return [Threshold(name, side, float(limit)) for name, limit in table.items()]
