"""What every result can do: be a data frame, a chart, a table in a notebook, and files in a folder."""

from __future__ import annotations

import shutil
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from html import escape
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import altair as alt

from levelhead.edits.head import Head
from levelhead.errors import CannotDo
from levelhead.escaping import escaped
from levelhead.files import new_folder
from levelhead.measures.measurement import Measurement
from levelhead.pages.charts.base import Chart, drawn
from levelhead.pages.links import Link
from levelhead.results.codec import Record
from levelhead.results.keys import JsonFile, csv_text

if TYPE_CHECKING:
    import pandas as pd

Cell = str | float | bool | None
Line = dict[str, Cell]
TABLE = "table.csv"
SHEET = "measured.json"  # of a result that is no run
_SHOWN = 20  # lines of a table in a notebook


class Shown(ABC):
    """A result: attributes for a program, a frame, a chart and a table for a person."""

    @property
    @abstractmethod
    def caption(self) -> str:
        """What stands above the table."""

    @abstractmethod
    def lines(self) -> Sequence[Line]:
        """The table: one line a record, cells by the names of their columns."""

    @abstractmethod
    def chart(self) -> Chart:
        """The chart that says most about it."""

    @property
    @abstractmethod
    def link(self) -> Link:
        """Where to read on: its place on a page, or the document that explains it."""

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise CannotDo("to_frame() needs pandas: pip install 'levelhead[frame]'") from None
        lines = self.lines()
        return pandas.DataFrame.from_records([list(line.values()) for line in lines], columns=columns(lines))

    def plot(self) -> alt.TopLevelMixin:
        """An altair chart, which notebooks draw; `.save("chart.svg")` writes it."""
        return drawn(self.chart())

    def save(self, folder: str | Path) -> Path:
        """Write the result into a new folder, which appears whole or not at all."""
        with new_folder(folder) as work:
            self._write(work)
        return Path(folder)

    def _write(self, work: Path) -> None:
        """What is written into the folder: the table."""
        lines = self.lines()
        table = csv_text(columns(lines), (line.values() for line in lines))
        (work / TABLE).write_text(table, encoding="utf-8")

    def _repr_html_(self) -> str:
        return html_table(self.caption, self.lines()) + self.link.html + self._places()

    def _places(self) -> str:
        """Links to open pages on which it can be tried, as HTML."""
        return ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.caption}>"


@dataclass(frozen=True, repr=False)
class SavedRecord(Record, Shown):
    """A result that is one record: its folder holds the table, and all of it as JSON."""

    kind: str = field(default="", kw_only=True)  # the name of its class, by which its file is opened

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self).__name__)

    def _write(self, work: Path) -> None:
        super()._write(work)
        sheet = JsonFile(SHEET, type(self))
        (work / sheet.name).write_text(sheet.text(self), encoding="utf-8")


class Scratch:
    """A folder in the machine's temporary place, removed when the last result that reads it is gone."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="levelhead-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


# ---- records as lines


def line_of(record: object) -> Line:
    """A record as the cells of a line; a measurement in it becomes several, from its name to its p."""
    line: Line = {}
    if not is_dataclass(record):
        raise TypeError(f"{type(record).__name__} is no record")
    for each in fields(record):
        value = getattr(record, each.name)
        line |= measured_cells(value) if isinstance(value, Measurement) else {each.name: _cell(value)}
    return line


def measured_cells(measurement: Measurement) -> Line:
    """A measurement as cells: low and high are its interval, p is against null models, else its
    own."""
    low, high = measurement.interval or (None, None)
    return {
        "measure": measurement.name,
        "value": measurement.value,
        "low": low,
        "high": high,
        "n": measurement.n,
        "neutral": measurement.neutral,
        "p": measurement.p_value,
        "reason": measurement.reason,
    }


def _cell(value: object) -> Cell:
    """A value as one cell; several are written one after the other."""
    if value is None or isinstance(value, str | float | bool | int):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_cell(each)}" for name, each in value.items())
    if isinstance(value, Iterable) and not isinstance(value, Head):
        return ", ".join(str(_cell(each)) for each in value)
    return str(value)


def columns(lines: Sequence[Line]) -> list[str]:
    """The columns of a table, whose lines all have the same."""
    return list(lines[0]) if lines else []


def html_table(caption: str, lines: Sequence[Line]) -> str:
    """The first lines of a table as HTML; whatever comes from models and data is escaped."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in columns(lines))
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_text(cell))}</td>' for cell in line.values())}</tr>"
        for line in lines[:_SHOWN]
    )
    more = f"<p>{len(lines) - _SHOWN} more in .to_frame()</p>" if len(lines) > _SHOWN else ""
    return escaped(f"<p><b>{escape(caption)}</b></p><table><tr>{heads}</tr>{body}</table>{more}")


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)
