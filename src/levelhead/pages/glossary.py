"""What technical words mean: data, shown on hover where they stand, in a list at the end, in documents."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from levelhead.pages.blocks import Points, Section
from levelhead.pages.names import Piece
from levelhead.pages.tables import words

_FILE = Path(__file__).with_name("glossary.toml")
_SHORTEST = 3  # letters of a term that is explained on hover


@dataclass(frozen=True)
class TermGroup:
    """Terms that belong together, in the order of reading."""

    title: str
    terms: Mapping[str, str]


@dataclass(frozen=True)
class _Shipped:
    """What the file holds: terms, and other forms of them."""

    groups: tuple[TermGroup, ...]
    forms: Mapping[str, str]

    @classmethod
    @cache
    def read(cls) -> _Shipped:
        """The file as it ships."""
        data = tomllib.loads(_FILE.read_text(encoding="utf-8"))
        groups = (TermGroup(each["heading"], each["terms"]) for each in data["chapter"])
        return cls(tuple(groups), data["forms"])


def glossary() -> tuple[TermGroup, ...]:
    """Every term with its definition."""
    return _Shipped.read().groups


@cache
def explained() -> Mapping[str, str]:
    """What is explained on hover: every term that is a word, and other forms of it."""
    terms = {term: meaning for group in glossary() for term, meaning in group.terms.items()}
    forms = {form: terms[term] for form, term in _Shipped.read().forms.items()}
    return {term: meaning for term, meaning in {**terms, **forms}.items() if len(term) >= _SHORTEST}


@cache
def _pattern() -> re.Pattern[str]:
    longest_first = sorted(explained(), key=len, reverse=True)
    return re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)")


def defined(text: str) -> list[Piece]:
    """A text in pieces; the first time that a term stands in it, its definition is the piece's title."""
    pieces, seen = [], set[str]()
    for part in _pattern().split(text):
        title = "" if part in seen else explained().get(part, "")
        seen.add(part)
        if part:
            pieces.append(Piece(part, title))
    return pieces


def glossary_section() -> Section:
    """All terms with their definitions."""
    lines = [f"{term}: {meaning}" for group in glossary() for term, meaning in group.terms.items()]
    question = "What do the technical words mean?"
    return Section("glossary", "Words of this page", question, "", [Points([words(line) for line in lines])])


def glossary_page() -> str:
    """The glossary as Markdown."""
    lines = ["# Glossary", "", "Words as levelhead uses them, in pages, commands and documents."]
    for group in glossary():
        lines += ["", f"## {group.title}", "", "| word | it means |", "|---|---|"]
        lines += [f"| {term} | {meaning} |" for term, meaning in group.terms.items()]
    return "\n".join([*lines, ""])
