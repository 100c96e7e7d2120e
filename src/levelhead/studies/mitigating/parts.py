"""Items in three parts that share no cluster: A to fit on, B to order on, C to test on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from levelhead.measures.certified import AGREEMENT
from levelhead.probes.agreement import AgreementItem, agreement_items
from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import BASE, ClozeSet, load_cloze
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.sense import sense_items
from levelhead.probes.words import WordTest
from levelhead.results.folder import text_hash
from levelhead.scoring.battery import Battery
from levelhead.scoring.lpbs import lpbs_tests
from levelhead.scoring.natural import NaturalItems
from levelhead.scoring.sense import LANGUAGE
from levelhead.studies.halves import dealt, halves

T = TypeVar("T")
_SWAP = GenderSwap()
_FEWEST = 16  # items of a kind, of which three parts get a quarter, a quarter and a half


@dataclass(frozen=True)
class Parts:
    """A quarter to fit on, a quarter to order on, a half to test on; and all of them."""

    fit: Battery
    order: NaturalItems
    test: NaturalItems
    whole: NaturalItems
    words_apart: bool  # False: the word list is too short, so that words that are fitted on are tested on too

    def hashes(self) -> dict[str, str]:
        """Hashes of all that is asked."""
        stated = [item.text for item in self.whole.agreement]
        sense = [text for item in self.test.sense for text in (item.context, item.related, item.unrelated)]
        beside = {AGREEMENT: stated, LANGUAGE: sense}
        return {
            **self.whole.battery.hashes(),
            **{name: text_hash(texts) for name, texts in beside.items() if texts},
        }


def parts(battery: Battery, seed: int, every: int = 1) -> Parts:
    """Split a battery by a seed, prompts by occupation, tests of blanks by their words, and sentences that
    state a gender by the pair of words that state it. More contexts of language sense are tested on only.

    every: one of so many items alone, evenly spread, where a budget has no time for more.
    """
    battery = _thinned(battery, every)
    first = halves(battery, seed)
    second = halves(first.choose, seed + 1)
    if not about_gender(battery.test):
        order, test, whole = (NaturalItems(each) for each in (second.report, first.report, battery))
        return Parts(second.choose, order, test, whole, first.words_apart)
    prompts = load_cloze(per_background=1)
    everybody = _some([occupation.name for occupation in prompts.occupations], every)
    early, late = dealt(everybody, seed)
    fitting, ordering = dealt(sorted(early), seed + 1)
    blanks = tuple(_shortened(test, every) for test in lpbs_tests().values())
    to_order, to_test = _blanks(blanks, (second.choose.test, second.report.test, first.report.test), seed)
    people = list(dict.fromkeys(item.people for item in agreement_items()))
    stated = _of(agreement_items(), _some(people, every))
    sooner, later = dealt((item.people for item in stated), seed)
    _, between = dealt(sorted(sooner), seed + 1)  # the others are part A's, which fits nothing on them
    return Parts(
        replace(second.choose, prompts=_about(prompts, fitting)),
        NaturalItems(
            second.report, _about(prompts, ordering), blanks=to_order, agreement=_of(stated, between)
        ),
        NaturalItems(
            first.report,
            _about(prompts, late),
            blanks=to_test,
            agreement=_of(stated, later),
            sense=sense_items(battery.sense_every),
        ),
        NaturalItems(battery, _about(prompts, everybody), blanks=blanks, agreement=stated),
        first.words_apart,
    )


def _thinned(battery: Battery, every: int) -> Battery:
    """A battery with one of so many items, but with no fewer of any kind than three parts need."""
    if every == 1:
        return battery
    contexts = _some(list(dict.fromkeys(pair.original.context for pair in battery.triples.pairs)), every)
    premises = _some(list(dict.fromkeys(pair.premise for pair in battery.ability.pairs)), every)
    test = _shortened(battery.test, every)
    words = {word for side in test.groups().values() for word in side}
    return replace(
        battery,
        test=test,
        contexts=tuple(context for context in battery.contexts if context.word in words),
        triples=battery.triples.about(contexts),
        probe=battery.probe.about(_some(battery.probe.occupations, every)),
        ability=battery.ability.about(premises),
        sentences=tuple(_some(battery.sentences, every)),
        sense_every=battery.sense_every * every,  # of each topic one stays in any case
    )


def _shortened(test: WordTest, every: int) -> WordTest:
    """A test with one of so many targets of either side, and of so many attribute pairs, or attributes."""
    a, b = zip(*_some(test.pairs, every), strict=True) if test.pairs else (test.A, test.B)
    kept = [*a, *b] if test.pairs else [*_some(a, every), *_some(b, every)]
    return test.of({*kept, *_some(test.X, every), *_some(test.Y, every)})


def _some(items: Sequence[T], every: int) -> Sequence[T]:
    """One of so many items, evenly spread, but no fewer than the fewest."""
    return items[:: max(1, min(every, len(items) // _FEWEST))]


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
    """The prompts without knowledge about some occupations, answered by words of which each stands for one
    other alone: not by her, which stands for his and for him, so that odds of 1 would not be neutral."""
    kept = tuple(p for p in prompts.prompts if p.kind == BASE and p.occupation in occupations)
    single = {
        word for groups in _SWAP.classes() if all(len(g) == 1 for g in groups) for g in groups for word in g
    }
    return replace(
        prompts, prompts=kept, core=tuple(pair for pair in prompts.core if single.issuperset(pair))
    )


def _of(items: Sequence[AgreementItem], people: Collection[str]) -> tuple[AgreementItem, ...]:
    """The sentences about some pairs of people."""
    return tuple(item for item in items if item.people in people)
