"""Exact gradients of the gates of all heads or of all neurons, over any number of texts, in constant memory.

An objective J of a reading's answer y = sum over texts of y_c depends on the gates m only through y. So

    dJ/dm = sum_c <dJ/dy, dy_c/dm>

(docs/method.md, Head scores). One pass without gradients gives y, a tiny graph gives the cotangent dJ/dy, and
a second pass pushes it into the gates batch by batch. Each text has gates of its own there, which gives its
contribution without further cost: standard errors come from their spread within each stratum (a word's
texts), with the cotangent held fixed. A stratum of one text is not certain: its variance is pooled from the
others (engine/ways_back.py).

Several objectives of one answer share both passes. Those that depend on different rows of the answer, such as
|SEAT| of two halves of the words, are pushed back together.

Texts share the gates of neurons, which are as many as activations: their gradients are sums without standard
errors, and each objective is pushed back by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.placing import placed
from levelhead.edits.sites import Variant
from levelhead.engine.asks import Asks, asks_by_row, asks_of_batch, read_tokens
from levelhead.engine.batches import RowPool, Tokens, inputs
from levelhead.engine.budget import Work
from levelhead.engine.collectors import Collector, Numbers
from levelhead.engine.gated import HEADS, NEURONS, Component, gated_blocks
from levelhead.engine.helped import crew_of
from levelhead.engine.memory import Fitting, Parcel
from levelhead.engine.readings import Reading
from levelhead.engine.run import answer_prepared
from levelhead.engine.trunk import Trunk
from levelhead.engine.ways_back import GateGradients, Objective, WayBack, slope_at, strata_of, ways_back
from levelhead.errors import BadOption, CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.progress import steps
from levelhead.work import BACK, worked

Doubles = NDArray[np.float64]
Add = Callable[[int, Tensor, Numbers], None]  # number of the cotangent, contributions, an ask of each


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
        answers = copy(collector)  # texts are tokenized once for both passes
        variants = [given.variant(point)]
        answer_prepared(model, pool, [answers], variants, label=label, batch_tokens=batch_tokens)
        back = _Back(model, pool, collector, point, given)
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

    def gradients(self, answer: Doubles, objectives: Sequence[Objective]) -> list[GateGradients]:
        """What each objective of the answer does with each gate."""
        model, collector, strata = self.model, self.collector, strata_of(self.collector)
        component, batch_tokens = self.given.component, self.given.batch_tokens
        slopes = [slope_at(objective, answer, strata) for objective in objectives]
        ways = ways_back(collector, slopes, tuple(self.point.shape), component.shared)
        job = GradientJob(self.pool.rows, collector, [way.cotangent for way in ways], self.point, component)
        with steps(self.given.label, len(self.pool.rows)) as advance:
            for rows in _contributed(model, job, ways, batch_tokens):
                advance(rows)
        of_slope = {slope: way.result(slope) for way in ways for slope in way.slopes}
        return [of_slope[slope] for slope in slopes]


def _contributed(
    model: Model, job: GradientJob, ways: Sequence[WayBack], batch_tokens: int | None
) -> Iterator[int]:
    """Let every batch contribute, and say how many rows each has."""
    if (crew := crew_of(model)) is not None:
        for numbers, parcels in crew.work(job, batch_tokens):
            for parcel in parcels:
                ways[parcel.number].add(parcel.tensor, parcel.asks)
            worked((1 + BACK * len(ways)) * sum(len(job.rows[number].ids) for number in numbers))
            yield len(numbers)
        return
    with job.ready(model):
        fitting = Fitting(model, job.rows, job.work, batch_tokens)
        for numbers in fitting.batches():
            job.contribute(model, fitting, numbers, lambda number, *texts: ways[number].add(*texts))
            yield len(numbers)


@dataclass(frozen=True, eq=False)
class GradientJob:
    """What all batches of the second pass have in common: nothing in it depends on who runs it."""

    rows: Sequence[Tokens]
    collector: Collector[Any]
    cotangents: Sequence[Tensor]  # dJ/dy, each pushed back by itself
    point: Tensor  # [layer, component]
    component: Component
    work: ClassVar[Work] = "gradients"

    def ready(self, model: Model) -> AbstractContextManager[None]:
        """The model as its batches need it."""
        return at_rest(model.hf)

    def contribute(self, model: Model, fitting: Fitting, numbers: Sequence[int], add: Add) -> None:
        """Add what these rows contribute: for each cotangent its number, [row, layer, component], one row for
        all where they share their gates, and an ask of each row."""

        def differentiate(some: Sequence[int], recompute: bool = model.waits_on_host) -> None:
            asks = asks_of_batch(self.collector, self._by_row, some, model.device)
            batch = inputs(model, [self.rows[n] for n in some])
            of_rows = np.asarray([self._by_row[n][0] for n in some])
            for number, part in enumerate(_contributions(self, _Pass(model, recompute), batch, asks)):
                add(number, part, of_rows)

        fitting.run(numbers, differentiate, partial(differentiate, recompute=True))

    def parcels(self, model: Model, fitting: Fitting, numbers: Sequence[int]) -> list[Parcel]:
        """What these rows contribute, for another process."""
        parcels: list[Parcel] = []

        def pack(number: int, contributions: Tensor, asks: Numbers) -> None:
            parcels.append(Parcel(number, 0, asks, contributions.cpu().numpy()))

        self.contribute(model, fitting, numbers, pack)
        return parcels

    @cached_property
    def _by_row(self) -> list[Numbers]:
        return asks_by_row(self.collector, len(self.rows))


@dataclass(frozen=True, eq=False)
class _Pass:
    """Who runs a batch, and how."""

    model: Model
    recompute: bool  # blocks run again on the way back, in less memory


def _contributions(job: GradientJob, given: _Pass, batch: dict[str, Tensor], asks: Asks) -> list[Tensor]:
    """What each row of a batch adds to dJ/dm: [row, layer, component], for each cotangent."""
    model, collector = given.model, asks.collector
    rows, width = batch["input_ids"].shape
    component, point = job.component, placed(job.point, model.device)
    gates = [component.repeated(gate, rows).requires_grad_() for gate in point]
    trunk = Trunk(model)
    with torch.no_grad():
        plan = trunk.plan(batch)
    flat = placed(torch.from_numpy(read_tokens([asks], width)), model.device)
    with torch.enable_grad():
        vectors = asks.pick(gated_blocks(trunk, plan, component, gates, flat, recompute=given.recompute))
        values = _ends(trunk, vectors)[collector.stage]()
        totals = [
            collector.pull(placed(cotangent, values.device), asks.numbers, values.float()).sum()
            for cotangent in job.cotangents
        ]
    last, tokens = totals[-1], rows * width
    slopes = [_pushed_back(model, total, gates, tokens, again=total is not last) for total in totals]
    return [torch.stack([component.slopes(each) for each in own], dim=1) for own in slopes]


def _ends(trunk: Trunk, vectors: Tensor) -> dict[str, Callable[[], Tensor]]:
    """What becomes of the last block's vectors, by the stage of a collector."""
    return {
        "final": lambda: trunk.final(vectors),
        "logits": lambda: trunk.logits(vectors),
        "judged": lambda: trunk.judged(trunk.pooled(vectors)),
    }


def _pushed_back(model: Model, total: Tensor, gates: list[Tensor], tokens: int, again: bool) -> list[Tensor]:
    """The slopes of a batch's total in the gates of each layer. again: the graph is needed once more."""
    slopes: Sequence[Tensor | None] = (None,)
    worked(BACK * tokens)
    if total.requires_grad:
        slopes = torch.autograd.grad(total, gates, retain_graph=again, allow_unused=True)
    if any(slope is None for slope in slopes):
        why = f": {model.fixed_weights}" if model.fixed_weights else ""
        raise CannotDo(f"{model.name} passes no gradients on to its gates here{why}. Load it in floats.")
    return [slope for slope in slopes if slope is not None]
