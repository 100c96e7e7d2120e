"""Which words carry gender, what their counterparts are, and where they carry none.

The tables are in data/swap: words.tsv (one to one under each guard), one_way.tsv (words that share a
counterpart), unpaired.tsv (words that have none), phrases.txt (where a word names nobody's gender), names.tsv
and guards.toml.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from levelhead.probes import DATA
from levelhead.probes.swap.english import Token, classes, tokenize

Gender = Literal["F", "M"]

PRONOUNS: dict[str, Gender] = {"her": "F", "hers": "F", "his": "M", "him": "M"}  # those that grammar decides

_DATA = DATA / "swap"


@dataclass(frozen=True)
class Pairing:
    """A gendered word's counterpart: one direction of a line of the tables."""

    replacement: str
    gender: Gender  # of the word that is replaced
    kind: str
    guard: str


def read_table(file: str) -> list[dict[str, str]]:
    """The lines of a table of data/swap, each by column."""
    with (_DATA / file).open(encoding="utf-8", newline="") as lines:
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
def _names() -> dict[str, Pairing]:
    lines = read_table("names.tsv")
    feminine = {line["feminine"].lower(): Pairing(line["masculine"], "F", "name", "") for line in lines}
    masculine = {line["masculine"].lower(): Pairing(line["feminine"], "M", "name", "") for line in lines}
    return feminine | masculine


@cache
def unpaired() -> dict[str, tuple[Gender, str]]:
    """Gendered words without a counterpart: their gender, and why there is none."""
    lines = read_table("unpaired.tsv")
    return {line["word"]: ("F" if line["gender"] == "F" else "M", line["reason"]) for line in lines}


@cache
def _phrases() -> dict[str, list[tuple[list[str], int]]]:
    """Gendered words with the phrases in which they are left alone, each with the word's place in it."""
    phrases: dict[str, list[tuple[list[str], int]]] = {}
    for line in (_DATA / "phrases.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            words = line.split()
            place = next(k for k, word in enumerate(words) if word.startswith("["))
            words[place] = words[place].strip("[]")
            phrases.setdefault(words[place], []).append((words, place))
    return phrases


@cache
def _guard_words() -> dict[str, frozenset[str]]:
    lists = tomllib.loads((_DATA / "guards.toml").read_text(encoding="utf-8"))
    return {name: frozenset(words.split()) for name, words in lists.items()}


def in_phrase(tokens: Sequence[Token], i: int) -> bool:
    """Whether tokens[i] stands in a phrase in which it names nobody's gender."""

    def holds(words: list[str], place: int) -> bool:
        first = i - place
        there = tokens[max(first, 0) : first + len(words)]
        return first >= 0 and [t.text.lower().replace("’", "'") for t in there] == words

    return any(holds(words, place) for words, place in _phrases().get(tokens[i].text.lower(), ()))


def names_nobody(text: str, start: int) -> bool:
    """Whether the gendered word at this character says nothing about anyone: a bachelor's degree, the PA."""
    tokens = tokenize(text)
    i = next((i for i, token in enumerate(tokens) if token.start == start), None)
    if i is None:
        return False
    letters = tokens[i].text
    return in_phrase(tokens, i) or (letters.isupper() and len(letters) == 2 and not text.isupper())


def name_pairing(token: Token) -> Pairing | None:
    """The counterpart of a capitalized first name."""
    return None if token.text.islower() else _names().get(token.text.lower())


def pairing_of(tokens: Sequence[Token], i: int) -> Pairing | None:
    """The first pairing of tokens[i] whose guard holds where it stands."""
    candidates = pairings().get(tokens[i].text.lower(), ())
    return next((each for each in candidates if not each.guard or _GUARDS[each.guard](tokens, i)), None)


def _neighbor(tokens: Sequence[Token], i: int) -> Token | None:
    """tokens[i] if it is a word that follows the one before it with nothing but a space between."""
    if not 0 < i < len(tokens):
        return None
    both_words = tokens[i].kind == tokens[i - 1].kind == "word"
    return tokens[i] if both_words and tokens[i].gap else None


def _is_title(tokens: Sequence[Token], i: int) -> bool:
    following = _neighbor(tokens, i + 1)
    return tokens[i].titled and following is not None and following.titled


def _is_office(tokens: Sequence[Token], i: int) -> bool:
    return _is_title(tokens, i) and tokens[i + 1].text.lower() in _guard_words()["offices"]


def _is_address(tokens: Sequence[Token], i: int) -> bool:
    after_my = _neighbor(tokens, i) is not None and tokens[i - 1].text.lower() == "my"
    return after_my and _neighbor(tokens, i + 1) is None


_GUARDS: dict[str, Callable[[Sequence[Token], int], bool]] = {
    "title": _is_title,
    "untitled": lambda tokens, i: not _is_title(tokens, i),
    "office": _is_office,
    "address": _is_address,
    "cased": lambda tokens, i: tokens[i].titled or tokens[i].text.endswith("."),
    "lower": lambda tokens, i: tokens[i].text.islower(),
    "not_upper": lambda tokens, i: not tokens[i].text.isupper(),
}


def part_of_name(tokens: Sequence[Token], i: int, kind: str) -> bool:
    """Whether a capitalized word belongs to a name: Stephen King, Iron Man, Dr. Prince, Duke University."""
    if not tokens[i].titled or kind == "pronoun" or tokens[i].text.endswith("."):
        return False
    words = _guard_words()
    following = _neighbor(tokens, i + 1)
    if following and following.titled and following.text.lower() in words["before_places"]:
        return True
    if _neighbor(tokens, i) is None or not tokens[i - 1].titled:
        return False
    before = tokens[i - 1].text.lower()
    if before in words["before_surnames"]:
        return True
    plain = (words["introducers"], classes()["closed"], PRONOUNS, pairings())
    if any(before in group for group in plain):
        return False
    opens = i < 2 or tokens[i - 2].kind in ("sign", "suffix")  # its capital may be that of the sentence
    return not opens or before in _names()
