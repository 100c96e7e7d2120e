"""What the words of a text become when its genders are swapped, and whether they would come back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from levelhead.probes.swap.gendered import (
    PRONOUNS,
    exceptions_of,
    is_idle,
    pairing_of,
    pairings,
    traits,
    unpaired,
    usual,
)
from levelhead.probes.swap.names import first_names, name_pairing, part_of_name
from levelhead.probes.swap.rules import is_determiner
from levelhead.probes.swap.surroundings import Around, around
from levelhead.probes.swap.tokens import MAY_BE_RARE, Token, tokenize

_LETTERS = re.compile(r"[a-zß-ÿ]+")  # those of our tables, in lower case
_OPENERS = {"She": "He", "He": "She"}  # certain words that often open a sentence


class Change(NamedTuple):
    """One word that was swapped, and where it stood in the text that came in."""

    original: str
    replacement: str
    start: int


class Problem(NamedTuple):
    """One word that was not swapped, or that would not swap back, and why."""

    word: str
    start: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One pass over a text: what its words become."""

    text: str
    changes: tuple[Change, ...] = ()
    problems: tuple[Problem, ...] = ()
    traits: tuple[str, ...] = ()
    comes_back: bool | None = (
        True  # whether swapping the result gives the text again; None: it has to be tried
    )


def read(text: str, names: bool) -> Reading:
    """What becomes of a text; with names, of its first names too."""
    words = frozenset(_LETTERS.findall(text.lower()))
    present = words & noteworthy()
    if not present:
        return Reading(text)
    quick = _read_usual(text, words, present) if present <= usual().keys() else None
    return quick or _read_words(text, names)


def returns(text: str, reading: Reading, names: bool) -> bool:
    """Whether swapping the result of a reading gives the text again."""
    if reading.comes_back is not None:
        return reading.comes_back
    return read(reading.text, names).text == text


def not_reversible(text: str, swapped: str, names: bool) -> Iterator[Problem]:
    """The words of a text that do not come back when it is swapped twice."""
    back = read(swapped, names).text
    for here, there, again in zip(tokenize(text), tokenize(swapped), tokenize(back), strict=False):
        if here.text != again.text:
            way = f"became {there.text!r}, which swaps back to {again.text!r}"
            yield Problem(here.text, here.start, f"{way}: use undo() for the way back")


@cache
def gendered_words() -> frozenset[str]:
    """Every word that has a gender, in lower case."""
    return frozenset((*PRONOUNS, *pairings(), *unpaired()))


@cache
def noteworthy() -> frozenset[str]:
    """Every word that there may be something to say about, but for unknown names."""
    return gendered_words() | first_names() | traits()


def has_any(text: str, words: AbstractSet[str]) -> bool:
    """Whether a text has one of these words at all, which is much faster to say than to read it."""
    return not words.isdisjoint(_LETTERS.findall(text.lower()))


def places(tokens: Sequence[Token]) -> list[int]:
    """Where the noteworthy words stand."""
    words = noteworthy()
    return [i for i, token in enumerate(tokens) if token.lower in words and token.kind == "word"]


def _read_usual(text: str, words: frozenset[str], present: frozenset[str]) -> Reading | None:
    """The reading of a text all of whose gendered words are usual ones in small letters, or She and He.

    Most texts are like that, and replacing their words needs no tokens, so that files of a hundred thousand
    triples are read in a fraction of the time. None: the text has to be read word by word.
    """
    exceptions = exceptions_of(present)
    verbs = exceptions.verbs is not None and exceptions.verbs.search(text)
    if verbs or MAY_BE_RARE.search(text) or any(phrase <= words for phrase in exceptions.phrases):
        return None
    changes: list[Change] = []
    pieces: list[str] = []
    end = 0
    for match in _pattern_of(present).finditer(text):
        before, word, after = match.groups()
        replacement = usual().get(word) or _OPENERS.get(word)
        if replacement is None or before or after:  # another case, a contraction or a genitive
            return None
        changes.append(Change(word, replacement, match.start(2)))
        pieces += [text[end : match.start(2)], replacement]
        end = match.end(2)
    return Reading("".join(pieces) + text[end:], tuple(changes))


