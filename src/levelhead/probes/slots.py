"""Sentence templates with named slots, "They met a {job} who knew {attribute}.", and how they are filled.

Words are addressed by characters: text[span[0]:span[1]] is the word, whatever tokenizer reads the text. The
indefinite article goes by sound, not by letter: a nurse, an engineer, an hour, a unicorn, a CEO, an MC.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from levelhead.probes import DATA

Span = tuple[int, int]  # first character, one past the last

SLOT = re.compile(r"\{(\w+)\}")
ARTICLE = re.compile(r"\b([Aa])n? $")
_THE_SLOT = re.compile(r"\bthe \{(\w+)\}")
_SILENT_H = ("hour", "honest", "honor", "honour", "heir")
# Vowel letters spoken with a consonant first, as in you-nicorn, you-ser, you-rologist, you-kulele, won-time.
_SPOKEN_WITH_CONSONANT = re.compile(
    r"uni(?:[tvcfqo]|sex|lat|lin)|u(?:s[aeu]|t[aeio]|r[aeio]|fo|ku|biq)|eu|ewe|oui|onc?e\b"
)
# Nouns that stand without an article: "she asked about algebra", not "about the algebra".
_BARE_NOUNS = frozenset((DATA / "sentences" / "bare.txt").read_text(encoding="utf-8").split())
_LETTER_NAMES_WITH_VOWEL = frozenset("AEFHILMNORSX")  # "an F", "an M", but "a C", "a U"


def article(phrase: str) -> str:
    """'a' or 'an' as the phrase is spoken; a first word in capitals is spelled out letter by letter."""
    first = re.split(r"[\s-]", phrase.strip())[0]
    if first.isupper():
        return "an" if first[0] in _LETTER_NAMES_WITH_VOWEL else "a"
    spoken = unicodedata.normalize("NFD", first).casefold()  # an étude: the accent comes off
    if spoken.startswith(_SILENT_H):
        return "an"
    if _SPOKEN_WITH_CONSONANT.match(spoken):
        return "a"
    return "an" if spoken.startswith(tuple("aeiou")) else "a"


def without_the(template: str, words: Mapping[str, str]) -> str:
    """The template without "the" before slots for names and bare nouns: "the children", "NASA", "algebra"."""
    bare = {slot for slot, word in words.items() if word[:1].isupper() or word in _BARE_NOUNS}
    return _THE_SLOT.sub(lambda slot: f"{{{slot[1]}}}" if slot[1] in bare else slot[0], template)


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
