"""What technical words mean: data, shown on hover where they stand, in a list at the end, in documents."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from levelhead.pages.blocks import Definitions, Section
from levelhead.pages.chapters import Chapter

_FILE = Path(__file__).with_name("glossary.toml")
_SHORTEST = 3  # letters of a term that is looked for in sentences


@dataclass(frozen=True)
class TermGroup:
    """Terms that belong together, in the order of reading."""

    title: str
    terms: Mapping[str, str]


@dataclass(frozen=True)
class _Shipped:
    """What the file holds: terms, other forms of them, and those with a second meaning."""

    groups: tuple[TermGroup, ...]
    forms: Mapping[str, str]
    ambiguous: frozenset[str]

    @classmethod
    @cache
    def read(cls) -> _Shipped:
        """The file as it ships."""
        data = tomllib.loads(_FILE.read_text(encoding="utf-8"))
        groups = (TermGroup(each["heading"], each["terms"]) for each in data["chapter"])
        return cls(tuple(groups), data["forms"], frozenset(data["ambiguous"]))


@dataclass(frozen=True)
class TermPiece:
    """A piece of a text; one that is a term has its definition as its title."""

    text: str
    term: str = ""
    title: str = ""

    @property
    def anchor(self) -> str:
        """Where the term stands in the list."""
        return _anchor(self.term)

    @property
    def unmistakable(self) -> bool:
        """Whether nothing else is written like it: two words, or not in small letters alone."""
        return not self.text.isalpha() or not self.text[1:].islower()


def glossary() -> tuple[TermGroup, ...]:
    """Every term with its definition."""
    return _Shipped.read().groups


@cache
def explained() -> Mapping[str, TermPiece]:
    """What is explained on hover, as it is written: terms and other forms of them, also where a
    sentence begins with them."""
    meanings = {term: meaning for group in glossary() for term, meaning in group.terms.items()}
    written = {term: term for term in meanings if term not in _Shipped.read().ambiguous}
    written |= _Shipped.read().forms
    written |= {text[0].upper() + text[1:]: term for text, term in written.items() if len(text) >= _SHORTEST}
    return {text: TermPiece(text, term, meanings[term]) for text, term in written.items()}


@cache
def _pattern() -> re.Pattern[str]:
    longest_first = sorted((text for text in explained() if len(text) >= _SHORTEST), key=len, reverse=True)
    return re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)")


class Terms:
    """Texts of a page in pieces. A term is explained the first time that it stands in a chapter: each of
    them is a stop on a reader's way through the page by keyboard."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def fresh(self) -> str:
        """A new chapter; nothing, which a template can write."""
        self._seen.clear()
        return ""

    def __call__(self, text: str, cell: bool = False) -> list[TermPiece]:
        """The pieces of a text. cell: it may be any word of a probe, so that only what is nothing but a
        term, or can be nothing else, is explained."""
        if text in explained():
            return [self._once(explained()[text])]
        pieces = [explained().get(part, TermPiece(part)) for part in _pattern().split(text) if part]
        return [
            TermPiece(each.text) if cell and not each.unmistakable else self._once(each) for each in pieces
        ]

    def _once(self, piece: TermPiece) -> TermPiece:
        if not piece.term or piece.term in self._seen:
            return TermPiece(piece.text)
        self._seen.add(piece.term)
        return piece


def glossary_section() -> Section:
    """All terms with their definitions."""
    items = [(_anchor(term), term, meaning) for group in glossary() for term, meaning in group.terms.items()]
    question = "What do the technical words mean?"
    return Section(Chapter.GLOSSARY, "Words of this page", question, "", [Definitions(items)])


def _anchor(term: str) -> str:
    return f"term-{re.sub(r'[^a-z]+', '-', term.casefold()).strip('-')}"


def glossary_page() -> str:
    """The glossary as Markdown."""
    lines = ["# Glossary", "", "Words as levelhead uses them, in pages, commands and documents."]
    for group in glossary():
        lines += ["", f"## {group.title}", "", "| word | it means |", "|---|---|"]
        lines += [f"| {term} | {meaning} |" for term, meaning in group.terms.items()]
    return "\n".join([*lines, ""])
