"""Which words carry gender, what their counterparts are, and where they carry none.

The tables are in data/swap: words.tsv (one to one under each guard), one_way.tsv (words that share a
counterpart), unpaired.tsv (words that have none), traits.tsv (words for a trait, which stay), phrases.txt
(where a word names nobody's gender).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from levelhead.probes.swap.tables import table_text
from levelhead.probes.swap.tokens import Token, belongs, classes, tokenize

Gender = Literal["F", "M"]

PRONOUNS: dict[str, Gender] = {"her": "F", "hers": "F", "his": "M", "him": "M"}  # those that grammar decides
SENTENCE_ENDS = frozenset(".!?:;…")


@dataclass(frozen=True)
class Pairing:
    """A gendered word's counterpart: one direction of a line of the tables."""

    replacement: str
    gender: Gender  # of the word that is replaced
    kind: str
    guard: str


def read_table(file: str) -> list[dict[str, str]]:
    """The lines of a table of data/swap, each by column."""
    lines = table_text(file).splitlines()
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def pairings() -> dict[str, tuple[Pairing, ...]]:
    """Every gendered word with its pairings, guarded ones before the plain one, as in the file."""
    by_word: dict[str, tuple[Pairing, ...]] = {}

    def add(word: str, pairing: Pairing) -> None:
        by_word[word.lower()] = (*by_word.get(word.lower(), ()), pairing)

    for line in read_table("words.tsv"):
        add(line["feminine"], Pairing(line["masculine"], "F", line["kind"], line["guard"]))
        add(line["masculine"], Pairing(line["feminine"], "M", line["kind"], line["guard"]))
    for line in read_table("one_way.tsv"):
        gender: Gender = "F" if line["gender"] == "F" else "M"
        add(line["word"], Pairing(line["replacement"], gender, "one way", line["guard"]))
    return by_word


@cache
def usual() -> dict[str, str]:
    """Words with one counterpart wherever they stand, which leads back to them, but for exceptions_of."""
    counterparts = {
        word: paired[0].replacement
        for word, paired in pairings().items()
        if len(paired) == 1 and not paired[0].guard
    }
    return {word: other for word, other in counterparts.items() if counterparts.get(other) == word}


class Exceptions(NamedTuple):
    """What may keep usual words from being swapped, or their counterparts from being swapped back."""

    phrases: tuple[frozenset[str], ...]  # the other words of phrases in which one of them is left alone
    verbs: re.Pattern[str] | None  # one of them where it may be a verb


@lru_cache(maxsize=1024)
def exceptions_of(words: frozenset[str]) -> Exceptions:
    """The exceptions for these usual words and their counterparts."""
    both = words | {usual()[word] for word in words}
    phrases = tuple(
        frozenset(other for k, other in enumerate(phrase) if k != place and other.isalpha())
        for word in both
        for phrase, place in _phrases().get(word, ())
    )
    verbs = sorted(word for word in words if not {word, usual()[word]}.isdisjoint(classes()["noun_or_verb"]))
    determiners = sorted(filter(str.isalpha, (*PRONOUNS, *classes()["article"], *classes()["amount"])))
    verb, subject, follows = "|".join(verbs), "|".join(classes()["third_person"]), "|".join(determiners)
    pattern = rf"\b(?:(?:{subject})\s+(?:{verb})|(?:{verb})\s+(?:{follows}))\b"
    return Exceptions(phrases, re.compile(pattern, re.IGNORECASE) if verbs else None)


@cache
def unpaired() -> dict[str, tuple[Gender, str]]:
    """Gendered words without a counterpart: their gender, and why there is none."""
    lines = read_table("unpaired.tsv")
    return {line["word"]: ("F" if line["gender"] == "F" else "M", line["reason"]) for line in lines}


@cache
def traits() -> frozenset[str]:
    """Words for a trait: feminine, manly. They say how a person is, not whether it is a woman or a man."""
    return frozenset(word for line in read_table("traits.tsv") for word in line.values())


@cache
def _phrases() -> dict[str, list[tuple[list[str], int]]]:
    """Gendered words with the phrases in which they are left alone, each with the word's place in it."""
    phrases: dict[str, list[tuple[list[str], int]]] = {}
    for line in table_text("phrases.txt").splitlines():
        if line and not line.startswith("#"):
            words = line.split()
            place = next(k for k, word in enumerate(words) if word.startswith("["))
            words[place] = words[place].strip("[]")
            phrases.setdefault(words[place], []).append((words, place))
    return phrases


