"""Disjoint halves of a word test: what is chosen on some words is judged on others.

Attribute pairs and targets are split together. Pairs that share a word ("her" with "him" and with "his") stay
on one side, so that no word is in both halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from levelhead.errors import BadProbe
from levelhead.probes.words import WordTest

Halves = tuple[WordTest, WordTest]


def linked(words: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Distinct words in groups that no pair crosses, in the order of their first word."""
    group = {word: [word] for word in words}
    for a, b in pairs:
        if a in group and b in group and group[a] is not group[b]:
            joined = group[a] + group[b]
            group |= dict.fromkeys(joined, joined)
    return list({id(members): members for members in group.values()}.values())


def word_halves(test: WordTest, seed: int) -> Halves:
    """Two tests without a common word, each with half of the pairs, of X and of Y, drawn with the seed."""
    rng = np.random.default_rng(seed)
    sides: tuple[set[str], set[str]] = (set(), set())
    attributes = linked((*test.A, *test.B), test.pairs)
    for groups in (attributes, linked(test.X, ()), linked(test.Y, ())):
        for side, words in zip(sides, _dealt(groups, rng), strict=True):
            side.update(words)
    return _part(test, sides[0], "first half"), _part(test, sides[1], "second half")


def _dealt(groups: Sequence[Sequence[str]], rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Groups in random order, each to the side that has fewer words so far."""
    first: list[str] = []
    second: list[str] = []
    for i in rng.permutation(len(groups)):
        (first if len(first) <= len(second) else second).extend(groups[i])
    return first, second


def _part(test: WordTest, words: set[str], name: str) -> WordTest:
    kept = {group: tuple(word for word in listed if word in words) for group, listed in test.groups().items()}
    pairs = tuple(pair for pair in test.pairs if pair[0] in words and pair[1] in words)
    few = [group for group, listed in kept.items() if len(listed) < (2 if group in ("X", "Y") else 1)]
    if few:
        raise BadProbe(
            f"{test.name} cannot be halved: {', '.join(few)} would have too few words. "
            "Two halves need 2 attribute pairs, and 4 words in X and in Y."
        )
    return replace(test, name=f"{test.name}, {name}", pairs=pairs, A=kept["A"], B=kept["B"], X=kept["X"], Y=kept["Y"])
