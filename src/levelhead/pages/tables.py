"""Tables of the report: every number with the address of its record, rounded for people, whole for CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from levelhead.inference.claims import evidence
from levelhead.inference.contents import Reported
from levelhead.measures.measurement import Measurement, Null
from levelhead.runs.common import SizeGrown
from levelhead.runs.files import csv_text

NOTHING = "–"


@dataclass(frozen=True)
class Part:
    """A piece of a cell: words, or a number with the address of the record that holds it."""

    text: str
    at: str = ""


@dataclass(frozen=True)
class Cell:
    """What one cell shows, and what stands for it in the CSV file."""

    parts: tuple[Part, ...]
    raw: str = ""
    numeric: bool = False
    small: str = ""  # a second, quieter line
    long: str = ""  # a name written out, which the page does not shorten

    @property
    def text(self) -> str:
        """The cell as it is read."""
        return "".join(part.text for part in self.parts)

    @property
    def whole(self) -> str:
        """The cell in one line, what stands small in brackets."""
        return f"{self.text} ({self.small})" if self.small else self.text


@dataclass(frozen=True)
class Table:
    """A table: its name, also that of its CSV file, caption and note. The first cell of a line names it."""

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    folded: bool = False  # long: shown on demand
    strong: frozenset[int] = field(default_factory=frozenset)  # rows that stand out

    def to_csv(self) -> str:
        """The table with all digits; texts that a spreadsheet would run are quoted as text."""

        def cell_of(cell: Cell) -> str | float:
            # a number stays a number, so that a minus sign is not taken for a formula
            for kind in (int, float) if cell.numeric else ():
                with suppress(ValueError):
                    return kind(cell.raw)
            return cell.raw

        return csv_text(self.columns, ([cell_of(cell) for cell in row] for row in self.rows))


# ---- cells


def words(text: object, small: str = "", long: str = "") -> Cell:
    """Plain text; nothing at all is a dash."""
    shown_text = NOTHING if text is None or text == "" else str(text)
    return Cell((Part(shown_text),), "" if shown_text == NOTHING else shown_text, small=small, long=long)


def number(value: float | int | None, at: str = "", digits: int = 3) -> Cell:
    """A number of the record at an address."""
    if value is None:
        return Cell((Part(NOTHING),), "", True)
    return Cell((Part(shown(value, digits), at),), repr(value), True)


def numbers(values: Iterable[float | int | None], at: str = "", digits: int = 3) -> list[Cell]:
    """Several numbers of one record, each in a cell of its own."""
    return [number(value, at, digits) for value in values]


def probability(value: float | None, at: str = "") -> Cell:
    """A p- or q-value: three decimals, or its order of magnitude; never 0.000."""
    return number(value, at, 3 if value is None or value >= 0.001 else -1)


def null_cells(null: Null | None, at: str = "", digits: int = 3) -> tuple[Cell, Cell, Cell]:
    """Mean and standard deviation of null models, and p against them; dashes where there are none."""
    if null is None:
        return number(None), number(None), number(None)
    return number(null.floor, at, digits), number(null.spread, at, digits), probability(null.p_value, at)


def interval(measurement: Measurement, at: str = "", digits: int = 3) -> Cell:
    if measurement.interval is None:
        return number(None)
    low, high = measurement.interval
    parts = (Part(shown(low, digits), at), Part(" to "), Part(shown(high, digits), at))
    return Cell(parts, f"{low!r} to {high!r}", True)


def measured(measurement: Measurement | None, at: str = "", digits: int = 3) -> Cell:
    """A value with its interval, and below it what it is held against, unless columns of their own say it."""
    cell = bounded(measurement, at, digits)
    if measurement is None or measurement.value is None:
        return cell
    return replace(cell, small=evidence(measurement))


def bounded(measurement: Measurement | None, at: str = "", digits: int = 3) -> Cell:
    """A value with its interval; a missing one says so, with the reason."""
    if measurement is None:
        return words(None)
    if measurement.value is None:
        return Cell((Part("not measured"),), "", small=measurement.reason)
    parts: tuple[Part, ...] = (Part(shown(measurement.value, digits), at),)
    if measurement.interval is not None:
        low, high = (Part(shown(bound, digits), at) for bound in measurement.interval)
        parts += (Part(" ["), low, Part(", "), high, Part("]"))
    return Cell(parts, repr(measurement.value), True)


def reported(each: Reported | None, digits: int = 3) -> Cell:
    """A reported measurement with its interval and address."""
    return words(None) if each is None else measured(each.measurement, each.address, digits)


def signed(value: float, ends: tuple[float | None, float | None], after: str = "") -> Cell:
    """A change with its sign, and its interval below, where both ends are known."""
    low, high = ends
    small = "" if low is None or high is None else f"[{low:+z.3f}, {high:+z.3f}]"
    return words(f"{value:+z.3f}{after}".replace("-", "−"), small.replace("-", "−"))


def grown_cell(each: SizeGrown) -> Cell:
    """By how much a size grows, with an arrow where that is sure, and the interval below."""
    return signed(each.grown, (each.low, each.high), " ↓" if each.lowered else " ↑" if each.raised else "")


def shown(value: float | int, digits: int = 3) -> str:
    """A number as people read it: so many decimals, thousands apart; -1 digits: its order of magnitude."""
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    text = f"{value:.1e}" if digits < 0 else f"{value:,.{digits}f}"
    if digits >= 0 and not text.strip("-0.,"):
        text = text.lstrip("-")  # -0.000 is 0.000
    return text.replace("-", "−") if digits >= 0 else text