def gender_of_word(word: str) -> Gender | None:
    """The gender of a lower-case word that is swapped; None for every other word."""
    paired = pairings().get(word)
    return paired[0].gender if paired else None


def in_phrase(tokens: Sequence[Token], i: int, word: str) -> bool:
    """Whether this word in the place of tokens[i] stands in a phrase in which it names nobody's gender."""

    def holds(words: list[str], place: int) -> bool:
        first = i - place
        there = [t.lower.replace("’", "'") for t in tokens[max(first, 0) : first + len(words)]]
        return first >= 0 and [*there[:place], word, *there[place + 1 :]] == words

    return any(holds(words, place) for words, place in _phrases().get(word, ()))


def is_verb(tokens: Sequence[Token], i: int, word: str) -> bool:
    """Whether this word in the place of tokens[i] is a verb that looks like a noun: groom your hair.

    The base form follows to, a modal, I, you, we, they, or opens the clause, and an object with a determiner
    comes after it; the form in -s follows a nominative, which no noun does.
    """
    if not belongs(word, "noun_or_verb"):
        return False
    before = tokens[i - 1].lower if neighbor(tokens, i) else ""
    if word.endswith("s"):
        return belongs(before, "third_person")
    following = neighbor(tokens, i + 1)
    has_object = following is not None and (
        following.lower in PRONOUNS or belongs(following.lower, "article", "amount")
    )
    return has_object and (before == "" or belongs(before, "before_verb"))


def is_idle(tokens: Sequence[Token], i: int, word: str) -> bool:
    """Whether this gendered word in the place of tokens[i] says nothing about anyone's gender."""
    return in_phrase(tokens, i, word) or is_verb(tokens, i, word)


def names_nobody(text: str, start: int) -> bool:
    """Whether the gendered word at this character says nothing about anyone: a bachelor's degree, the PA."""
    tokens = tokenize(text)
    i = next((i for i, token in enumerate(tokens) if token.start == start), None)
    if i is None:
        return False
    letters = tokens[i].text
    initials = letters.isupper() and len(letters) == 2 and not text.isupper()
    return initials or is_idle(tokens, i, tokens[i].lower)


def pairing_of(tokens: Sequence[Token], i: int) -> Pairing | None:
    """The first pairing of tokens[i] whose guard holds where it stands."""
    candidates = pairings().get(tokens[i].lower, ())
    return next((each for each in candidates if not each.guard or _GUARDS[each.guard](tokens, i)), None)


def opens_sentence(tokens: Sequence[Token], i: int) -> bool:
    """Whether tokens[i] owes its capital to a sentence that begins with it."""
    k = i - 1
    while k >= 0 and tokens[k].kind == "sign" and tokens[k].text not in SENTENCE_ENDS:
        k -= 1
    quoted = k < i - 1
    if k < 0 or tokens[k].text in SENTENCE_ENDS or "\n\n" in tokens[i].gap:
        return True
    return quoted and tokens[i - 1].text in "\"“'‘([" and not tokens[i].gap


def neighbor(tokens: Sequence[Token], i: int) -> Token | None:
    """tokens[i] if it is a word that follows the one before it with nothing but a space between."""
    if not 0 < i < len(tokens):
        return None
    both_words = tokens[i].kind == tokens[i - 1].kind == "word"
    return tokens[i] if both_words and tokens[i].gap else None


def _is_title(tokens: Sequence[Token], i: int) -> bool:
    following = neighbor(tokens, i + 1)
    return tokens[i].titled and following is not None and following.titled


def _is_office(tokens: Sequence[Token], i: int) -> bool:
    return _is_title(tokens, i) and belongs(tokens[i + 1].lower, "office")


def _is_address(tokens: Sequence[Token], i: int) -> bool:
    after_my = neighbor(tokens, i) is not None and tokens[i - 1].lower == "my"
    return after_my and neighbor(tokens, i + 1) is None


def _is_common(tokens: Sequence[Token], i: int) -> bool:
    return tokens[i].text.islower() or opens_sentence(tokens, i)


_GUARDS: dict[str, Callable[[Sequence[Token], int], bool]] = {
    "title": _is_title,
    "untitled": lambda tokens, i: not _is_title(tokens, i),
    "office": _is_office,
    "address": _is_address,
    "cased": lambda tokens, i: tokens[i].titled or tokens[i].text.endswith("."),
    "lower": lambda tokens, i: tokens[i].text.islower(),
    "common": _is_common,
    "not_upper": lambda tokens, i: not tokens[i].text.isupper(),
}
