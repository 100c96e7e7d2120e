"""Reversible gender swapping of English text: swap(swap(x)) is x, and where it is not, the result says so.

Words are swapped by a table that is one to one (data/swap/words.tsv); her, his, him and hers by grammar (see
swap/rules.py). What has no counterpart, what looks like a name, and what would not come back is reported,
never hidden. Words for a trait (feminine, manly) stay: a stereotype about a woman is an anti-stereotype about
a man only if the trait is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from levelhead.errors import BadProbe
from levelhead.probes.swap.gendered import (
    PRONOUNS,
    Gender,
    is_idle,
    pairing_of,
    read_table,
    unpaired,
)
from levelhead.probes.swap.names import first_names, name_pairing, part_of_name, unknown_names
from levelhead.probes.swap.names import name_pairs as name_pairs
from levelhead.probes.swap.reading import (
    Change,
    Problem,
    gendered_words,
    has_any,
    not_reversible,
    places,
    read,
    returns,
)
from levelhead.probes.swap.tokens import Token, tokenize

UNKNOWN_NAME = "looks like a name that is in no table: check that it fits both genders"


@dataclass(frozen=True, slots=True)
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
    reading = read(text, names)
    if not reading.changes:
        return Swapped(text, (), reading.problems, reading.traits)
    problems = [*reading.problems, *strangers(text)]
    if not returns(text, reading, names):
        problems += not_reversible(text, reading.text, names)
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


class GenderedWord(NamedTuple):
    """A word that states a gender, and where it stands."""

    word: str
    start: int
    gender: Gender


def gender_of(text: str) -> Literal["F", "M", "mixed"] | None:
    """The gender of a text's gendered words: F, M, mixed, or None. First names do not count."""
    genders = {each.gender for each in stated_genders(text)}
    return "mixed" if len(genders) > 1 else min(genders, default=None)


def is_gendered(text: str) -> bool:
    """Whether a text has a gendered word; first names do not count."""
    return gender_of(text) is not None


@lru_cache(maxsize=1024)
def stated_genders(text: str, names: bool = False) -> tuple[GenderedWord, ...]:
    """The words of a text that state a gender, in order; with names=True, first names of the table too."""
    if not has_any(text, gendered_words() | first_names() if names else gendered_words()):
        return ()
    tokens = tokenize(text)
    found = ((tokens[i], _gender_at(tokens, i, names)) for i in places(tokens))
    return tuple(GenderedWord(token.text, token.start, gender) for token, gender in found if gender)


def _gender_at(tokens: Sequence[Token], i: int, names: bool) -> Gender | None:
    word = tokens[i].lower
    if word in PRONOUNS:
        return PRONOUNS[word]
    if names and word not in gendered_words() and (name := name_pairing(tokens, i)):
        return None if part_of_name(tokens, i, name.kind) else name.gender
    if word not in gendered_words() or is_idle(tokens, i, word):
        return None
    pairing = pairing_of(tokens, i)
    if pairing:
        return None if part_of_name(tokens, i, pairing.kind) else pairing.gender
    return unpaired()[word][0] if word in unpaired() else None
