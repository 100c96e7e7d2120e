"""Items in three parts that share no cluster: A to fit on, B to order on, C to test on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import BASE, ClozeSet, load_cloze
from levelhead.probes.words import WordTest, load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.lpbs import LPBS_TESTS
from levelhead.scoring.natural import NaturalItems
from levelhead.studies.halves import dealt, halves


@dataclass(frozen=True)
class Parts:
    """A quarter to fit on, a quarter to order on, a half to test on; and all of them."""

    fit: Battery
    order: NaturalItems
    test: NaturalItems
    whole: NaturalItems
    words_apart: bool  # False: the word list is too short, so that words that are fitted on are tested on too


def parts(battery: Battery, seed: int) -> Parts:
    """Split a battery by a seed, the prompts by occupation, and tests of blanks by their words."""
    first = halves(battery, seed)
    second = halves(first.choose, seed + 1)
    if not about_gender(battery.test):
        order, test, whole = (NaturalItems(each) for each in (second.report, first.report, battery))
        return Parts(second.choose, order, test, whole, first.words_apart)
    prompts = load_cloze(per_background=1)
    early, late = dealt((occupation.name for occupation in prompts.occupations), seed)
    fitting, ordering = dealt(sorted(early), seed + 1)
    every = tuple(load_words(name) for name in LPBS_TESTS)
    to_order, to_test = _blanks(every, (second.choose.test, second.report.test, first.report.test), seed)
    return Parts(
        replace(second.choose, prompts=_about(prompts, fitting)),
        NaturalItems(second.report, _about(prompts, ordering), blanks=to_order),
        NaturalItems(first.report, _about(prompts, late), blanks=to_test),
        NaturalItems(battery, _about(prompts, {each.name for each in prompts.occupations}), blanks=every),
        first.words_apart,
    )


def _blanks(
    tests: Sequence[WordTest], dealt_before: tuple[WordTest, WordTest, WordTest], seed: int
) -> tuple[tuple[WordTest, ...], tuple[WordTest, ...]]:
    """The tests with half of their words to order on, and with the other half to test on.

    A word that the battery has dealt already stays in its part: one that is fitted on is not asked.
    """
    fitted, ordered, tested = ({*each.X, *each.Y} for each in dealt_before)
    order, test = [], []
    for each in tests:
        groups = {*each.A, *each.B}
        free = [[word for word in side if word not in fitted | ordered | tested] for side in (each.X, each.Y)]
        (a, b), (c, d) = (dealt(side, seed) for side in free)
        order.append(each.of(groups | ordered | a | c))
        test.append(each.of(groups | tested | b | d))
    return tuple(order), tuple(test)


def _about(prompts: ClozeSet, occupations: Collection[str]) -> ClozeSet:
    """The prompts without knowledge about some occupations."""
    kept = tuple(p for p in prompts.prompts if p.kind == BASE and p.occupation in occupations)
    return replace(prompts, prompts=kept)
