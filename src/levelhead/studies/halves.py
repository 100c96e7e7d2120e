"""A battery as two halves that share no item: what is fitted or chosen on one is judged on the other.

Whatever stands or falls together stays together: triples of one context, inferences and prompts about one
occupation, ability pairs of one premise, attribute words that are counterparts. What is not split (the
shipped LPBS lists, measures of a user's own) is nothing that a mitigation is chosen by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from levelhead.errors import BadProbe
from levelhead.probes.cloze import ClozeSet
from levelhead.scoring.battery import Battery
from levelhead.scoring.seat import word_table
from levelhead.studies.heads.crossfit import halves as word_halves


@dataclass(frozen=True)
class Halves:
    """Two parts of a battery."""

    choose: Battery
    report: Battery
    words_apart: bool  # False: the word list is too short, both halves have all of its words


def halves(battery: Battery, seed: int) -> Halves:
    """Split a battery by a seed.

    Halves ask no null models: changed models are held against the untouched one.
    """
    contexts = dealt((pair.original.context for pair in battery.triples.pairs), seed)
    occupations = dealt(battery.probe.occupations, seed)
    premises = dealt((pair.premise for pair in battery.ability.pairs), seed)
    sentences = dealt(battery.sentences, seed)
    prompts: tuple[ClozeSet | None, ClozeSet | None] = (None, None)
    if battery.prompts is not None:  # no occupation is in both
        first, second = dealt((prompt.occupation for prompt in battery.prompts.prompts), seed)
        prompts = battery.prompts.about(first), battery.prompts.about(second)
    try:
        sides = word_halves(word_table(battery.test, battery.contexts), battery.test, seed)
        tests = [battery.test.of(side.words) for side in sides]
    except BadProbe:  # a half would be too short for SEAT: both have the whole list
        tests = [battery.test, battery.test]
    parts = [
        replace(
            battery,
            test=tests[side],
            contexts=tuple(
                c for c in battery.contexts if any(c.word in own for own in tests[side].groups().values())
            ),
            triples=battery.triples.about(contexts[side]),
            probe=battery.probe.about(occupations[side]),
            ability=battery.ability.about(premises[side]),
            sentences=tuple(text for text in battery.sentences if text in sentences[side]),
            prompts=prompts[side],
            null=0,
        )
        for side in (0, 1)
    ]
    return Halves(parts[0], parts[1], words_apart=tests[0] is not tests[1])


def dealt(items: Iterable[str], seed: int) -> tuple[frozenset[str], frozenset[str]]:
    """Distinct items divided alternately, in an order that the seed draws; the second gets the odd one."""
    distinct = list(dict.fromkeys(items))
    order = np.random.default_rng(seed).permutation(len(distinct))
    sides = [frozenset(distinct[int(i)] for i in order[start::2]) for start in (1, 0)]
    return sides[0], sides[1]
