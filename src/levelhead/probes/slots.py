"""Sentence templates with named slots, "They met a {job} who knew {attribute}.", and how they are filled.

Words are addressed by characters: text[span[0]:span[1]] is the word, whatever tokenizer reads the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from levelhead.probes import DATA
from levelhead.probes.articles import article

Span = tuple[int, int]  # first character, one past the last

SLOT = re.compile(r"\{(\w+)\}")
ARTICLE = re.compile(r"\b([Aa])n? $")
_THE_SLOT = re.compile(r"\bthe \{(\w+)\}")


@cache
def bare_nouns() -> frozenset[str]:
    """Nouns that stand without an article: "she asked about algebra", not "about the algebra"."""
    return frozenset((DATA / "sentences" / "bare.txt").read_text(encoding="utf-8").split())


def without_the(template: str, words: Mapping[str, str]) -> str:
    """The template without "the" before slots for names and bare nouns: "the children", "NASA", "algebra"."""

    def slot(match: re.Match[str]) -> str:
        word = words[match[1]]
        return f"{{{match[1]}}}" if word[0].isupper() or word in bare_nouns() else match[0]

    return _THE_SLOT.sub(slot, template)


def filled(template: str, words: Mapping[str, str]) -> tuple[str, dict[str, Span]]:
    """The template with a word in each slot, and where each word stands.

    "a" before a slot agrees with its word, and a slot that opens the sentence begins with a capital.
    """
    text, spans, last = "", dict[str, Span](), 0
    for slot in SLOT.finditer(template):
        text, last = text + template[last : slot.start()], slot.end()
        word = words[slot[1]]
        if ARTICLE.search(text) and article(word) == "an":
            text = ARTICLE.sub(r"\1n ", text)
        spans[slot[1]] = (len(text), len(text) + len(word))
        text += word if text else word[0].upper() + word[1:]
    return text + template[last:], spans
