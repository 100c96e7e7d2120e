"""Benchmarks in null models: is a score more than what words without meaning get? (models/twins.py)"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.errors import CannotDo
from levelhead.measures.measurement import ABOUT_NULLS, NULL_MODELS, P_NULL_MODELS, Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.rounds import ALPHA, closed, looked_at, looks
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twin_seed, twinned
from levelhead.progress import steps
from levelhead.results.folder import text_hash
from levelhead.results.presets import BENCHMARK_NULLS
from levelhead.results.records.benchmarks import NullScore
from levelhead.results.records.common import SAME_ITEMS
from levelhead.scoring.benchmarks.protocol import Benchmark, Items, spread

FEWEST_ITEMS = 50  # that null models are asked, where there are so many
Kept = Callable[[str, Callable[[], Sequence[NullScore]]], Sequence[NullScore]]


@dataclass(frozen=True)
class AskedBenchmark:
    """A benchmark with its items, by a rule: everything that a model, or a null model, is asked."""

    benchmark: Benchmark
    items: Items
    rule: str
    resampling: Resampling

    def scores(self, model: Model) -> list[Measurement]:
        """Every score of the unmodified model with its own test, and the data that it is about."""
        return self.scores_of(model, UNTOUCHED)[0]

    def scores_of(self, model: Model, variants: Sequence[Variant]) -> list[list[Measurement]]:
        """The same in every variant."""
        measured = self.benchmark.ask(model, self.items, variants, self.rule, self.resampling)
        return [self.about(each) for each in measured]

    def about(self, measured: Sequence[Measurement]) -> list[Measurement]:
        """Measurements that name their data: scores by another rule, or on other items, do not compare."""
        data = f"{self.benchmark.info.title}, rule {self.rule}"
        form = "chat" if self.items.chat else "text"
        known = {"data": data, "data_hash": text_hash([self.items.fingerprint, self.rule, form])}
        return [replace(each, settings={**each.settings, **known}) for each in measured]

    def null_scores(self, model: Model, number: int) -> list[NullScore]:
        """Every score of one null model, relative to the scale of its own differences."""
        with twinned(model, draw_twin(model, twin_seed(self.resampling.seed, number))):
            return self.own_scores(model)

    def own_scores(self, model: Model) -> list[NullScore]:
        """Every score of the model in the same form."""
        (measured,) = self.benchmark.ask(model, self.items, UNTOUCHED, self.rule, self.resampling)
        return [NullScore(each.name, each.relative) for each in measured]


@dataclass(frozen=True)
class NullPlan:
    """How many null models a benchmark is held against, at most, and on which of its items."""

    null: int
    every: int = 1  # one of so many items
    rounds: bool = False  # they come in rounds, and no more are asked once every verdict is settled

    @property
    def work(self) -> float:
        """Times the benchmark's own work, at most; the model answers again where not all items are asked."""
        return (self.null + (self.every > 1)) / self.every

    def asked(self, asked: AskedBenchmark) -> AskedBenchmark:
        """The benchmark as null models are asked it."""
        items = asked.items
        if self.every == 1:
            return asked
        return replace(
            asked, items=items.chosen(spread(len(items.items), -(-len(items.items) // self.every)))
        )


def usual_nulls(items: int) -> NullPlan:
    """Null models where nobody says how many: at most as much work as the benchmark itself.

    5 of them and the model again, on one of six items; on all of few items, which are there soon.
    """
    every = min(BENCHMARK_NULLS + 1, max(1, items // FEWEST_ITEMS))
    return NullPlan(BENCHMARK_NULLS, every, rounds=True)


def measured_with_nulls(asked: AskedBenchmark, model: Model, nulls: int) -> list[Measurement]:
    """Every score of the unmodified model with the harder of two nulls: its own test, and null models."""
    return with_nulls(asked, asked.scores(model), NullPlan(nulls), model)


def with_nulls(
    asked: AskedBenchmark,
    measured: Sequence[Measurement],
    plan: NullPlan,
    model: Model,
    kept: Kept = lambda label, ask: ask(),
) -> list[Measurement]:
    """Measurements held against null models, on the same items as those.

    kept: given a label and how the scores that it stands for are asked for, those scores. Fewer than 2 null
    models: the measurements as they are. A model that has none states the reason in its settings.
    """
    if plan.null < 2:
        return list(measured)
    on, drawn = plan.asked(asked), list[Sequence[NullScore]]()
    there = {each.name: each.relative for each in measured}
    title = f"{asked.benchmark.info.title} in {plan.null} null models (--null 0: none)"
    try:
        if plan.every > 1:
            own = kept(SAME_ITEMS, partial(on.own_scores, model))
            there = {each.name: each.relative for each in own}
        with steps(title, plan.null) as advance:
            for number in range(plan.null):
                if plan.rounds and number in looks(plan.null) and _settled(measured, there, drawn, plan.null):
                    break
                drawn.append(kept(str(number + 1), partial(on.null_scores, model, number)))
                advance(1)
    except CannotDo as error:
        return [replace(each, settings={**each.settings, ABOUT_NULLS: str(error)}) for each in measured]
    return _held_against(measured, there, drawn, plan)


def _settled(
    measured: Sequence[Measurement],
    there: Mapping[str, float | None],
    drawn: Sequence[Sequence[NullScore]],
    planned: int,
) -> bool:
    """Whether no null model still to come changes a verdict: a score's own test says no already, and the
    larger p counts; or the score is settled or futile (measures/rounds.py)."""
    nulls = _nulls(drawn)
    for each in measured:
        value, null = there.get(each.name), nulls.get(each.name)
        own = each.null is not None and each.null.p_value >= ALPHA
        if not own and value is not None and null is not None and not closed(null, value, planned):
            return False
    return True


def _nulls(drawn: Sequence[Sequence[NullScore]]) -> dict[str, NullDistribution]:
    """What null models score; a score that one of them lacks has none."""
    relative: dict[str, list[float]] = {}
    for scores in drawn:
        for each in scores:
            if each.relative is not None:
                relative.setdefault(each.name, []).append(each.relative)
    return {
        name: NullDistribution(np.asarray(values))
        for name, values in relative.items()
        if len(values) == len(drawn)
    }


def _held_against(
    measured: Sequence[Measurement],
    there: Mapping[str, float | None],
    drawn: Sequence[Sequence[NullScore]],
    plan: NullPlan,
) -> list[Measurement]:
    """Measurements with the harder of their own null and null models: the larger p counts.

    Gaps in nats are compared relative to the root mean square of each model's own. A score that one of the
    null models lacks keeps its own test alone.
    """
    nulls, held = _nulls(drawn), []
    for each in measured:
        null, value = nulls.get(each.name), there.get(each.name)
        if null is None or value is None or each.value is None:
            held.append(each)
            continue
        null = looked_at(null, value, plan.null) if plan.rounds else null
        known = {} if plan.every == 1 else {ABOUT_NULLS: f"on one of {plan.every} items"}
        held.append(_harder(null, value, replace(each, settings={**each.settings, **known})))
    return held


def _harder(null: NullDistribution, value: float, each: Measurement) -> Measurement:
    """The harder of two nulls; null models alone where a score has no test of its own."""
    if each.null is None and each.relative is not None:
        judged = null.judged(value, NULL_MODELS)
        return replace(each, null=judged, details={**each.details, P_NULL_MODELS: judged.p_value})
    return null.harder(each, NULL_MODELS, value)
