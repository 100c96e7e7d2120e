"""Exact gradients of the gates of all heads or of all neurons, over any number of texts, in constant memory.

An objective J of a reading's answer y = sum over texts of y_c depends on the gates m only through y. So

    dJ/dm = sum_c <dJ/dy, dy_c/dm>

(docs/method.md, Head scores). One pass without gradients gives y, a tiny graph gives the cotangent dJ/dy, and
a second pass pushes it into the gates batch by batch. Each text has gates of its own there, which gives its
contribution without further cost: standard errors come from their spread within each stratum (a word's
texts), with the cotangent held fixed. A stratum of one text is not certain: its variance is pooled from the
others (engine/ways_back.py).

Several objectives of one answer share both passes. Those that depend on different rows of the answer, such as
|SEAT| of two halves of the words, are pushed back together. Where the answer has one number per text, as
likelihoods have, dy_c/dm does not depend on J: one pass gives y and the gradients of all objectives.

Texts share the gates of neurons, which are as many as activations: their gradients are sums without standard
errors, and each objective is pushed back by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import Variant
from levelhead.engine.batches import RowPool
from levelhead.engine.collectors import Collector, Numbers
from levelhead.engine.gated import HEADS, NEURONS, Component
from levelhead.engine.gradient_job import GradientJob
from levelhead.engine.helped import crew_of
from levelhead.engine.memory import Fitting
from levelhead.engine.readings import Reading
from levelhead.engine.run import answer_prepared
from levelhead.engine.ways_back import ByText, GateGradients, Objective, slope_at, strata_of, ways_back
from levelhead.errors import BadOption
from levelhead.models.concurrency import asking
from levelhead.models.model import Model
from levelhead.progress import steps
from levelhead.work import BACK, worked

Doubles = NDArray[np.float64]
Take = Callable[[Tensor, Numbers], None]  # contributions, an ask of each


def gate_gradients(
    model: Model,
    reading: Reading[Any],
    objective: Objective,
    *,
    label: str = "Head gradients",
    batch_tokens: int | None = None,
    at: Doubles | None = None,
) -> GateGradients:
    """How an objective of a reading's answer changes with each head's gate.

    reading: StaticVectors (objective of [word, hidden]), TokenLogProbs (of [text, token]), Pooled (of [text,
    label]) or SpanLikelihoods (of [text]).
    at: the gates [layer, head] at which the derivative is taken; 1 by default.
    """
    several = several_gate_gradients(
        model, reading, [objective], label=label, batch_tokens=batch_tokens, at=at
    )
    return several[0]


def neuron_gradients(
    model: Model,
    reading: Reading[Any],
    objective: Objective,
    *,
    label: str = "Neuron gradients",
    batch_tokens: int | None = None,
    at: Doubles | None = None,
) -> GateGradients:
    """How an objective of a reading's answer changes with each neuron's gate; as gate_gradients, without
    standard errors. at: [layer, neuron]."""
    given = _Given(NEURONS, label, batch_tokens, at)
    return _gradients(model, reading, [objective], given)[0]


def integrated_gradients(
    model: Model, reading: Reading[Any], objective: Objective, component: Component, steps: int = 8
) -> Doubles:
    """The mean of dJ/dm on the way from all gates at 0 to all at 1: [layer, component].

        b_i = ∫ dJ/dm_i (t, t, ..., t) dt from 0 to 1,   Σ_i b_i = J(1) − J(0)

    by the midpoint rule in so many steps. Reference: Sundararajan et al. 2017.
    """
    shape = (model.layers, component.count(model))
    total = np.zeros(shape)
    for step in range(steps):
        at = np.full(shape, (step + 0.5) / steps)
        given = _Given(component, f"Integrated gradients {step + 1}/{steps}", None, at)
        total += _gradients(model, reading, [objective], given)[0].scores
    return total / steps


def several_gate_gradients(
    model: Model,
    reading: Reading[Any],
    objectives: Sequence[Objective],
    *,
    label: str = "Head gradients",
    batch_tokens: int | None = None,
    at: Doubles | None = None,
) -> list[GateGradients]:
    """How each of several objectives of one answer changes with each head's gate; as gate_gradients."""
    return _gradients(model, reading, objectives, _Given(HEADS, label, batch_tokens, at))


