"""Where every result stands: a chapter on the page of its run, or else the document that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import Any

from levelhead.errors import BadRun
from levelhead.measures.catalog import Catalog
from levelhead.ordinary import read_bytes
from levelhead.pages.chapters import Chapter
from levelhead.results import layout
from levelhead.results.keys import Layout
from levelhead.results.stored import SETTINGS

_DOCS = Path(__file__).parents[3] / "docs"  # of a checkout; a wheel has none


class Document(StrEnum):
    """The documents that explain results, by their files in docs/."""

    ATLAS = "atlas.md"
    BENCHMARKS = "benchmarks.md"
    CHECK = "check.md"
    COUNTERACTS = "counteracts.md"
    EXPORT = "export.md"
    GLUE = "glue.md"
    HEADS = "heads.md"
    METHOD = "method.md"
    MITIGATE = "mitigate.md"
    PLANTED = "planted.md"
    PROJECTIONS = "projections.md"
    REPORT = "report.md"
    SURVEY = "survey.md"


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


@dataclass(frozen=True)
class _Home:
    chapter: Chapter | None  # None: its page has no chapter of its own
    document: Document


_HOMES: Mapping[str, _Home] = {  # by study
    layout.AUDIT.study: _Home(Chapter.NOW, Document.REPORT),
    layout.HEADS.study: _Home(Chapter.HEADS, Document.HEADS),
    layout.HEAD_COMPARISON.study: _Home(None, Document.HEADS),
    layout.PLANTED.study: _Home(Chapter.PLANTED, Document.PLANTED),
    layout.SWEEP.study: _Home(Chapter.SWEEP, Document.PROJECTIONS),
    layout.PROMPTS.study: _Home(Chapter.KNOWLEDGE, Document.COUNTERACTS),
    layout.GLUE.study: _Home(Chapter.GLUE, Document.GLUE),
    layout.SURVEY.study: _Home(Chapter.RANKING, Document.SURVEY),
    layout.MITIGATE.study: _Home(Chapter.MITIGATE, Document.MITIGATE),
    layout.ATLAS.study: _Home(Chapter.ATLAS, Document.ATLAS),
    layout.BENCHMARK.study: _Home(Chapter.BENCHMARK, Document.BENCHMARKS),
}
_ELSE = _Home(None, Document.REPORT)


def run_link(folder: Path, study: Layout[Any]) -> Link:
    """The chapter of a run: on its own page, else on that of the run around it, else its document."""
    home = _HOMES.get(study.study, _ELSE)
    for around in (folder, folder.parent):
        if (around / SETTINGS).is_file() and (link := page_link(around, home.chapter)) is not None:
            return link
    return document_link(home.document)


def page_link(folder: Path, chapter: Chapter | None) -> Link | None:
    """A chapter of the page in a run folder, or the whole page where it has no such chapter; None without
    a page."""
    try:
        html = read_bytes(folder, layout.REPORT.name)
    except BadRun:  # no page of ours; whoever reads the run is told
        html = None
    if html is None:
        return None
    page = (folder / layout.REPORT.name).resolve()
    anchor = f"#{chapter}" if chapter is not None and f'id="{chapter}"'.encode() in html else ""
    return Link(f"{page}{anchor}", f"{page.as_uri()}{anchor}")


def document_link(document: Document, anchor: str = "") -> Link:
    """A document, and a place in it."""
    path, place = _DOCS / document, f"#{anchor}" if anchor else ""
    return Link(f"docs/{document}{place}", f"{path.as_uri()}{place}" if path.is_file() else "")


def measure_link(name: str) -> Link:
    """What a measure is: its equation among the methods."""
    return document_link(Document.METHOD, Catalog().info(name).docs)
