"""Reversible gender swapping of English text: swap(swap(x)) is x, and where it is not, the result says so.

Words are swapped by a table that is one to one (data/swap/words.tsv); her, his, him and hers by grammar (see
swap/rules.py). What has no counterpart, what looks like a name, and what would not come back is reported,
never hidden. Words for a trait (feminine, manly) stay: a stereotype about a woman is an anti-stereotype about
a man only if the trait is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from levelhead.errors import BadProbe
from levelhead.probes.swap.gendered import (
    NOMINATIVES,
    PRONOUNS,
    Gender,
    certain,
    in_phrase,
    is_verb,
    pairing_of,
    pairings,
    read_table,
    traits,
    unpaired,
)
from levelhead.probes.swap.names import first_names, name_pairing, part_of_name, unknown_names
from levelhead.probes.swap.rules import is_determiner
from levelhead.probes.swap.surroundings import around
from levelhead.probes.swap.tokens import Token, tokenize

_LETTERS = re.compile(r"[a-zß-ÿ]+")  # those of our tables, in lower case
UNKNOWN_NAME = "looks like a name that is in no table: check that it fits both genders"


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


@dataclass(frozen=True)
class Swapped:
    """A text with its genders swapped."""

    text: str
    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]
    traits: tuple[str, ...] = ()  # words for a trait, which were kept on purpose

    def undo(self) -> str:
        """The text that came in, from the record of changes: exact even where swapping twice is not."""
        text = self.text
        for original, replacement, start in self.changes:
            # What stands before is restored already, so `start` holds in this text too.
            text = text[:start] + original + text[start + len(replacement) :]
        return text


@dataclass(frozen=True)
class _Reading:
    """One pass over a text: what its words become."""

    text: str
    changes: tuple[Change, ...] = ()
    problems: tuple[Problem, ...] = ()
    traits: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()
    places: tuple[int, ...] = ()  # of the changed words among them


def swap(text: str, *, names: bool = False) -> Swapped:
    """Swap the gender of every gendered word of an English text; with names=True, of common first names too.

    "The mother walked into her kitchen." -> "The father walked into his kitchen."
    """
    if not isinstance(text, str):
        raise BadProbe(
            f"swap takes one text (str), got {type(text).__name__}. For a list, swap each of them."
        )
    return _swap(text, names)


@lru_cache(maxsize=1024)  # files repeat their target words and their contexts
def _swap(text: str, names: bool) -> Swapped:
    reading = _read(text, names)
    if not reading.changes:
        return Swapped(text, (), reading.problems, reading.traits)
    problems = [*reading.problems, *strangers(text)]
    if not _comes_back(text, reading, names):
        problems += _not_reversible(text, reading.text, names)
    problems.sort(key=lambda problem: problem.start)
    return Swapped(reading.text, reading.changes, tuple(problems), reading.traits)


def strangers(text: str) -> tuple[Problem, ...]:
    """Words that look like names and are in no table: only a reader can say whether they fit the twin.

    swap() reports them where it changed something; a text without a change may belong to one that has some.
    """
    return tuple(Problem(token.text, token.start, UNKNOWN_NAME) for token in unknown_names(text))


def swap_text(text: str, names: bool = False) -> str:
    """Only the swapped text; swap() also says what was changed and what could not be."""
    return swap(text, names=names).text


def pairs() -> tuple[tuple[str, str], ...]:
    """The words that are swapped wherever they stand, as (feminine, masculine).

    her, his, him and hers are not among them, since their counterparts depend on the sentence.
    """
    anywhere = ("", "cased", "not_upper")
    lines = read_table("words.tsv")
    return tuple((line["feminine"], line["masculine"]) for line in lines if line["guard"] in anywhere)


def gender_of(text: str) -> Literal["F", "M", "mixed"] | None:
    """The gender of a text's gendered words: F, M, mixed, or None. First names do not count."""
    genders = _genders(text)
    return "mixed" if len(genders) > 1 else min(genders, default=None)


def is_gendered(text: str) -> bool:
    """Whether a text has a gendered word; first names do not count."""
    return gender_of(text) is not None


@lru_cache(maxsize=1024)
def _genders(text: str) -> frozenset[Gender]:
    if not _has(text, _gendered_words()):
        return frozenset()
    tokens = tokenize(text)
    return frozenset(gender for i in _places(tokens) if (gender := _gender_at(tokens, i)) is not None)


def _gender_at(tokens: Sequence[Token], i: int) -> Gender | None:
    word = tokens[i].lower
    if word in PRONOUNS:
        return PRONOUNS[word]
    if word not in _gendered_words() or in_phrase(tokens, i) or is_verb(tokens, i):
        return None
    pairing = pairing_of(tokens, i)
    if pairing:
        return None if part_of_name(tokens, i, pairing.kind) else pairing.gender
    return unpaired()[word][0] if word in unpaired() else None


