"""The glossary is one table, for pages and documents alike."""

from __future__ import annotations

import re
from pathlib import Path

from levelhead.pages.glossary import explained, glossary

DOCS = Path(__file__).parents[2] / "docs"


def test_the_document_is_the_glossary_of_the_software() -> None:
    lines = ["# Glossary", "", "Words as levelhead uses them, in pages, commands and documents."]
    for group in glossary():
        lines += ["", f"## {group.title}", "", "| word | it means |", "|---|---|"]
        lines += [f"| {term} | {meaning} |" for term, meaning in group.terms.items()]
    assert (DOCS / "glossary.md").read_text(encoding="utf-8") == "\n".join([*lines, ""])


def test_every_term_is_defined_once_in_a_short_sentence() -> None:
    terms = [term for group in glossary() for term in group.terms]
    assert len({term.casefold() for term in terms}) == len(terms) >= 40
    for group in glossary():
        for meaning in group.terms.values():
            assert meaning.endswith(".")
            assert len(meaning) <= 170
            assert len(re.findall(r"[.?!](?= [A-Z]|$)", meaning)) <= 2, meaning


def test_what_an_audit_says_of_mitigations_is_explained() -> None:
    told = ["agreement", "agreement of names", "language sense", "fill-in gap", "passes", "certified"]
    told += ["certified on our items only", "outside", "mirror gap"]
    assert all(each in explained() for each in told)
