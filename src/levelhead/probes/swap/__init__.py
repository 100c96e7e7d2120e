"""Reversible gender swapping of English text: swap(swap(x)) is x, and where it is not, the result says so.

Words are swapped by a table that is one to one (data/swap/words.tsv); her, his, him and hers by grammar (see
swap/english.py). What has no counterpart, what looks like part of a name, and what would not come back is
reported, never hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from levelhead.errors import BadProbe
from levelhead.probes.swap.english import NUMBER, PERSON, PRONOUN, Token, around, is_determiner, tokenize
from levelhead.probes.swap.gendered import (
    PRONOUNS,
    Gender,
    in_phrase,
    name_pairing,
    pairing_of,
    pairings,
    part_of_name,
    read_table,
    unpaired,
)


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
    swapped, changes, problems = _once(text, names)
    back = _once(swapped, names)[0]
    if back != text:
        problems = sorted([*problems, *_not_reversible(text, swapped, back)], key=lambda p: p.start)
    return Swapped(swapped, tuple(changes), tuple(problems))


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
    genders = set(_genders(text))
    if len(genders) > 1:
        return "mixed"
    return genders.pop() if genders else None


def is_gendered(text: str) -> bool:
    """Whether a text has a gendered word; first names do not count."""
    return gender_of(text) is not None


def _genders(text: str) -> Iterator[Gender]:
    tokens = tokenize(text)
    for i, token in enumerate(tokens):
        word = token.text.lower()
        if word in PRONOUNS:
            yield PRONOUNS[word]
        elif token.kind == "word" and not in_phrase(tokens, i):
            pairing = pairing_of(tokens, i)
            if pairing and not part_of_name(tokens, i, pairing.kind):
                yield pairing.gender
            elif not pairing and word in unpaired():
                yield unpaired()[word][0]


def _once(text: str, names: bool) -> tuple[str, list[Change], list[Problem]]:
    tokens = tokenize(text)
    changes: list[Change] = []
    problems: list[Problem] = []
    for i, token in enumerate(tokens):
        verdict = _verdict(tokens, i, names) if token.kind == "word" else None
        if isinstance(verdict, Problem):
            problems.append(verdict)
        elif verdict is not None:
            changes.append(_with_genitive(tokens, i, verdict))
    pieces: list[str] = []
    end = 0
    for original, replacement, start in changes:
        pieces += [text[end:start], replacement]
        end = start + len(original)
    return "".join(pieces) + text[end:], changes, problems


def _with_genitive(tokens: Sequence[Token], i: int, replacement: str) -> Change:
    """ladies' <-> gentlemen's: the one case in which the genitive is written otherwise than before."""
    token = tokens[i]
    mark = tokens[i + 1] if i + 2 < len(tokens) and not tokens[i + 1].gap and tokens[i + 2].gap else None
    old, new = token.text.lower(), replacement.lower()
    if mark and mark.text in ("'", "’") and old.endswith("s") and new.endswith("men"):
        s = "S" if token.text.isupper() else "s"
        return Change(token.text + mark.text, replacement + mark.text + s, token.start)
    if mark and mark.text[1:].lower() == "s" and old.endswith("men") and new.endswith("s"):
        return Change(token.text + mark.text, replacement + mark.text[0], token.start)
    return Change(token.text, replacement, token.start)


def _verdict(tokens: Sequence[Token], i: int, names: bool) -> str | Problem | None:
    """What becomes of one word: its replacement, a problem, or nothing."""
    token = tokens[i]
    word = token.text.lower()
    if word in PRONOUNS:
        return _recase(token, _counterpart(tokens, i))
    if in_phrase(tokens, i):
        return None
    pairing = pairing_of(tokens, i)
    if pairing is None and word in unpaired():
        return Problem(token.text, token.start, f"no counterpart: {unpaired()[word][1]}")
    pairing = pairing or name_pairing(token)
    if pairing is None:
        return None
    reason = _reason_to_leave(tokens, i, pairing.kind, names)
    return Problem(token.text, token.start, reason) if reason else _recase(token, pairing.replacement)


def _reason_to_leave(tokens: Sequence[Token], i: int, kind: str, names: bool) -> str:
    if part_of_name(tokens, i, kind):
        return "looks like part of a name"
    return "a first name: pass names=True to swap it" if kind == "name" and not names else ""


def _counterpart(tokens: Sequence[Token], i: int) -> str:
    word = tokens[i].text.lower()
    if word == "him":
        return "her"
    if word == "hers":
        return "his"
    determiner = is_determiner(word, around(tokens, i, _plain))
    if word == "her":
        return "his" if determiner else "him"
    return "her" if determiner else "hers"


def _plain(token: Token) -> str:
    """A word as the grammar sees it: without its gender, so that a text and its twin are read alike."""
    word = token.text.lower()
    if token.kind == "number" and word.isdigit() and len(word) != 4:  # a year and "3rd" are words like others
        return NUMBER
    if word in PRONOUNS:
        return PRONOUN
    if word in ("she", "herself"):
        return {"she": "he", "herself": "himself"}[word]
    return PERSON if word in pairings() and word not in ("he", "himself") else word


def _recase(token: Token, replacement: str) -> str | Problem:
    if token.text.islower():
        return replacement.lower()
    if token.titled:
        return replacement[0].upper() + replacement[1:].lower()
    if token.text.isupper():
        return replacement.upper()
    return Problem(token.text, token.start, "capitals inside the word: no way to write its counterpart alike")


def _not_reversible(text: str, swapped: str, back: str) -> Iterator[Problem]:
    for here, there, again in zip(tokenize(text), tokenize(swapped), tokenize(back), strict=False):
        if here.text != again.text:
            reason = f"became {there.text!r}, which swaps back to {again.text!r}: use undo() for the way back"
            yield Problem(here.text, here.start, reason)