@dataclass(frozen=True, eq=False)
class _Given:
    """What has a gate, and how it is asked for."""

    component: Component
    label: str
    batch_tokens: int | None
    at: Doubles | None

    def point(self, model: Model) -> Tensor:
        """The gates at which to differentiate: [layer, component]."""
        shape = (model.layers, self.component.count(model))
        values = np.ones(shape) if self.at is None else np.asarray(self.at, np.float64)
        if values.shape != shape or not np.isfinite(values).all():
            raise BadOption(
                f"Gates of shape {values.shape} came; {model.name} needs finite ones of shape {shape}."
            )
        return torch.from_numpy(values).float()

    def variant(self, point: Tensor) -> Variant:
        """The model at that point."""
        if self.at is None:
            return ()
        return tuple(self.component.edit(i, row) for i, row in enumerate(point.tolist()))


def _gradients(
    model: Model, reading: Reading[Any], objectives: Sequence[Objective], given: _Given
) -> list[GateGradients]:
    point, label, batch_tokens = given.point(model), given.label, given.batch_tokens
    with asking(model.hf):
        pool = RowPool(merge=False)
        collector = reading.prepare(model, pool, 1)
        back = _Back(model, pool, collector, point, given)
        if back.units is not None:
            return back.with_answer(objectives)
        answers = copy(collector)  # texts are tokenized once for both passes
        variants = [given.variant(point)]
        answer_prepared(model, pool, [answers], variants, label=label, batch_tokens=batch_tokens)
        return back.gradients(answers.answer()[0], objectives)


def gradients_at_answer(
    model: Model, reading: Reading[Any], answer: Doubles, objectives: Sequence[Objective], label: str
) -> list[GateGradients]:
    """The gradients of several objectives of a reading's answer that is known already: one pass is enough."""
    given = _Given(HEADS, label, None, None)
    with asking(model.hf):
        pool = RowPool(merge=False)
        back = _Back(model, pool, reading.prepare(model, pool, 1), given.point(model), given)
        return back.gradients(answer, objectives)


@dataclass(frozen=True, eq=False)
class _Back:
    """The way from an answer to the gates: which texts it is of, and at which gates."""

    model: Model
    pool: RowPool
    collector: Collector[Any]
    point: Tensor
    given: _Given

    @property
    def units(self) -> tuple[Numbers, Numbers] | None:
        """The text and the item of each ask, where a text has one number and gates of its own."""
        return None if self.given.component.shared else self.collector.units()

    def with_answer(self, objectives: Sequence[Objective]) -> list[GateGradients]:
        """What each objective does with each gate, by one pass that gives the answer too."""
        way = ByText(self.collector, cast(tuple[Numbers, Numbers], self.units), tuple(self.point.shape))
        self._push([way.cotangent], [way.add, way.answer])
        return [way.result(objective) for objective in objectives]

    def gradients(self, answer: Doubles, objectives: Sequence[Objective]) -> list[GateGradients]:
        """What each objective of the answer does with each gate."""
        collector, strata = self.collector, strata_of(self.collector)
        slopes = [slope_at(objective, answer, strata) for objective in objectives]
        ways = ways_back(collector, slopes, tuple(self.point.shape), self.given.component.shared)
        self._push([way.cotangent for way in ways], [way.add for way in ways])
        of_slope = {slope: way.result(slope) for way in ways for slope in way.slopes}
        return [of_slope[slope] for slope in slopes]

    def _push(self, cotangents: Sequence[Tensor], takers: Sequence[Take]) -> None:
        """Let every batch contribute: slopes for each cotangent and, if one taker more came, the answer."""
        answers, given = len(takers) > len(cotangents), self.given
        job = GradientJob(self.pool.rows, self.collector, cotangents, self.point, given.component, answers)
        with steps(given.label, len(self.pool.rows)) as advance:
            for rows in _contributed(self.model, job, takers, given.batch_tokens):
                advance(rows)


def _contributed(
    model: Model, job: GradientJob, takers: Sequence[Take], batch_tokens: int | None
) -> Iterator[int]:
    """Let every batch contribute, and say how many rows each has."""
    if (crew := crew_of(model)) is not None:
        for numbers, parcels in crew.work(job, batch_tokens):
            for parcel in parcels:
                takers[parcel.number](parcel.tensor, parcel.asks)
            tokens = sum(len(job.rows[number].ids) for number in numbers)
            worked((1 + BACK * len(job.cotangents)) * tokens)
            yield len(numbers)
        return
    with job.ready(model):
        fitting = Fitting(model, job.rows, job.work, batch_tokens)
        for numbers in fitting.batches():
            job.contribute(model, fitting, numbers, lambda number, *texts: takers[number](*texts))
            yield len(numbers)
