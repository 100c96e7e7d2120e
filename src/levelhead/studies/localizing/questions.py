"""Objectives of the atlas: each on all of its items, and on halves of them that share no cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import Variant
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe, CannotDo
from levelhead.models.model import Model
from levelhead.probes.agreement import agreement_items
from levelhead.probes.bias import data_hash
from levelhead.probes.cloze import BASE, ClozeSet, load_cloze
from levelhead.probes.contexts import contexts_fingerprint
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import load_triples
from levelhead.results.folder import text_hash
from levelhead.results.records.localizing import ObjectiveLeftOut
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.catalog import benchmark_of
from levelhead.scoring.benchmarks.protocol import Asked, Benchmark, Items
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.natural import COSINE, LOG_ODDS, PREFERENCE, NaturalItems
from levelhead.scoring.objective import OBJECTIVES, Objective, OwnObjective
from levelhead.scoring.objectives import SEAT, shipped_objective
from levelhead.studies.halves import Halves, dealt, halves
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.localizing.settings import SHIPPED, AtlasSettings

_CONTEXTS = 2  # of each word: a standard error over contexts needs two
_SHORT = "its word list is too short to be split into halves"


HeldOut = Callable[[Model, Sequence[Variant]], ItemValues]


@dataclass(frozen=True, eq=False)
class Question:
    """One objective."""

    name: str
    items: int
    fingerprint: str  # of its items
    whole: Objective  # on all items
    splits: tuple[tuple[Objective, Objective], ...]  # on two halves of them, several times
    measure: str  # what it is in natural units
    held_out: HeldOut | None = None  # the items of the first split's second half, of a benchmark


@dataclass(frozen=True, eq=False)
class Questions:
    """What can be asked of a model, and what cannot."""

    asked: tuple[Question, ...]
    left_out: tuple[ObjectiveLeftOut, ...]


def questions(model: Model, settings: AtlasSettings) -> Questions:
    """Every objective of the settings that a model has; the others with the reason."""
    shipped: _Shipped | None = None
    asked: list[Question] = []
    left_out: list[ObjectiveLeftOut] = []
    for name in settings.names:
        try:
            if name in SHIPPED:
                shipped = shipped or _Shipped.of(model, settings)
                asked.append(shipped.question(model, name))
            elif (own := OBJECTIVES.known().get(name)) is not None:
                asked.append(_of_own(model, own, settings))
            else:
                asked.append(_of_benchmark(model, benchmark_of(name), settings))
        except CannotDo as error:
            left_out.append(ObjectiveLeftOut(name, str(error).rstrip(".")))
    return Questions(tuple(asked), tuple(left_out))


def held_out_items(model: Model, settings: AtlasSettings) -> NaturalItems:
    """The shipped items of the first split's second half, with texts and tasks that show what it costs."""
    later = _Shipped.of(model, settings).parts[0].report
    return NaturalItems(later, later.prompts, agreement=agreement_items())  # no head is chosen on these


# ---- shipped items


@dataclass(frozen=True, eq=False)
class _Shipped:
    """The shipped items for a bias, and their halves, in which each word has its first context alone."""

    battery: Battery
    parts: tuple[Halves, ...]  # [split]

    @classmethod
    def of(cls, model: Model, settings: AtlasSettings) -> _Shipped:
        words = prepare(model, HeadsSettings(settings.bias, per_word=_CONTEXTS))
        battery = Battery(
            words.test,
            tuple(words.table.contexts),
            triples=load_triples().at_most(settings.limit),
            prompts=_base_prompts(settings.limit),
            sentences=fluency_sentences()[: settings.limit],
        )
        single = replace(battery, contexts=tuple(words.table.first_contexts().contexts))
        seeds = range(settings.seed, settings.seed + settings.splits)
        return cls(battery, tuple(halves(single, seed) for seed in seeds))

    def question(self, model: Model, name: str) -> Question:
        """An objective by its name; CannotDo with the reason where the model has none."""
        objective = SHIPPED[name]
        if objective in (COSINE, SEAT) and not all(part.words_apart for part in self.parts):
            raise CannotDo(_SHORT)
        whole = shipped_objective(objective, model, self.battery)
        splits = tuple(_pair(objective, model, part) for part in self.parts)
        items, fingerprint = self._items(objective)
        measure = COSINE if objective == SEAT else objective
        return Question(name, items, fingerprint, whole, splits, measure)

    def _items(self, objective: str) -> tuple[int, str]:
        """How many items an objective has, and their hash."""
        battery = self.battery
        if objective == PREFERENCE:
            return len(battery.triples.pairs), battery.triples.fingerprint
        if objective == LOG_ODDS and battery.prompts is not None:
            return len(battery.prompts.prompts), battery.prompts.fingerprint
        words = len({context.word for context in battery.contexts})
        return words, f"{data_hash(battery.test)} {contexts_fingerprint(battery.contexts)}"


