"""Technical words of a report with their definitions: on hover where they stand, and in a list at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping

from levelhead.pages.blocks import Points, Section
from levelhead.pages.names import Piece
from levelhead.pages.tables import words

GLOSSARY: Mapping[str, str] = {
    "SEAT": "effect size of an association of two groups of words with stereotypes: 0 is none, 2 the most",
    "LPBS": "how much a word raises one group's word over the other's at a blank: 0 is none",
    "log-odds": "the logarithm of the odds of two answers: 0 is even, 0.7 is twice the odds",
    "perplexity": "how surprised a model is by plain text, per token: lower is better",
    "attention head": "one of the parallel parts of a layer that decide which words a word looks at",
    "heads": "attention heads: the parallel parts of a layer that decide which words a word looks at",
    "gate": "the number that a head's output is multiplied with: 1 leaves it, 0 removes it",
    "projection": "a direction of the group difference taken out of a model's vectors",
    "interval": "a range that covers the value in 95 of 100 repetitions with other items of this kind",
    "models without meaning": "the same weights with words dealt out anew (null models): what chance shows",
    "model without meaning": "the same weights with words dealt out anew (null model): what chance shows",
    "null models": "the same weights with words dealt out anew: what chance shows",
    "Holm": "a correction for testing several claims at once",
    "held-out": "not used to fit or to choose anything",
    "certified": "shown on held-out items to lower the bias at no cost beyond its margin, with 5 % error",
    "Strength": "how far stereotypes are preferred in the most biased tenth of triples",
    "triples": "a context with a stereotypical, an anti-stereotypical and an unrelated next sentence",
    "stereotype": "what is commonly said about a group, true or not",
    "fairness": "accuracy times parity of inferences about occupations: 1 is fair",
    "untouched": "as the model was loaded, without any change",
    "neutral value": "the value of a model without this bias",
}
_PATTERN = re.compile(
    rf"(?<!\w)({'|'.join(re.escape(term) for term in sorted(GLOSSARY, key=len, reverse=True))})(?!\w)"
)


def defined(text: str) -> list[Piece]:
    """A text in pieces; the first time that a term stands in it, its definition is the piece's title."""
    pieces, seen = [], set[str]()
    for part in _PATTERN.split(text):
        title = "" if part in seen else GLOSSARY.get(part, "")
        seen.add(part)
        if part:
            pieces.append(Piece(part, title))
    return pieces


def glossary_section() -> Section:
    """All terms with their definitions."""
    items = [words(f"{term}: {meaning}.") for term, meaning in GLOSSARY.items()]
    return Section("glossary", "Words of this page", "What do the technical words mean?", "", [Points(items)])
