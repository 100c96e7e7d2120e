"""Words, numbers and signs of an English text, and the classes of words that the rules use."""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

from levelhead.probes.swap.tables import table_text

_ABBREVIATIONS = frozenset(("mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr"))  # they keep their full stop


def _pattern(letter: str, addresses: bool) -> re.Pattern[str]:
    """One group for a token: a word (don't, ma'am), a number (3rd, 1,000), a suffix ('s), or a sign."""
    suffix = r"['’](?i:s|d|ll|re|ve|m)(?!\w)"
    address = (
        r"https?://\S+ | www\.\S+ | [\w.]+@[\w.]+\w | @\w+ | [^\W_]+(?:_[^\W_]+)+ | \(s\)he\b | \bs/he\b |"
    )
    return re.compile(
        rf"""({address if addresses else ""}
            {letter}++(?!\d)(?:(?!{suffix})['’]{letter}++)*
            | [^\W_]*\d(?:[\d.,]*\d)?[^\W_]*
            | (?<={letter}){suffix}
            | [^\w\s] | _)""",
        re.VERBOSE,
    )


_ANY_LETTER = r"[^\W\d_]"
_ASCII = _pattern("[A-Za-z]", addresses=False)  # twice as fast as the next one
_UNICODE = _pattern(_ANY_LETTER, addresses=False)
_RARE = _pattern(_ANY_LETTER, addresses=True)
_ADDRESS_SIGN = re.compile(r"[@_/()]|^www\.")
MAY_BE_RARE = re.compile(r"[@_/]|www\.|\(s\)")


class Token(NamedTuple):
    """A word, number or sign, and where it stands in the text."""

    text: str
    lower: str
    start: int
    kind: str  # word, number, suffix ('s), sign, other
    gap: str  # the white space before it

    @property
    def titled(self) -> bool:
        """First letter large, the others small: "Her", "Mr."."""
        letters = self.text.rstrip(".")
        return letters[:1].isupper() and (len(letters) == 1 or letters[1:].islower())


@lru_cache(
    maxsize=64
)  # a text is read several times in a row: for its gender, for its counterfactual, for names
def tokenize(text: str) -> tuple[Token, ...]:
    """All tokens of a text in order; with their gaps they are the text, but for white space at its end."""
    pattern = _RARE if MAY_BE_RARE.search(text) else _ASCII if text.isascii() else _UNICODE
    # One split into gap, token, gap, token, … is several times faster than one match object a token.
    pieces = pattern.split(text)
    gaps, words, starts = pieces[:-1:2], pieces[1::2], list(accumulate(map(len, pieces)))[::2]
    lower = [word.lower() for word in words]
    tokens = tuple(map(Token, words, lower, starts, map(_kind, words), gaps))
    if _ABBREVIATIONS.isdisjoint(lower):
        return tokens
    joined: list[Token] = []
    for token in tokens:
        if token.text == "." and not token.gap and joined and joined[-1].lower in _ABBREVIATIONS:
            before = joined.pop()
            token = before._replace(text=before.text + ".", lower=before.lower + ".")
        joined.append(token)
    return tuple(joined)


@lru_cache(maxsize=1 << 16)
def _kind(token: str) -> str:
    if token.isalpha():
        return "word"
    if len(token) == 1:
        return "number" if token.isnumeric() else "sign"
    if token[0] in "'’":
        return "suffix"
    if _ADDRESS_SIGN.search(token):
        return "other"
    return "number" if any(character.isdecimal() for character in token) else "word"


@cache
def classes() -> dict[str, frozenset[str]]:
    """The word classes of grammar.toml by name."""
    sections = tomllib.loads(table_text("grammar.toml"))
    return {
        name: frozenset(words.split()) for section in sections.values() for name, words in section.items()
    }


@lru_cache(maxsize=1 << 16)  # the rules ask the same of the same words again and again
def belongs(word: str, *names: str) -> bool:
    """Whether a lower-case word is in one of these classes."""
    return any(word in classes()[name] for name in names)


def is_ly_adverb(word: str) -> bool:
    """Whether a lower-case word is an adverb in -ly: kindly, but not family."""
    return word.endswith("ly") and len(word) > 3 and not belongs(word, "ly_noun")
