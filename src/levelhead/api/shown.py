"""What every result can do: be a data frame, a chart, a table in a notebook, and files in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from levelhead.errors import CannotDo
from levelhead.escaping import escaped
from levelhead.exploring.state import PageState
from levelhead.pages.charts.base import drawn as drawn
from levelhead.pages.lines import Cell as Cell
from levelhead.pages.lines import Line as Line
from levelhead.pages.lines import columns
from levelhead.pages.lines import line_of as line_of
from levelhead.pages.lines import measured_cells as measured_cells
from levelhead.pages.links import run_link
from levelhead.runs.files import JsonFile, csv_text
from levelhead.runs.records import Record
from levelhead.runs.study import AnyRun, Result
from levelhead.safe_files import new_folder
from levelhead.studies.heads import Heads

if TYPE_CHECKING:
    import pandas as pd

TABLE = "table.csv"
SHEET = "measured.json"  # of a result that is no run
_SHOWN = 20  # lines of a table in a notebook
OPEN: dict[str, str] = {}  # open pages of `lh.explore`: fingerprint of the model -> address of the latest


class Shown(Result):
    """A result that is no run: attributes for a program, a frame, a chart and a table for a person."""

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
        # of one model, whose open page is a place to try it
        tried = links(getattr(self, "weights", None))
        html: str = self.link.html
        return html_table(self.caption, self.lines()) + html + tried


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


# ---- runs


def links(weights: str | None, state: PageState | None = None) -> str:
    """A link as HTML; empty where no page is open. state: what the page shows then."""
    if weights is None or weights not in OPEN:
        return ""
    fragment = "" if state is None else f"#{state.to_fragment()}"
    return f'<p><a href="{escape(OPEN[weights] + fragment, quote=True)}">try it on a sentence</a></p>'


def run_html(run: AnyRun) -> str:
    """A run in a notebook: what its chapter shows there, else its table; links to where to read on."""
    own = getattr(run.part("chapter"), "notebook", None)
    shown = html_table(run.caption, run.lines()) if own is None or (html := own(run)) is None else html
    head = run.ranked[0].head if isinstance(run, Heads) and run.ranked else None
    return shown + run_link(run).html + links(run.weights, None if head is None else PageState(head=head))


def frame_of(lines: Sequence[Line]) -> pd.DataFrame:
    """Lines as a pandas data frame."""
    try:
        import pandas
    except ImportError:
        raise CannotDo("to_frame() needs pandas: pip install 'levelhead[frame]'") from None
    return pandas.DataFrame.from_records([list(line.values()) for line in lines], columns=columns(lines))


# ---- records as lines


def html_table(caption: str, lines: Sequence[Line]) -> str:
    """The first lines of a table as HTML; whatever comes from models and data is escaped."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in columns(lines))
    texts = [
        ["" if each is None else f"{each:.3f}" if isinstance(each, float) else str(each) for each in row]
        for row in (line.values() for line in lines[:_SHOWN])
    ]
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in texts)
    more = f"<p>{len(lines) - _SHOWN} more in .to_frame()</p>" if len(lines) > _SHOWN else ""
    return escaped(f"<p><b>{escape(caption)}</b></p><table><tr>{heads}</tr>{body}</table>{more}")
