"""Reversible gender swapping of English text: swap(swap(x)) is x, and where it is not, the result says so.

Words are swapped by a table that is one to one (data/swap/words.tsv); her, his, him and hers by grammar (see
swap/rules.py). What has no counterpart, what may be a name, and what would not come back is reported,
never hidden. Words for a trait (feminine, manly) stay: a stereotype about a woman is an anti-stereotype about
a man only if the trait is the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from levelhead.errors import BadProbe
from levelhead.probes.swap.gendered import (
    PRONOUNS,
    Gender,
    exceptions_of,
    first_names,
    is_idle,
    name_pairing,
    pairing_of,
    pairings,
    part_of_name,
    read_table,
    traits,
    unknown_names,
    unpaired,
    usual,
)
from levelhead.probes.swap.gendered import name_pairs as name_pairs
from levelhead.probes.swap.rules import Around, around, is_determiner
from levelhead.probes.swap.tokens import MAY_BE_RARE, Token, tokenize

UNKNOWN_NAME = "looks like a name that is in no table: check that it fits both genders"
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
class Swapped:
    """A text with its genders swapped."""

    text: str
    changes: tuple[Change, ...] = ()
    problems: tuple[Problem, ...] = ()
    traits: tuple[str, ...] = ()  # words for a trait, which were kept on purpose

    def undo(self) -> str:
        """The text that came in, from the record of changes: exact even where swapping twice is not."""
        text = self.text
        for original, replacement, start in self.changes:
            # What stands before is restored already, so `start` holds in this text too.
            text = text[:start] + original + text[start + len(replacement) :]
        return text


class GenderedWord(NamedTuple):
    """A word that states a gender, and where it stands."""

    word: str
    start: int
    gender: Gender


# ---- swapping


def swap(text: str, *, names: bool = False) -> Swapped:
    """Swap the gender of every gendered word of an English text; with names=True, of common first names too.

    "The mother walked into her kitchen." -> "The father walked into his kitchen."
    """
    if not isinstance(text, str):
        raise BadProbe(
            f"swap takes one text (str), got {type(text).__name__}. For a list, swap each of them."
        )
    return _swap(text, names)


@lru_cache(maxsize=16_384)  # files repeat their target words and their contexts
def _swap(text: str, names: bool) -> Swapped:
    reading = read(text, names)
    if not reading.changes:
        return Swapped(text, (), reading.problems, reading.traits)
    problems = [*reading.problems, *strangers(text)]
    if not reading.comes_back:
        back = read(reading.text, names).text
        for here, there, again in zip(*map(tokenize, (text, reading.text, back)), strict=False):
            if here.text != again.text:
                way = f"became {there.text!r}, which swaps back to {again.text!r}"
                problems.append(Problem(here.text, here.start, f"{way}: use undo() for the way back"))
    problems.sort(key=lambda problem: problem.start)
    return Swapped(reading.text, reading.changes, tuple(problems), reading.traits)


def strangers(text: str) -> tuple[Problem, ...]:
    """Words that seem to be names and are in no table: only a reader can say whether they fit the
    counterfactual.

    swap() reports them where it changed something; a text without a change may belong to one that has some.
    """
    return tuple(Problem(token.text, token.start, UNKNOWN_NAME) for token in unknown_names(text))


def swap_text(text: str, names: bool = False) -> str:
    """Only the swapped text; swap() also says what was changed and what could not be."""
    return swap(text, names=names).text


# ---- which words have a gender


def pairs() -> tuple[tuple[str, str], ...]:
    """The words that are swapped wherever they stand, as (feminine, masculine).

    her, his, him and hers are not among them, since their counterparts depend on the sentence.
    """
    anywhere = ("", "cased", "not_upper")
    lines = read_table("words.tsv")
    return tuple((line["feminine"], line["masculine"]) for line in lines if line["guard"] in anywhere)


@cache
def gendered_words() -> frozenset[str]:
    """Every word that has a gender, in lower case."""
    return frozenset((*PRONOUNS, *pairings(), *unpaired()))


@cache
def noteworthy() -> frozenset[str]:
    """Every word that there may be something to say about, but for unknown names."""
    return gendered_words() | first_names().keys() | traits()


def gender_of(text: str) -> Literal["F", "M", "mixed"] | None:
    """The gender of a text's gendered words: F, M, mixed, or None. First names do not count."""
    genders = {each.gender for each in stated_genders(text)}
    return "mixed" if len(genders) > 1 else min(genders, default=None)


