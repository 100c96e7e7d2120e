"""What technical words mean: data, for pages and documents."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("glossary.toml")


@dataclass(frozen=True)
class TermGroup:
    """Terms that belong together, in the order of reading."""

    title: str
    terms: Mapping[str, str]


@cache
def glossary() -> tuple[TermGroup, ...]:
    """Every term with its definition."""
    groups = tomllib.loads(_FILE.read_text(encoding="utf-8"))["group"]
    return tuple(TermGroup(group["title"], group["terms"]) for group in groups)


def glossary_page() -> str:
    """The glossary as Markdown."""
    lines = ["# Glossary", "", "Words as levelhead uses them, in pages, commands and documents."]
    for group in glossary():
        lines += ["", f"## {group.title}", "", "| word | it means |", "|---|---|"]
        lines += [f"| {term} | {meaning} |" for term, meaning in group.terms.items()]
    return "\n".join([*lines, ""])
