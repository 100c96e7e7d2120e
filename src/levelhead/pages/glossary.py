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
# terms by chapter, other forms of them, and those with a second meaning
_SHIPPED = tomllib.loads(_FILE.read_text(encoding="utf-8"))
_SHORTEST = 3  # letters of a term that is looked for in sentences


@dataclass(frozen=True)
class TermGroup:
    """Terms that belong together, in the order of reading."""

    title: str
    terms: Mapping[str, str]


@dataclass(frozen=True)
class TermPiece:
    """A piece of a text; one that is a term has its definition as its title."""

    text: str
    term: str = ""
    title: str = ""

    @property
    def anchor(self) -> str:
        """Where the term stands in the list."""
        return f"term-{re.sub(r'[^a-z]+', '-', self.term.casefold()).strip('-')}"


@cache
def glossary() -> tuple[TermGroup, ...]:
    """Every term with its definition."""
    return tuple(TermGroup(each["heading"], each["terms"]) for each in _SHIPPED["chapter"])


@cache
def explained() -> Mapping[str, TermPiece]:
    """What is explained on hover, as it is written: terms and other forms of them, also where a
    sentence begins with them."""
    meanings = {term: meaning for group in glossary() for term, meaning in group.terms.items()}
    written = {term: term for term in meanings if term not in _SHIPPED["ambiguous"]}
    written |= _SHIPPED["forms"]
    written |= {text[0].upper() + text[1:]: term for text, term in written.items() if len(text) >= _SHORTEST}
    return {text: TermPiece(text, term, meanings[term]) for text, term in written.items()}


class Terms:
    """Texts of a page in pieces. A term is explained the first time that it stands in a chapter: each of
    them is a stop on a reader's way through the page by keyboard."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        longest_first = sorted(
            (text for text in explained() if len(text) >= _SHORTEST), key=len, reverse=True
        )
        self._term = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)")

    def fresh(self) -> str:
        """A new chapter; nothing, which a template can write."""
        self._seen.clear()
        return ""

    def __call__(self, text: str, cell: bool = False) -> list[TermPiece]:
        """The pieces of a text. cell: it may be any word of a probe, so that only what is nothing but a
        term, or can be nothing else, is explained."""
        parts = [text] if text in explained() else [part for part in self._term.split(text) if part]
        pieces = []
        for part in parts:
            piece = explained().get(part, TermPiece(part))
            # two words, or letters that are not all small, can be nothing else than the term
            unmistakable = part == text or not part.isalpha() or not part[1:].islower()
            if not piece.term or piece.term in self._seen or (cell and not unmistakable):
                piece = TermPiece(part)
            else:
                self._seen.add(piece.term)
            pieces.append(piece)
        return pieces


def glossary_section() -> Section:
    terms = [item for group in glossary() for item in group.terms.items()]
    items = [(TermPiece(term, term).anchor, term, meaning) for term, meaning in terms]
    question = "What do the technical words mean?"
    return Section(Chapter.GLOSSARY, "Glossary", question, "", [Definitions(items)])
