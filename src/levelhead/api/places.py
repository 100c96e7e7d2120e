"""Where a result can be looked at: the report of its run, and open pages of `lh.explore` about its model."""

from __future__ import annotations

from html import escape
from pathlib import Path
from urllib.parse import quote

from levelhead.exploring.state import PageState
from levelhead.results import layout

_OPEN: dict[str, str] = {}  # fingerprint of the model -> address of the latest page about it


def page_opened(weights: str, address: str) -> None:
    """A page about these weights is served at an address."""
    _OPEN[weights] = address


def page_closed(address: str) -> None:
    """It is served no more."""
    for weights in [weights for weights, open_at in _OPEN.items() if open_at == address]:
        del _OPEN[weights]


def links(weights: str | None, folder: Path | None = None, state: PageState | None = None) -> str:
    """Links as HTML; empty where there is neither a page nor a report. state: what the page shows then."""
    found = []
    if weights in _OPEN:
        fragment = "" if state is None else f"#{state.to_fragment()}"
        found.append(("try it on a sentence", f"{_OPEN[weights]}{fragment}"))
    if folder is not None and (folder / layout.REPORT.name).is_file():
        found.append(("report", _address(folder / layout.REPORT.name)))
    shown = (f'<a href="{escape(address, quote=True)}">{name}</a>' for name, address in found)
    return f"<p>{' · '.join(shown)}</p>" if found else ""


def _address(file: Path) -> str:
    """A file below the working folder by its relative path, which notebook servers serve."""
    path, here = file.resolve(), Path.cwd().resolve()
    return quote(path.relative_to(here).as_posix()) if path.is_relative_to(here) else path.as_uri()
