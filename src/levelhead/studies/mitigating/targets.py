"""A benchmark as the target of mitigations: its items in parts A, B and C that share no cluster."""

from __future__ import annotations

from dataclasses import replace

from levelhead.errors import BadOption, CannotDo
from levelhead.models.model import Model
from levelhead.scoring.benchmarks.catalog import benchmark_of, benchmarks
from levelhead.scoring.benchmarks.protocol import Asked, Benchmark, Items
from levelhead.scoring.natural import NaturalItems, Target
from levelhead.studies.halves import dealt
from levelhead.studies.mitigating.head_ablation import HeadAblation
from levelhead.studies.mitigating.parts import Parts
from levelhead.studies.mitigating.protocol import Mitigation, mitigations
from levelhead.studies.mitigating.settings import MitigateSettings


def target_items(model: Model, settings: MitigateSettings) -> Items | None:
    """The items of the benchmark that is the objective; None where it is none."""
    if not settings.data:
        if settings.objective in benchmarks():
            raise BadOption(f"The objective {settings.objective} needs its published file: --data FILE.")
        return None
    benchmark = benchmark_of(settings.objective)
    if reason := benchmark.why_not(model):
        raise CannotDo(f"{reason}.")
    return benchmark.load(settings.data, Asked(limit=settings.limit))


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
    objective = benchmark.objective(model, _about(items, fitting))
    return replace(
        split,
        fit=replace(split.fit, target=None if objective is None else objective.absolute),
        order=_asked(split.order, benchmark, _about(items, ordering)),
        test=_asked(split.test, benchmark, _about(items, late)),
        whole=_asked(split.whole, benchmark, items),
    )


def named_methods(settings: MitigateSettings) -> tuple[Mitigation, ...]:
    """The mitigations that are asked for; with a benchmark as the target, heads by its own gradient too."""
    own = HeadAblation(settings.objective)
    if not settings.data or (settings.methods and own.name not in settings.methods):
        return mitigations(settings.methods)
    others = tuple(name for name in settings.methods if name != own.name)
    return (own, *(mitigations(others) if others or not settings.methods else ()))


def _about(items: Items, clusters: frozenset[str]) -> Items:
    return items.chosen([i for i, cluster in enumerate(items.clusters) if cluster in clusters])


def _asked(part: NaturalItems, benchmark: Benchmark, items: Items) -> NaturalItems:
    own = Target(
        benchmark.info.name,
        lambda model, variants: benchmark.natural(model, items, variants),
        len(items.items),
    )
    return replace(part, target=own)