@cache
def _gendered_words() -> frozenset[str]:
    return frozenset((*PRONOUNS, *pairings(), *unpaired()))


@cache
def _noteworthy() -> frozenset[str]:
    """Every word that swap() may have something to say about, but for unknown names."""
    return _gendered_words() | first_names() | traits()


def _has(text: str, words: AbstractSet[str]) -> bool:
    """Whether a text has one of these words at all, which is much faster to say than to read it."""
    return not words.isdisjoint(_LETTERS.findall(text.lower()))


def _read(text: str, names: bool) -> _Reading:
    if not _has(text, _noteworthy()):
        return _Reading(text)
    tokens = tokenize(text)
    changes: list[Change] = []
    places: list[int] = []
    problems: list[Problem] = []
    for i in _places(tokens):
        verdict = _verdict(tokens, i, names)
        if isinstance(verdict, Problem):
            problems.append(verdict)
        elif verdict is not None:
            changes.append(_with_genitive(tokens, i, verdict))
            places.append(i)
    pieces: list[str] = []
    end = 0
    for original, replacement, start in changes:
        pieces += [text[end:start], replacement]
        end = start + len(original)
    kept = tuple(token.text for token in tokens if token.lower in traits())
    swapped = "".join(pieces) + text[end:]
    return _Reading(swapped, tuple(changes), tuple(problems), kept, tokens, tuple(places))


def _places(tokens: Sequence[Token]) -> list[int]:
    """Where the words stand that swap() may have something to say about."""
    noteworthy = _noteworthy()
    return [i for i, token in enumerate(tokens) if token.lower in noteworthy and token.kind == "word"]


def _comes_back(text: str, reading: _Reading, names: bool) -> bool:
    """Whether swapping the twin gives the text again.

    The twin's words stand where the text's do, so they need no second reading; where a change is more than a
    word (ladies' and gentlemen's, Mr. and Miss), the twin is read anew.
    """
    originals = [change.original for change in reading.changes]
    if all(word in certain() or word.lower() in NOMINATIVES for word in originals):
        return True
    twin = list(reading.tokens)
    for i, change in zip(reading.places, reading.changes, strict=True):
        if not (change.original.isalpha() and change.replacement.isalpha()):
            return _read(reading.text, names).text == text
        twin[i] = twin[i]._replace(text=change.replacement, lower=change.replacement.lower())
    expected = {i: reading.tokens[i].text for i in reading.places}
    verdicts = {i: _verdict(twin, i, names) for i in _places(twin)}
    return expected == {i: verdict for i, verdict in verdicts.items() if isinstance(verdict, str)}


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


def _verdict(tokens: Sequence[Token], i: int, names: bool) -> str | Problem | None:
    """What becomes of one word: its replacement, a problem, or nothing."""
    token = tokens[i]
    word = token.lower
    if word in PRONOUNS:
        return _recase(token, _counterpart(tokens, i))
    if word in certain() and (token.text == word or word in NOMINATIVES):
        return _recase(token, certain()[word])
    if word not in _gendered_words():
        pairing = name_pairing(token)
    elif in_phrase(tokens, i) or is_verb(tokens, i):
        return None
    else:
        pairing = pairing_of(tokens, i)
        if pairing is None and word in unpaired():
            return Problem(token.text, token.start, f"no counterpart: {unpaired()[word][1]}")
    if pairing is None:
        return None
    reason = _reason_to_leave(tokens, i, pairing.kind, names)
    return Problem(token.text, token.start, reason) if reason else _recase(token, pairing.replacement)


def _reason_to_leave(tokens: Sequence[Token], i: int, kind: str, names: bool) -> str:
    if part_of_name(tokens, i, kind):
        return "looks like part of a name"
    return "a first name: pass names=True to swap it" if kind == "name" and not names else ""


def _counterpart(tokens: Sequence[Token], i: int) -> str:
    word = tokens[i].lower
    if word == "him":
        return "her"
    if word == "hers":
        return "his"
    determiner = is_determiner(word, around(tokens, i))
    if word == "her":
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


def _not_reversible(text: str, swapped: str, names: bool) -> Iterator[Problem]:
    back = _read(swapped, names).text
    for here, there, again in zip(tokenize(text), tokenize(swapped), tokenize(back), strict=False):
        if here.text != again.text:
            way = f"became {there.text!r}, which swaps back to {again.text!r}"
            yield Problem(here.text, here.start, f"{way}: use undo() for the way back")
