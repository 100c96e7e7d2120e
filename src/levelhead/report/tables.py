"""Tables of the report: every number with its address in results.jsonl, rounded for people, whole for CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from levelhead.results.folder import Row

NOTHING = "–"


@dataclass(frozen=True)
class Part:
    """A piece of a cell: words, or a number with its address."""

    text: str
    at: str = ""


@dataclass(frozen=True)
class Cell:
    """What one cell shows, and what stands for it in the CSV file."""

    parts: tuple[Part, ...]
    raw: str = ""
    numeric: bool = False
    small: str = ""  # a second, quieter line
    code: str = ""  # a recipe that can be copied

    @property
    def text(self) -> str:
        """As it is read."""
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True)
class Table:
    """A table with its name (also that of its CSV file), caption and note. The first cell of a row names the
    row."""

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    folded: bool = False  # long: shown on demand
    strong: frozenset[int] = field(default_factory=frozenset)  # rows that stand out

    def to_csv(self) -> str:
        """All digits; texts that a spreadsheet would take for a formula are quoted as text."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([[cell.raw for cell in row] for row in self.rows])
        return file.getvalue()


# ---- cells


def words(text: Any, small: str = "", code: str = "") -> Cell:
    """Plain text. Nothing at all is a dash."""
    told = NOTHING if text is None or text == "" else str(text)
    raw = "" if told == NOTHING else told
    return Cell((Part(told),), f"'{raw}" if raw[:1] in ("=", "+", "@") else raw, small=small, code=code)


def number(row: Mapping[str, Any], path: str, digits: int = 3) -> Cell:
    """A number of a row, by the path of its keys: "value", "details.t"."""
    value = _follow(row, path)
    if value is None:
        return Cell((Part(NOTHING),), "", True)
    return Cell((part(row, path, digits),), repr(value), True)


def probability(row: Mapping[str, Any], path: str) -> Cell:
    """A p- or q-value: three decimals, or its order of magnitude."""
    value = _follow(row, path)
    digits = 3 if value is None or value >= 0.001 else -1
    return number(row, path, digits)


def interval(row: Mapping[str, Any], digits: int = 3) -> Cell:
    """The two bounds."""
    if row.get("interval") is None:
        return Cell((Part(NOTHING),), "", True)
    low, high = (part(row, f"interval.{side}", digits) for side in (0, 1))
    return Cell((low, Part(" to "), high), " to ".join(map(repr, row["interval"])), True)


def measured(row: Mapping[str, Any] | None, digits: int = 3) -> Cell:
    """A value with its interval below it; a value that is missing says so."""
    if row is None:
        return words(None)
    if row["value"] is None:
        return Cell((Part("not measured"),), "", small=str(row["reason"]))
    bounds = interval(row, digits)
    parts: tuple[Part, ...] = (part(row, "value", digits),)
    if bounds.raw:
        parts += (Part(" ["), bounds.parts[0], Part(", "), bounds.parts[2], Part("]"))
    return Cell(parts, repr(row["value"]), True)


def part(row: Mapping[str, Any], path: str, digits: int = 3) -> Part:
    """One number with its address."""
    return Part(shown(_follow(row, path), digits), f"{row['at']}.{path}")


def shown(value: float | int, digits: int = 3) -> str:
    """A number as people read it: so many decimals, thousands apart; -1 digits: its order of magnitude."""
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    text = f"{value:.1e}" if digits < 0 else f"{value:,.{digits}f}"
    if digits >= 0 and not text.strip("-0.,"):
        text = text.lstrip("-")  # -0.000 is 0.000
    return text.replace("-", "−") if digits >= 0 else text


def _follow(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for key in path.split("."):
        if value is None:
            return None
        value = value[int(key)] if isinstance(value, list | tuple) else value.get(key)
    return value


# ---- small helps for those who build tables


def by_name(rows: Iterable[Row]) -> dict[str, Row]:
    """Rows by the name of their measure, the first of each."""
    found: dict[str, Row] = {}
    for row in rows:
        found.setdefault(row["name"], row)
    return found


def digits_of(name: str) -> int:
    """Perplexities are large, all other measures small."""
    return 2 if name in ("fluency", "pppl", "perplexity") else 3