def _pair(objective: str, model: Model, part: Halves) -> tuple[Objective, Objective]:
    try:
        first, second = (shipped_objective(objective, model, half) for half in (part.choose, part.report))
    except BadProbe as error:  # a half without words of one kind
        raise CannotDo(f"half of its items is too few: {error}") from error
    return first, second


def _base_prompts(limit: int | None) -> ClozeSet:
    """The prompts without knowledge, at most so many, evenly spread."""
    prompts = load_cloze(per_background=1)
    base = tuple(prompt for prompt in prompts.prompts if prompt.kind == BASE)
    if limit is not None and limit < len(base):
        base = tuple(base[i * len(base) // limit] for i in range(limit))
    return replace(prompts, prompts=base)


# ---- benchmarks


def _of_benchmark(model: Model, benchmark: Benchmark, settings: AtlasSettings) -> Question:
    name = benchmark.info.name
    items = benchmark.load(settings.data[name], Asked(limit=settings.limit))
    if reason := benchmark.why_not(model):
        raise CannotDo(reason)
    whole = _signed(model, benchmark, items)
    splits, held_out = _split(
        items.clusters, settings, lambda side: _about(model, benchmark, items, whole, side)
    )
    later = _chosen(items, held_out)
    return Question(
        *(name, len(items.items), items.fingerprint, whole.absolute, splits, name),
        held_out=lambda model, variants: benchmark.natural(model, later, variants),
    )


def _split(
    clusters: Sequence[str], settings: AtlasSettings, part: Callable[[frozenset[str]], Objective]
) -> tuple[tuple[tuple[Objective, Objective], ...], frozenset[str]]:
    """The objective on two halves of the clusters, as often as asked, and the second half of the first."""
    splits = []
    for seed in range(settings.seed, settings.seed + settings.splits):
        sides = dealt(clusters, seed)
        if not all(sides):
            raise CannotDo("its items are of one cluster, so that they have no halves")
        first, second = (part(side).absolute for side in sides)
        splits.append((first, second))
    return tuple(splits), dealt(clusters, settings.seed)[1]


def _about(
    model: Model, benchmark: Benchmark, items: Items, whole: Objective, clusters: frozenset[str]
) -> Objective:
    """The objective on the items of some clusters: of the same answers where it is a mean over items."""
    if whole.parts is not None:
        return whole.about(clusters)
    return _signed(model, benchmark, _chosen(items, clusters))


def _chosen(items: Items, clusters: frozenset[str]) -> Items:
    return items.chosen([i for i, cluster in enumerate(items.clusters) if cluster in clusters])


def _signed(model: Model, benchmark: Benchmark, items: Items) -> Objective:
    try:
        signed = benchmark.objective(model, items)
    except BadProbe as error:
        raise CannotDo(str(error)) from error
    if signed is None:
        raise CannotDo(f"{benchmark.info.name} has no differentiable form for {model.name}")
    return signed


# ---- objectives of a user's own


def _of_own(model: Model, own: OwnObjective, settings: AtlasSettings) -> Question:
    if reason := own.why_not(model):
        raise CannotDo(reason)
    whole = replace(own.objective(model), name=own.name)
    if not whole.clusters:
        raise CannotDo("it is no mean over items, so that it has no halves: make it with mean_objective")
    splits, held_out = _split(whole.clusters, settings, whole.about)
    fingerprint = text_hash([repr(whole.reading), *whole.clusters])
    later = partial(_each_item, whole, np.isin(whole.clusters, list(held_out)))
    return Question(
        *(own.name, len(whole.clusters), fingerprint, whole.absolute, splits, own.name),
        held_out=None if whole.each is None else later,
    )


def _each_item(
    objective: Objective, chosen: NDArray[np.bool_], model: Model, variants: Sequence[Variant]
) -> ItemValues:
    """Some items of an objective in every variant."""
    answers = read_one(model, objective.reading, variants, label=objective.name)
    return ItemValues(
        objective.name,
        objective.unit,
        np.stack([objective.each_of(answer)[chosen] for answer in answers]),
        np.asarray(objective.clusters)[chosen],
    )
