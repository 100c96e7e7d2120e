"""Which attribute pairs of a list belong together: mother/father, motherly/fatherly, motherhood/fatherhood.

Pairs of one family say the same thing again. Where group words are a sample, a family is drawn, or exchanged,
as a whole (docs/method.md, Exchanged pairs).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

Pair = tuple[str, str]
_SHORT = 3  # letters of a stem that both words of two pairs have: man in chairman, woman in chairwoman
_LONG = 5  # letters of a stem that one of the words has: Christian in Christianity
_SINGULAR = (  # endings of one word, to begin with: women and woman, wives and wife
    (re.compile(r"men$"), "man"),
    (re.compile(r"ves$"), "fe"),
    (re.compile(r"ies$"), "y"),
    (re.compile(r"(?<=s)es$"), ""),
    (re.compile(r"(?<=[^s])s$"), ""),
)


def pair_families(pairs: Sequence[Pair]) -> tuple[int, ...]:
    """The family of every pair, numbered in the order of their first pairs.

    Two pairs are of one family if they share a word, or a stem: if both words of the one have 3 letters or
    more in common with those of the other, at the same end (chairwoman/chairman and woman/man), or one of
    them 5 or more. Families of families are one, so a family can hold pairs that share nothing. Which word
    of a pair stands first does not matter: exchanged pairs have the same families.
    """
    return _families(tuple((min(pair), max(pair)) for pair in pairs))


@lru_cache(maxsize=64)  # every variant of a model, and every exchanged list, has the same pairs
def _families(pairs: tuple[Pair, ...]) -> tuple[int, ...]:
    family, stems = list(range(len(pairs))), [(_stem(one), _stem(other)) for one, other in pairs]
    for later in range(len(pairs)):
        for earlier in range(later):
            old, new = family[later], family[earlier]
            if old != new and _related(stems[earlier], stems[later]):
                family = [new if each == old else each for each in family]
    number = {each: i for i, each in enumerate(dict.fromkeys(family))}
    return tuple(number[each] for each in family)


def _related(one: Pair, other: Pair) -> bool:
    for a, b in (other, other[::-1]):
        shared = _shared(one[0], a), _shared(one[1], b)
        if one[0] == a or one[1] == b or min(shared) >= _SHORT or max(shared) >= _LONG:
            return True
    return False


def _shared(one: str, other: str) -> int:
    """Letters of the stem that two words share; 0 where neither is made of the other.

    Made of the other: it begins or ends with it (girlhood, schoolgirl), or the two differ in their endings
    alone, by a quarter of the shorter one at most (femininity).
    """
    short, long = sorted((one, other), key=len)
    if long.startswith(short) or long.endswith(short):
        return len(short)
    common = next((i for i, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1]), 0)
    return common if common >= _LONG and 4 * common >= 3 * len(short) else 0


def _stem(word: str) -> str:
    """A word in small letters and the singular."""
    stem = word.casefold()
    for ending, one in _SINGULAR:
        if len(stem) > _SHORT and ending.search(stem):
            return ending.sub(one, stem)
    return stem