@lru_cache(maxsize=1024)
def _pattern_of(words: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"(['’]?)\b({'|'.join(sorted(words))})\b(['’]?)", re.IGNORECASE)


def _read_words(text: str, names: bool) -> Reading:
    tokens = tokenize(text)
    changes: list[Change] = []
    problems: list[Problem] = []
    way_back: list[bool | None] = []
    for i in places(tokens):
        verdict, comes_back = _verdict(tokens, i, names)
        if isinstance(verdict, Problem):
            problems.append(verdict)
        elif verdict is not None:
            changes.append(_with_genitive(tokens, i, verdict))
            way_back.append(comes_back)
    pieces: list[str] = []
    end = 0
    for original, replacement, start in changes:
        pieces += [text[end:start], replacement]
        end = start + len(original)
    kept = tuple(token.text for token in tokens if token.lower in traits())
    swapped = "".join(pieces) + text[end:]
    return Reading(
        swapped, tuple(changes), tuple(problems), kept, None if None in way_back else all(way_back)
    )


def _verdict(tokens: Sequence[Token], i: int, names: bool) -> tuple[str | Problem | None, bool | None]:
    """What becomes of one word, its replacement, a problem, or nothing; and whether it would come back.

    For pronouns and usual words that can be said at once, since the rules read a text and its twin alike;
    None for other words, whose counterparts may be something else to the rules.
    """
    token = tokens[i]
    word = token.lower
    if word in PRONOUNS:
        there = around(tokens, i)
        counterpart = _counterpart(word, there)
        return _recase(token, counterpart), _counterpart(counterpart, there) == word
    if word in ("she", "he"):
        return _recase(token, usual()[word]), True
    if word in gendered_words() and is_idle(tokens, i, word):
        return None, None
    if token.text in usual():
        return usual()[word], not is_idle(tokens, i, usual()[word])
    return _noun(tokens, i, names), None


def _noun(tokens: Sequence[Token], i: int, names: bool) -> str | Problem | None:
    """What becomes of a noun or a name that has a capital, a guard, or no counterpart that leads back."""
    token = tokens[i]
    pairing = pairing_of(tokens, i) or name_pairing(tokens, i)
    if pairing is None:
        reason = f"no counterpart: {unpaired()[token.lower][1]}" if token.lower in unpaired() else ""
        return Problem(token.text, token.start, reason) if reason else None
    reason = _reason_to_leave(tokens, i, pairing.kind, names)
    return Problem(token.text, token.start, reason) if reason else _recase(token, pairing.replacement)


def _reason_to_leave(tokens: Sequence[Token], i: int, kind: str, names: bool) -> str:
    if part_of_name(tokens, i, kind):
        return "looks like part of a name"
    return "a first name: pass names=True to swap it" if kind == "name" and not names else ""


def _counterpart(pronoun: str, there: Around) -> str:
    if pronoun == "him":
        return "her"
    if pronoun == "hers":
        return "his"
    determiner = is_determiner(pronoun, there)
    if pronoun == "her":
        return "his" if determiner else "him"
    return "her" if determiner else "hers"


def _recase(token: Token, replacement: str) -> str | Problem:
    if token.text.islower():
        return replacement.lower()
    if token.titled:
        return replacement[0].upper() + replacement[1:].lower()
    if token.text.isupper():
        return replacement.upper()
    return Problem(token.text, token.start, "capitals inside the word: no way to write its counterpart alike")


def _with_genitive(tokens: Sequence[Token], i: int, replacement: str) -> Change:
    """ladies' <-> gentlemen's: the one case in which the genitive is written otherwise than before."""
    token = tokens[i]
    mark = tokens[i + 1] if i + 2 < len(tokens) and not tokens[i + 1].gap and tokens[i + 2].gap else None
    old, new = token.lower, replacement.lower()
    if mark and mark.text in ("'", "’") and old.endswith("s") and new.endswith("men"):
        s = "S" if token.text.isupper() else "s"
        return Change(token.text + mark.text, replacement + mark.text + s, token.start)
    if mark and mark.text[1:].lower() == "s" and old.endswith("men") and new.endswith("s"):
        return Change(token.text + mark.text, replacement + mark.text[0], token.start)
    return Change(token.text, replacement, token.start)
