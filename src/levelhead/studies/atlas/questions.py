"""Objectives of the atlas: each on all of its items, and on halves of them that share no cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.models.model import Model
from levelhead.probes import evenly
from levelhead.probes.bias import data_hash
from levelhead.probes.cloze import BASE, load_cloze
from levelhead.probes.contexts import contexts_fingerprint
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import load_triples
from levelhead.runs.folder import text_hash
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.catalog import benchmark_of, benchmarks
from levelhead.scoring.benchmarks.protocol import BENCHMARKS, Benchmark, Items, Selection
from levelhead.scoring.items import ItemValues
from levelhead.scoring.natural import COSINE, LOG_ODDS, PREFERENCE
from levelhead.scoring.objective import OBJECTIVES, Objective, OwnObjective
from levelhead.scoring.objectives import SEAT, shipped_objective
from levelhead.studies.atlas.records import ObjectiveLeftOut
from levelhead.studies.atlas.settings import AtlasSettings
from levelhead.studies.halves import Halves, dealt, halves
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings

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
    """What can be evaluated on a model, and what cannot."""

    kept: tuple[Question, ...]
    left_out: tuple[ObjectiveLeftOut, ...]


SHIPPED = {"preference": PREFERENCE, "log-odds": LOG_ODDS, "cosine-gap": COSINE, "seat": SEAT}
for _registry in (OBJECTIVES, BENCHMARKS):
    _registry.taken |= {name: f"the objective {name}" for name in SHIPPED}


def check_names(names: Iterable[str]) -> None:
    """Refuse a name that no objective has, and one that two have."""
    known, own = benchmarks(), OBJECTIVES.known()
    if both := known.keys() & own.keys():
        raise BadOption(f"A benchmark and an objective are both called {both.pop()!r}. Rename one of them.")
    every = (*SHIPPED, *known, *own)
    if unknown := [name for name in names if name not in every]:
        raise BadOption(f"No objective is called {unknown[0]!r}. There are: {', '.join(every)}.")


def names_of(settings: AtlasSettings) -> tuple[str, ...]:
    """The objectives of the settings, each once; unknown names and benchmarks without their file are
    refused."""
    names = tuple(dict.fromkeys(settings.objectives or (*SHIPPED, *settings.data)))
    check_names((*settings.objectives, *settings.data))
    known = benchmarks()
    if without := [name for name in names if name in known and name not in settings.data]:
        raise BadOption(
            f"The objective {without[0]} needs its published file: --data {without[0]}=FILE, or "
            f"data={{{without[0]!r}: FILE}} in Python."
        )
    if idle := [name for name in settings.data if name not in known or name not in names]:
        raise BadOption(f"data must be of benchmarks among the objectives (got {idle[0]!r})")
    return names


def questions(model: Model, settings: AtlasSettings) -> Questions:
    """Every objective of the settings that a model has; the others with the reason."""
    shipped: ShippedItems | None = None
    questions: list[Question] = []
    left_out: list[ObjectiveLeftOut] = []
    for name in names_of(settings):
        try:
            if name in SHIPPED:
                shipped = shipped or ShippedItems.of(model, settings)
                questions.append(shipped.question(model, name))
            elif (own := OBJECTIVES.known().get(name)) is not None:
                questions.append(_of_own(model, own, settings))
            else:
                questions.append(_of_benchmark(model, benchmark_of(name), settings))
        except CannotDo as error:
            left_out.append(ObjectiveLeftOut(name, str(error).rstrip(".")))
    return Questions(tuple(questions), tuple(left_out))


# ---- shipped items


@dataclass(frozen=True, eq=False)
class ShippedItems:
    """The shipped items for a bias, and their halves, in which each word has its first context alone."""

    battery: Battery
    parts: tuple[Halves, ...]  # [split]

    @classmethod
    def of(cls, model: Model, settings: AtlasSettings) -> ShippedItems:
        words = prepare(model, HeadsSettings(settings.bias, per_word=_CONTEXTS))
        prompts, limit = load_cloze(per_background=1), settings.limit
        base = tuple(prompt for prompt in prompts.prompts if prompt.kind == BASE)  # without knowledge
        base = base if limit is None else evenly(base, limit)
        battery = Battery(
            words.test,
            tuple(words.table.contexts),
            triples=load_triples().at_most(settings.limit),
            prompts=replace(prompts, prompts=base),
            sentences=fluency_sentences()[: settings.limit],
        )
        single = replace(battery, contexts=tuple(words.table.first_contexts().contexts))
        seeds = range(settings.seed, settings.seed + settings.splits)
        return cls(battery, tuple(halves(single, seed) for seed in seeds))

    def question(self, model: Model, name: str) -> Question:
        """An objective by its name; CannotDo with the reason where the model has none."""
        objective, battery, splits = SHIPPED[name], self.battery, []
        if objective in (COSINE, SEAT) and not all(part.words_apart for part in self.parts):
            raise CannotDo(_SHORT)
        whole = shipped_objective(objective, model, battery)
        for part in self.parts:
            try:
                first = shipped_objective(objective, model, part.choose)
                splits.append((first, shipped_objective(objective, model, part.report)))
            except BadProbe as error:  # a half without words of one kind
                raise CannotDo(f"half of its items is too few: {error}") from error
        if objective == PREFERENCE:
            items, fingerprint = len(battery.triples.pairs), battery.triples.fingerprint
        elif objective == LOG_ODDS and battery.prompts is not None:
            items, fingerprint = len(battery.prompts.prompts), battery.prompts.fingerprint
        else:
            items = len({context.word for context in battery.contexts})
            fingerprint = f"{data_hash(battery.test)} {contexts_fingerprint(battery.contexts)}"
        measure = COSINE if objective == SEAT else objective
        return Question(name, items, fingerprint, whole, tuple(splits), measure)


# ---- benchmarks


def _of_benchmark(model: Model, benchmark: Benchmark, settings: AtlasSettings) -> Question:
    name = benchmark.info.name
    items = benchmark.load(settings.data[name], Selection(limit=settings.limit))
    if reason := benchmark.why_not(model):
        raise CannotDo(reason)
    whole = _signed(model, benchmark, items)
    # of the same answers where it is a mean over items
    splits, held_out = _split(
        items.clusters,
        settings,
        whole.about
        if whole.parts is not None
        else lambda side: _signed(model, benchmark, _chosen(items, side)),
    )
    later = _chosen(items, held_out)
    return Question(
        *(name, len(items.items), items.fingerprint, whole.absolute, splits, name),
        held_out=lambda model, variants: benchmark.natural(model, later, variants),
    )


def _split(
    clusters: Sequence[str], settings: AtlasSettings, part: Callable[[frozenset[str]], Objective]
) -> tuple[tuple[tuple[Objective, Objective], ...], frozenset[str]]:
    """The objective on two halves of the clusters for each split, and the second half of the first split."""
    splits = []
    for seed in range(settings.seed, settings.seed + settings.splits):
        sides = dealt(clusters, seed)
        if not all(sides):
            raise CannotDo("its items are of one cluster, so that they have no halves")
        first, second = (part(side).absolute for side in sides)
        splits.append((first, second))
    return tuple(splits), dealt(clusters, settings.seed)[1]


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
    chosen = np.isin(whole.clusters, list(held_out))

    def later(model: Model, variants: Sequence[Variant]) -> ItemValues:
        answers = read_one(model, whole.reading, variants, label=whole.name)
        values = np.stack([whole.each_of(answer)[chosen] for answer in answers])
        return ItemValues(whole.name, whole.unit, values, np.asarray(whole.clusters)[chosen])

    return Question(
        *(own.name, len(whole.clusters), fingerprint, whole.absolute, splits, own.name),
        held_out=None if whole.each is None else later,
    )
