"""Where every result stands: a chapter on the page of its run, or else the document that explains it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from html import escape
from pathlib import Path

from levelhead.errors import BadRun
from levelhead.pages.chapters import Chapter
from levelhead.runs.folder import SETTINGS
from levelhead.runs.study import REPORT, AnyRun
from levelhead.safe_files import read_bytes
from levelhead.studies.audit import Audit

_DOCS = Path(__file__).parents[3] / "docs"  # of a checkout; a wheel has none


class Document(StrEnum):
    """Documents that explain results of no study, by their files in docs/; a study declares its own."""

    CHECK = "check.md"
    EXPORT = "export.md"
    METHOD = "method.md"
    REPORT = "report.md"


@dataclass(frozen=True)
class Link:
    """A place to read on: its name, and its address where the file is on this machine."""

    name: str
    address: str = ""

    def __str__(self) -> str:
        return self.address or self.name

    @property
    def html(self) -> str:
        """A line for notebooks. Browsers follow no file link of a page that a server sent: the name is
        the whole path, to copy."""
        name = escape(self.name)
        shown = f'<a href="{escape(self.address)}">{name}</a>' if self.address else name
        return f"<p>Read on: {shown}</p>"


def run_link(run: AnyRun) -> Link:
    """The chapter of a run: on its own page, else on that of the run around it, else its document."""
    # an audit's answers stand in the box on top; its chapters are those of the studies inside it
    chapter = Chapter.NOW if isinstance(run, Audit) else run.name
    for around in (run.folder, run.folder.parent):
        if (around / SETTINGS).is_file() and (link := page_link(around, chapter)) is not None:
            return link
    return document_link(run.document or Document.REPORT)


def page_link(folder: Path, chapter: str | None) -> Link | None:
    """A chapter of the page in a run folder, or the whole page where it has no such chapter; None without
    a page."""
    try:
        html = read_bytes(folder, REPORT.name)
    except BadRun:  # no page of ours; whoever reads the run is told
        html = None
    if html is None:
        return None
    page = (folder / REPORT.name).resolve()
    anchor = f"#{chapter}" if chapter is not None and f'id="{chapter}"'.encode() in html else ""
    return Link(f"{page}{anchor}", f"{page.as_uri()}{anchor}")


def document_link(document: str, anchor: str = "") -> Link:
    path, place = _DOCS / document, f"#{anchor}" if anchor else ""
    return Link(f"docs/{document}{place}", f"{path.as_uri()}{place}" if path.is_file() else "")
