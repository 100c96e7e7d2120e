"""Benchmarks in null models: is a score more than what words without meaning get? (models/twins.py)"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from levelhead.edits.sites import UNTOUCHED
from levelhead.errors import CannotDo
from levelhead.measures.measurement import NULL_MODELS, Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twin_seed, twinned
from levelhead.progress import steps
from levelhead.scoring.benchmarks.protocol import Benchmark, Items


def measured_with_nulls(
    benchmark: Benchmark, model: Model, items: Items, rule: str | None, nulls: int, resampling: Resampling
) -> list[Measurement]:
    """Every score of the unmodified model with the harder of two nulls: its own test, and null models.

    Gaps in nats are compared relative to the root mean square of each model's own. Fewer than 2 null models:
    scores with their own test alone. A model that has none states the reason in its settings.
    """
    (measured,) = benchmark.ask(model, items, UNTOUCHED, rule, resampling)
    if nulls < 2:
        return measured
    try:
        drawn = _drawn(benchmark, model, items, rule, nulls, resampling)
    except CannotDo as error:
        return [replace(each, settings={**each.settings, NULL_MODELS: str(error)}) for each in measured]
    return [drawn[each.name].harder(each, NULL_MODELS) if each.name in drawn else each for each in measured]


def _drawn(
    benchmark: Benchmark, model: Model, items: Items, rule: str | None, nulls: int, resampling: Resampling
) -> dict[str, NullDistribution]:
    """The relative value of every score in each null model; none of a score that one of them lacks."""
    relative: dict[str, list[float]] = {}
    with steps(f"{benchmark.info.title} in null models", nulls) as advance:
        for number in range(nulls):
            with twinned(model, draw_twin(model, twin_seed(resampling.seed, number))):
                (measured,) = benchmark.ask(model, items, UNTOUCHED, rule, resampling)
            for each in measured:
                if each.relative is not None:
                    relative.setdefault(each.name, []).append(each.relative)
            advance(1)
    return {
        name: NullDistribution(np.asarray(values))
        for name, values in relative.items()
        if len(values) == nulls
    }
