"""The indefinite article by sound, not by letter: a nurse, an engineer, an hour, a unicorn, a CEO, an MC."""

from __future__ import annotations

import re
import unicodedata

_SILENT_H = ("hour", "honest", "honor", "honour", "heir")
# Vowel letters spoken with a consonant first, as in you-nicorn, you-ser, you-rologist, you-kulele, won-time.
_SPOKEN_WITH_CONSONANT = re.compile(
    r"uni(?:[tvcfqo]|sex|lat|lin)|u(?:s[aeu]|t[aeio]|r[aeio]|fo|ku|biq)|eu|ewe|oui|onc?e\b"
)
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


def with_article(phrase: str) -> str:
    """The phrase with its article: 'an architect'."""
    return f"{article(phrase)} {phrase}"
