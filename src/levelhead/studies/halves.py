"""A battery as two halves that share no item: projections are chosen on one and judged on the other.

Whatever stands or falls together stays together: triples of one context, inferences and prompts about one
occupation, ability pairs of one premise, attribute words that are counterparts. What is not split (the
shipped LPBS lists, measures of a user's own) is nothing that a projection is chosen by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from levelhead.errors import BadProbe
from levelhead.probes.cloze import ClozeSet
from levelhead.probes.words import WordTest
from levelhead.scoring.battery import Battery
from levelhead.scoring.word_table import word_table
from levelhead.studies.heads.crossfit import halves as word_halves


@dataclass(frozen=True)
class Halves:
    """Two parts of a battery."""

    choose: Battery
    report: Battery
    words_apart: bool  # False: the word list is too short, both halves have all of its words


def halves(battery: Battery, seed: int, screen: tuple[int, int] | None = None) -> Halves:
    """Split a battery by a seed. screen: at most so many occupations and contexts for the first half.

    Halves ask no null twins: changed models are held against the untouched one.
    """
    contexts = dealt((pair.original.context for pair in battery.triples.pairs), seed)
    occupations = dealt(battery.probe.occupations, seed)
    premises = dealt((pair.premise for pair in battery.ability.pairs), seed)
    sentences = dealt(battery.sentences, seed)
    prompts = _prompts(battery.prompts, seed)
    tests = _tests(battery, seed)
    parts = [
        replace(
            battery,
            test=tests[side],
            contexts=tuple(c for c in battery.contexts if _listed(tests[side], c.word)),
            triples=battery.triples.about(contexts[side]),
            probe=battery.probe.about(occupations[side], screen if side == 0 else None),
            ability=battery.ability.about(premises[side]),
            sentences=tuple(text for text in battery.sentences if text in sentences[side]),
            prompts=prompts[side],
            null=0,
        )
        for side in (0, 1)
    ]
    return Halves(parts[0], parts[1], words_apart=tests[0] is not tests[1])


def one_of(battery: Battery, step: int) -> Battery:
    """A battery with one of so many triples, occupations, premises and sentences; its words stay."""
    premises = list(dict.fromkeys(pair.premise for pair in battery.ability.pairs))[::step]
    return replace(
        battery,
        triples=battery.triples.every(step),
        probe=battery.probe.about(battery.probe.occupations[::step]),
        ability=battery.ability.about(premises),
        sentences=battery.sentences[::step],
    )


def dealt(items: Iterable[str], seed: int) -> tuple[frozenset[str], frozenset[str]]:
    """Distinct items dealt out in turns, in an order that the seed draws; the second gets the odd one."""
    distinct = list(dict.fromkeys(items))
    order = np.random.default_rng(seed).permutation(len(distinct))
    sides = [frozenset(distinct[int(i)] for i in order[start::2]) for start in (1, 0)]
    return sides[0], sides[1]


def _prompts(prompts: ClozeSet | None, seed: int) -> tuple[ClozeSet | None, ClozeSet | None]:
    """Two sets of prompts that share no occupation, where a battery has prompts."""
    if prompts is None:
        return None, None
    first, second = dealt((prompt.occupation for prompt in prompts.prompts), seed)
    return prompts.about(first), prompts.about(second)


def _tests(battery: Battery, seed: int) -> tuple[WordTest, WordTest]:
    """Two word lists; the whole list twice where a half would be too short for SEAT."""
    try:
        first, second = word_halves(word_table(battery.test, battery.contexts), battery.test, seed)
    except BadProbe:
        return battery.test, battery.test
    return battery.test.of(first.words), battery.test.of(second.words)


def _listed(test: WordTest, word: str) -> bool:
    return any(word in own for own in test.groups().values())
