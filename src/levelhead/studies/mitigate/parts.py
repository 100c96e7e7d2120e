"""Items in three parts that share no cluster: A to fit on, B to order on, C to test on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from levelhead.errors import BadOption
from levelhead.measures.certified import AGREEMENT, WRITTEN
from levelhead.models.model import Model
from levelhead.probes.agreement import Agreement, agreement_for
from levelhead.probes.bias import GENDER, about_gender
from levelhead.probes.cloze import BASE, ClozeSet, load_cloze
from levelhead.probes.generation import Prompt, load_prompts, occupation_facts
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.outside import OutsideText
from levelhead.probes.sentences import sense_items
from levelhead.probes.words import WordTest, load_words
from levelhead.runs.folder import text_hash
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.catalog import benchmark_of
from levelhead.scoring.benchmarks.protocol import Benchmark, Items
from levelhead.scoring.lpbs import lpbs_tests
from levelhead.scoring.natural import LANGUAGE, NaturalItems, Target
from levelhead.scoring.writing import Writing
from levelhead.studies.halves import dealt, halves
from levelhead.studies.mitigate.head_ablation import HeadAblation
from levelhead.studies.mitigate.protocol import Mitigation, mitigations
from levelhead.studies.mitigate.settings import MitigateSettings

T = TypeVar("T")
_SWAP = GenderSwap()
_NEUTRAL = ("occupations", "situations")  # prompts that name nobody's gender
_FEWEST = 16  # items of a kind, of which three parts get a quarter, a quarter and a half


@dataclass(frozen=True)
class Parts:
    """A quarter to fit on, a quarter to order on, a half to test on; and all of them."""

    fit: Battery
    order: NaturalItems
    test: NaturalItems
    whole: NaturalItems
    words_apart: bool  # False: the word list is too short, so that words that are fitted on are tested on too
    outside: OutsideText | None = None  # tested on only; None: nothing is measured outside

    def hashes(self) -> dict[str, str]:
        """Hashes of all items."""
        stated = [item.text for item in self.whole.agreement]
        sense = [text for item in self.test.sense for text in (item.context, item.related, item.unrelated)]
        beside = {AGREEMENT: stated, LANGUAGE: sense}
        if (writing := self.test.writing) is not None:
            beside["continued prompts"] = [prompt.text for prompt in writing.prompts]
        if (outside := self.outside) is not None:
            beside["text outside"] = [
                *outside.sentences,
                *outside.passages,
                *(i.text for i in outside.stated),
            ]
        if exchanged := self.whole.battery.test.exchanged:
            beside["exchanged words"] = [" ".join(row) for row in exchanged]
        return {
            **self.whole.battery.hashes(),
            **{name: text_hash(texts) for name, texts in beside.items() if texts},
        }


def parts(battery: Battery, seed: int, every: int = 1) -> Parts:
    """Split a battery by a seed: prompts by occupation, tests of blanks by their words, sentences that state
    a gender by the pair of words that state it, those that state another group by their frame. More contexts
    of language sense are tested on only.

    every: one of so many items alone, evenly spread, where a budget has no time for more.
    """
    battery = _thinned(battery, every)
    first = halves(battery, seed)
    second = halves(first.choose, seed + 1)
    people = list(dict.fromkeys(item.people for item in agreement_for(battery.test)))
    stated = _of(agreement_for(battery.test), _some(people, every))
    sooner, later = dealt((item.people for item in stated), seed)
    _, between = dealt(sorted(sooner), seed + 1)  # the others are part A's, which fits nothing on them
    order, test, whole = (
        NaturalItems(each, agreement=own)
        for each, own in (
            (second.report, _of(stated, between)),
            (first.report, _of(stated, later)),
            (battery, stated),
        )
    )
    if not about_gender(battery.test):
        return Parts(second.choose, order, test, whole, first.words_apart)
    prompts = load_cloze(per_background=1)
    everybody = _some([occupation.name for occupation in prompts.occupations], every)
    early, late = dealt(everybody, seed)
    fitting, ordering = dealt(sorted(early), seed + 1)
    blanks = tuple(_shortened(each, every) for each in lpbs_tests().values())
    # half of their words to order on, the other half to test on; one that the battery has dealt already
    # stays in its part, and one that is fitted on is left out
    fitted, ordered, tested = (
        {*part.test.X, *part.test.Y} for part in (second.choose, second.report, first.report)
    )
    to_order, to_test = [], []
    for each in blanks:
        groups = {*each.A, *each.B}
        free = [[word for word in side if word not in fitted | ordered | tested] for side in (each.X, each.Y)]
        (a, b), (c, d) = (dealt(side, seed) for side in free)
        to_order.append(each.of(groups | ordered | a | c))
        to_test.append(each.of(groups | tested | b | d))
    return Parts(
        replace(second.choose, prompts=_about(prompts, fitting)),
        replace(order, prompts=_about(prompts, ordering), blanks=tuple(to_order)),
        replace(
            test,
            prompts=_about(prompts, late),
            blanks=tuple(to_test),
            sense=sense_items(battery.sense_every),
        ),
        replace(whole, prompts=_about(prompts, everybody), blanks=blanks),
        first.words_apart,
    )


def quickly_ordered(split: Parts) -> Parts:
    """The parts with every second of the long items of part B, which decides the order alone."""
    few = split.order.battery
    few = replace(few, triples=few.triples.every(2), sentences=few.sentences[::2])
    return replace(split, order=replace(split.order, battery=few))


def gender_items() -> NaturalItems:
    """What a mitigation of another bias may do to gender: the items that a gender bias is tested on."""
    return parts(Battery(load_words(GENDER), ()), seed=0).test


_OCCUPATIONS = 120  # of 262: every candidate writes about them


def with_writing(split: Parts, objective: str, seed: int, every: int = 1) -> Parts:
    """The parts with neutral prompts that candidates continue, dealt by occupation, or by situation.

    Where candidates are not judged by their texts, one prompt about each occupation of part C is enough, and
    the other parts have none.
    """
    prompts = [
        prompt
        for prompt in load_prompts(sets=_NEUTRAL, limit=_OCCUPATIONS).prompts
        if not prompt.about or occupation_facts()[prompt.about].label
    ]
    early, late = dealt(_some(list(dict.fromkeys(prompt.cluster for prompt in prompts)), every), seed)
    if objective not in WRITTEN:
        by_cluster: dict[str, list[Prompt]] = {}
        for prompt in prompts:
            if prompt.cluster in late:
                by_cluster.setdefault(prompt.cluster, []).append(prompt)
        # of one cluster its first prompt, of the next its second, and so on, so that frames differ
        one_each = tuple(own[number % len(own)] for number, own in enumerate(by_cluster.values()))
        return replace(split, test=replace(split.test, writing=Writing(one_each)))
    fitting, ordering = dealt(sorted(early), seed + 1)
    order, test, whole = (
        replace(part, writing=Writing(tuple(each for each in prompts if each.cluster in own), objective))
        for part, own in (
            (split.order, ordering),
            (split.test, late),
            (split.whole, fitting | ordering | late),
        )
    )
    return replace(split, order=order, test=test, whole=whole)


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


def _of(items: Sequence[Agreement], people: Collection[str]) -> tuple[Agreement, ...]:
    """The sentences about some pairs of people, or of some frames."""
    return tuple(item for item in items if item.people in people)


def with_target(
    model: Model, split: Parts, settings: MitigateSettings, items: Items | None, every: int = 1
) -> Parts:
    """The parts with a quarter of the benchmark's items to fit on, a quarter to order on, a half to test.

    every: one of so many items alone.
    """
    if items is None:
        return split
    items = items.chosen(range(0, len(items.items), every)) if every > 1 else items
    benchmark = benchmark_of(settings.objective)
    early, late = dealt(items.clusters, settings.seed)
    fitting, ordering = dealt(sorted(early), settings.seed + 1)
    if not (fitting and ordering and late):
        raise BadOption(f"{items.name} has too few clusters for three parts: {len(set(items.clusters))}.")
    to_fit, to_order, to_test = (
        items.chosen([i for i, cluster in enumerate(items.clusters) if cluster in side])
        for side in (fitting, ordering, late)
    )
    objective = benchmark.objective(model, to_fit)
    return replace(
        split,
        fit=replace(split.fit, target=None if objective is None else objective.absolute),
        order=_about_target(split.order, benchmark, to_order),
        test=_about_target(split.test, benchmark, to_test),
        whole=_about_target(split.whole, benchmark, items),
    )


def named_methods(settings: MitigateSettings) -> tuple[Mitigation, ...]:
    """The mitigations of the settings; with a benchmark as the target, heads by its own gradient too."""
    own = HeadAblation(settings.objective)
    if not settings.data or (settings.methods and own.name not in settings.methods):
        return mitigations(settings.methods)
    others = tuple(name for name in settings.methods if name != own.name)
    return (own, *(mitigations(others) if others or not settings.methods else ()))


def _about_target(part: NaturalItems, benchmark: Benchmark, items: Items) -> NaturalItems:
    own = Target(
        benchmark.info.name,
        lambda model, variants: benchmark.natural(model, items, variants),
        len(items.items),
    )
    return replace(part, target=own)
