"""The tables of a run's page as Markdown, for a README or an issue."""

from __future__ import annotations

from pathlib import Path

from levelhead.inference.contents import consistent, open_contents
from levelhead.pages.blocks import Shown
from levelhead.pages.sections.index import sections


def markdown_tables(folder: str | Path) -> str:
    """Every table that the page does not fold, each under its caption."""
    contents = open_contents(folder)
    with consistent(contents):
        shown = [b.table for section in sections(contents) for b in section.blocks if isinstance(b, Shown)]
    parts = [
        f"**{contents.model}: {each.caption}**\n\n{each.to_markdown()}" for each in shown if not each.folded
    ]
    return "\n".join(parts)
