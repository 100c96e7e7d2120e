"""What stands around a pronoun, read so that a text and its gender-swapped twin look alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from levelhead.probes.swap.gendered import PRONOUNS, Gender, gender_of_word, pairings
from levelhead.probes.swap.tokens import Token, belongs, is_ly_adverb

PRONOUN = "<pronoun>"  # her, him, his, hers: alike, so that a text and its swapped twin are read alike
PERSON = "<person>"  # every other gendered word, for the same reason
NUMBER = "<number>"
SUM = "<sum>"  # $20: alone it is given ("paid her $20"), before a noun it describes ("paid her $20 fine")
AHEAD = 5  # words that the rules may look at after the pronoun
_REACH = 10  # words before "and" or "to" among which the subject of its verb is looked for

_QUOTES = frozenset("\"'“‘«")
_OPENERS = _QUOTES | frozenset("*_~#")
_CURRENCY = frozenset("$£€")
_WRAPS = frozenset(("[]", "()", '""', "''", "“”", "‘’", "**", "__"))
_NEUTRAL = {"she": "he", "herself": "himself", "he": "he", "himself": "himself"}

Subject = Literal["same", "other", "unknown"]


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a pronoun, in lower case; "" is the edge of the clause."""

    before: str
    after: tuple[str, ...]  # AHEAD words
    proper: bool  # the next word is capitalized
    quoted: bool  # the next word opens a quotation
    compound: bool  # the next word is the first of a hyphenated compound: "her then-husband"
    subject: Subject  # of the verb before the pronoun: is it a person of the pronoun's gender?


def around(tokens: Sequence[Token], i: int) -> Around:
    """The surroundings of the pronoun tokens[i]."""
    first, last = _alternative(tokens, i)
    before = tokens[first - 1] if first else None
    words: list[str] = []
    places: list[int] = []
    j = _next(tokens, last)
    while j is not None and len(words) < AHEAD:
        words.append(SUM if tokens[j - 1].text in _CURRENCY else plain(tokens[j]))
        places.append(j)
        j = _next(tokens, j)
    after_first = tokens[places[0] + 1 : places[0] + 2] if places else []
    opening = places[0] - 1 if places else 0
    return Around(
        before=plain(before) if before and before.kind == "word" else "",
        after=(*words, *[""] * (AHEAD - len(words))),
        proper=bool(places) and tokens[places[0]].titled,
        quoted=tokens[opening].text in _QUOTES and opening > last + _wrapped(tokens, last),
        compound=len(places) > 1 and after_first[0].text == "-" and places[1] == places[0] + 2,
        subject=_subject(tokens, first - 1, PRONOUNS[tokens[i].lower]),
    )


def plain(token: Token) -> str:
    """A word as the grammar sees it: without its gender, so that a text and its twin are read alike."""
    word = token.lower
    if token.kind == "number" and word.isdigit() and len(word) != 4:  # a year and "3rd" are words like others
        return NUMBER
    if word in PRONOUNS:
        return PRONOUN
    return _NEUTRAL.get(word) or (PERSON if word in pairings() else word)


def _subject(tokens: Sequence[Token], verb: int, gender: Gender) -> Subject:
    """Whether the subject of tokens[verb] is of this gender, as far as the words before it say.

    "She left her money" and "He left his money" are alike in this, and so are "He left her money" and "She
    left him money": the answer is the same for a text and its twin. I, we and you are always someone else.
    """
    if verb < 1 or tokens[verb].kind != "word" or belongs(tokens[verb].lower, "preposition", "closed"):
        return "unknown"
    k = verb - 1
    while k >= 0 and (tokens[k].kind == "suffix" or _stands_between(tokens[k])):
        k -= 1
    if k >= 0 and belongs(tokens[k].lower, "speaker"):
        return "other"
    own = gender_of_word(tokens[k].lower) if k >= 0 else None
    if own is None and k >= 0 and tokens[k].lower in ("and", "to", "but", "then"):
        own = _earlier_subject(tokens[max(0, k - _REACH) : k])
    return "unknown" if own is None else "same" if own == gender else "other"


def _stands_between(token: Token) -> bool:
    """Whether a subject and its verb may have this word between them: never, had, finally."""
    return token.kind == "word" and (belongs(token.lower, "between") or is_ly_adverb(token.lower))


def _earlier_subject(before: Sequence[Token]) -> Gender | None:
    """The gender of the last he or she of these words, unless someone else comes after it.

    "He sat down and gave her flowers" has one; "She asked him to give her flowers" has none that is sure.
    """
    for token in reversed(before):
        if token.lower in ("he", "she"):
            return gender_of_word(token.lower)
        if token.lower in PRONOUNS or token.lower in pairings() or belongs(token.lower, "nominative"):
            return None
    return None


def _next(tokens: Sequence[Token], j: int) -> int | None:
    """The place of the clause's next word, through hyphens, brackets and opening quotes; None at its edge."""
    j += 1 + _wrapped(tokens, j)
    while j < len(tokens) and tokens[j].gap.count("\n") < 2:
        if tokens[j].kind != "sign":
            return j
        skipped = _skip(tokens, j)
        if not skipped:
            return None
        j += skipped
    return None


def _wrapped(tokens: Sequence[Token], j: int) -> int:
    """1 when tokens[j] alone stands in signs of its own, as in [his] own: the closing one is no edge."""
    inside = 0 < j < len(tokens) - 1 and not tokens[j].gap and not tokens[j + 1].gap
    return int(inside and tokens[j - 1].text + tokens[j + 1].text in _WRAPS)


def _skip(tokens: Sequence[Token], j: int) -> int:
    """How many tokens from the sign tokens[j] on a phrase passes over; 0: it ends there."""
    sign = tokens[j].text
    joined = j + 1 < len(tokens) and not tokens[j + 1].gap
    if sign in "([":
        closing = next(
            (k for k in range(j, len(tokens)) if tokens[k].text == {"(": ")", "[": "]"}[sign]), j - 1
        )
        return closing - j + 1
    if sign == "-":
        return int(joined and not tokens[j].gap)
    if sign == '"':
        return int(sum(token.text == '"' for token in tokens[:j]) % 2 == 0)
    return int(sign in _CURRENCY or (sign in _OPENERS and bool(tokens[j].gap) and joined))


def _alternative(tokens: Sequence[Token], i: int) -> tuple[int, int]:
    """First and last token of "his or her", "him/her" around tokens[i], so that both sides are read alike."""

    def other_side(j: int) -> bool:
        here, there = PRONOUNS.get(tokens[i].lower), PRONOUNS.get(tokens[j].lower)
        return here is not None and there is not None and here != there

    if i + 2 < len(tokens) and tokens[i + 1].lower in ("or", "/") and other_side(i + 2):
        return i, i + 2
    if i >= 2 and tokens[i - 1].lower in ("or", "/") and other_side(i - 2):
        return i - 2, i
    return i, i
