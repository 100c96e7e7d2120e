"""The glossary is one table, for pages and documents alike."""

from __future__ import annotations

from pathlib import Path

from levelhead.pages.glossary import glossary, glossary_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_document_is_the_glossary_of_the_software() -> None:
    assert (DOCS / "glossary.md").read_text(encoding="utf-8") == glossary_page()


def test_every_term_is_defined_once_in_a_short_sentence() -> None:
    terms = [term for group in glossary() for term in group.terms]
    assert len({term.casefold() for term in terms}) == len(terms) >= 40
    for group in glossary():
        for meaning in group.terms.values():
            assert meaning.endswith(".")
            assert len(meaning) <= 170
