"""Benchmarks in null models: is a score more than what words without meaning get? (models/twins.py)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.errors import CannotDo
from levelhead.measures.measurement import NULL_MODELS, P_NULL_MODELS, Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twin_seed, twinned
from levelhead.progress import steps
from levelhead.results.folder import text_hash
from levelhead.results.records.benchmarks import NullScore
from levelhead.scoring.benchmarks.protocol import Benchmark, Items


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
            (measured,) = self.benchmark.ask(model, self.items, UNTOUCHED, self.rule, self.resampling)
        return [NullScore(each.name, each.relative) for each in measured]


def measured_with_nulls(asked: AskedBenchmark, model: Model, nulls: int) -> list[Measurement]:
    """Every score of the unmodified model with the harder of two nulls: its own test, and null models."""
    return with_nulls(asked, asked.scores(model), nulls, partial(asked.null_scores, model))


def with_nulls(
    asked: AskedBenchmark,
    measured: Sequence[Measurement],
    nulls: int,
    draw: Callable[[int], Sequence[NullScore]],
) -> list[Measurement]:
    """Measurements held against null models; draw: of the number of one, what it scores.

    Fewer than 2 null models: the measurements as they are. A model that has none states the reason in its
    settings.
    """
    if nulls < 2:
        return list(measured)
    drawn = []
    try:
        with steps(f"{asked.benchmark.info.title} in {nulls} null models (--null 0: none)", nulls) as advance:
            for number in range(nulls):
                drawn.append(draw(number))
                advance(1)
    except CannotDo as error:
        return [replace(each, settings={**each.settings, NULL_MODELS: str(error)}) for each in measured]
    return _held_against(measured, drawn)


def _held_against(measured: Sequence[Measurement], drawn: Sequence[Sequence[NullScore]]) -> list[Measurement]:
    """Measurements with the harder of their own null and null models: the larger p counts.

    Gaps in nats are compared relative to the root mean square of each model's own. A score that one of the
    null models lacks keeps its own test alone.
    """
    relative: dict[str, list[float]] = {}
    for scores in drawn:
        for each in scores:
            if each.relative is not None:
                relative.setdefault(each.name, []).append(each.relative)
    nulls = {
        name: NullDistribution(np.asarray(values))
        for name, values in relative.items()
        if len(values) == len(drawn)
    }
    return [_harder(nulls.get(each.name), each) for each in measured]


def _harder(null: NullDistribution | None, each: Measurement) -> Measurement:
    """The harder of two nulls; null models alone where a score has no test of its own."""
    if null is None or each.value is None:
        return each
    if each.null is None and each.relative is not None:
        judged = null.judged(each.relative, NULL_MODELS)
        return replace(each, null=judged, details={**each.details, P_NULL_MODELS: judged.p_value})
    return null.harder(each, NULL_MODELS)