@lru_cache(maxsize=16_384)
def stated_genders(text: str, names: bool = False) -> tuple[GenderedWord, ...]:
    """The words of a text that state a gender, in order; with names=True, first names of the table too."""
    # to search for the words first is much faster than to read a text that has none
    words = gendered_words() | first_names().keys() if names else gendered_words()
    if words.isdisjoint(_LETTERS.findall(text.lower())):
        return ()
    tokens = tokenize(text)
    found: list[GenderedWord] = []
    for i, token in enumerate(tokens):
        word = token.lower
        if word not in noteworthy() or token.kind != "word":
            continue
        pairing, gender = None, None
        if word in PRONOUNS:
            gender = PRONOUNS[word]
        elif word not in gendered_words():
            pairing = name_pairing(tokens, i) if names else None
        elif not is_idle(tokens, i, word):
            pairing = pairing_of(tokens, i)
            gender = unpaired()[word][0] if not pairing and word in unpaired() else None
        if pairing and not part_of_name(tokens, i, pairing.kind):
            gender = pairing.gender
        if gender:
            found.append(GenderedWord(token.text, token.start, gender))
    return tuple(found)


# ---- reading a text


@dataclass(frozen=True, slots=True)
class Reading(Swapped):
    """One pass over a text: what its words become."""

    comes_back: bool | None = True  # whether swapping the result gives the text again; None: to be tried


def read(text: str, names: bool) -> Reading:
    """What becomes of a text; with names, of its first names too."""
    words = frozenset(_LETTERS.findall(text.lower()))
    present = words & noteworthy()
    if not present:
        return Reading(text)
    # Most texts have usual words alone, in small letters, or She and He. Replacing those needs no tokens, so
    # that files of a hundred thousand triples are read in a fraction of the time.
    if present <= usual().keys():
        exceptions = exceptions_of(present)
        verbs = exceptions.verbs is not None and exceptions.verbs.search(text)
        if not (verbs or MAY_BE_RARE.search(text) or any(phrase <= words for phrase in exceptions.phrases)):
            changes: list[Change] = []
            for match in exceptions.words.finditer(text):
                before, word, after = match.groups()
                replacement = usual().get(word) or _OPENERS.get(word)
                if replacement is None or before or after:  # another case, a contraction or a genitive
                    break
                changes.append(Change(word, replacement, match.start(2)))
            else:
                return Reading(_replaced(text, changes), tuple(changes))
    return _read_words(text, names)


def _replaced(text: str, changes: Sequence[Change]) -> str:
    pieces, end = [], 0
    for original, replacement, start in changes:
        pieces += [text[end:start], replacement]
        end = start + len(original)
    return "".join([*pieces, text[end:]])


def _read_words(text: str, names: bool) -> Reading:
    tokens = tokenize(text)
    changes: list[Change] = []
    problems: list[Problem] = []
    way_back: list[bool | None] = []
    for i, token in enumerate(tokens):
        if token.lower not in noteworthy() or token.kind != "word":
            continue
        verdict, comes_back = _verdict(tokens, i, names)
        if isinstance(verdict, Problem):
            problems.append(verdict)
        elif verdict is not None:
            # ladies' and gentlemen's: the one case in which the genitive is written otherwise than before
            rest = tokens[i + 1 : i + 3]
            mark = rest[0].text if len(rest) == 2 and not rest[0].gap and rest[1].gap else ""
            old, new, written = token.lower, verdict.lower(), (token.text, verdict)
            if mark in ("'", "’") and old.endswith("s") and new.endswith("men"):
                s = "S" if token.text.isupper() else "s"
                written = (token.text + mark, verdict + mark + s)
            elif mark[1:].lower() == "s" and old.endswith("men") and new.endswith("s"):
                written = (token.text + mark, verdict + mark[0])
            changes.append(Change(*written, token.start))
            way_back.append(comes_back)
    kept = tuple(token.text for token in tokens if token.lower in traits())
    comes_back = None if None in way_back else all(way_back)
    return Reading(_replaced(text, changes), tuple(changes), tuple(problems), kept, comes_back)


def _verdict(tokens: Sequence[Token], i: int, names: bool) -> tuple[str | Problem | None, bool | None]:
    """What becomes of one word, its replacement, a problem, or nothing; and whether it would come back.

    For pronouns and usual words that can be said at once, since the rules read a text and its counterfactual
    alike; None for other words, whose counterparts may be something else to the rules.
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
    # A noun or a name that has a capital, a guard, or no counterpart that leads back.
    reason = ""
    if pairing := pairing_of(tokens, i) or name_pairing(tokens, i):
        if part_of_name(tokens, i, pairing.kind):
            reason = "looks like part of a name"
        elif pairing.kind == "name" and not names:
            reason = "a first name: pass names=True to swap it"
        else:
            return _recase(token, pairing.replacement), None
    elif word in unpaired():
        reason = f"no counterpart: {unpaired()[word][1]}"
    return Problem(token.text, token.start, reason) if reason else None, None


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
