"""Exact gradients of the gates of all heads or of all neurons, over any number of texts, in constant memory.

An objective J of a reading's answer y = sum over texts of y_c depends on the gates m only through y. So

    dJ/dm = sum_c <dJ/dy, dy_c/dm>

(docs/method/heads.md, Head scores). One pass without gradients gives y, a tiny graph gives the cotangent
dJ/dy, and
a second pass pushes it into the gates batch by batch. Each text has gates of its own there: standard errors
come from the spread of its contribution within each stratum (a word's texts), with the cotangent held fixed.

Several objectives of one answer share both passes, and those that depend on different rows of the answer are
pushed back together. Where the answer has one number per text, as likelihoods have, dy_c/dm does not depend
on J: one pass gives y and the gradients of all objectives.

Texts share the gates of neurons, which are as many as activations: their gradients are sums without standard
errors, and each objective is pushed back by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from math import pi, sqrt
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from levelhead.edits.sites import Variant, placed
from levelhead.engine.batches import RowPool, Tokens, inputs
from levelhead.engine.collectors import Collector, Doubles, Numbers, SpanCollector, asks_by_row, asks_of_batch
from levelhead.engine.gradient_sums import ByText, GateGradients, Objective, slope_at, strata_of, ways_back
from levelhead.engine.memory import Fitting, Parcel, Work
from levelhead.engine.readings import Reading
from levelhead.engine.run import answer_prepared
from levelhead.engine.shards import crew_of
from levelhead.engine.trunk import HEADS, NEURONS, Component, Trunk, gated_blocks
from levelhead.errors import BadOption, CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.progress import BACK, steps, worked

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
    return _gradients(model, reading, [objective], _Given(HEADS, label, batch_tokens, at))[0]


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
    return _gradients(model, reading, [objective], _Given(NEURONS, label, batch_tokens, at))[0]


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
    answer: Doubles | None = None,
) -> list[GateGradients]:
    """How each of several objectives of one answer changes with each head's gate; as gate_gradients. answer:
    the reading's, where it is known already: then one pass is enough."""
    return _gradients(model, reading, objectives, _Given(HEADS, label, batch_tokens, None), answer)


@dataclass(frozen=True, eq=False)
class _Given:
    """What has a gate, and how its gradient is taken."""

    component: Component
    label: str
    batch_tokens: int | None
    at: Doubles | None


def _gradients(
    model: Model,
    reading: Reading[Any],
    objectives: Sequence[Objective],
    given: _Given,
    answer: Doubles | None = None,
) -> list[GateGradients]:
    component, label, batch_tokens = given.component, given.label, given.batch_tokens
    shape = (model.layers, component.count(model))
    gates = np.ones(shape) if given.at is None else np.asarray(given.at, np.float64)
    if gates.shape != shape or not np.isfinite(gates).all():
        raise BadOption(
            f"gates of {model.name} must be finite and of shape {shape} (got shape {gates.shape})"
        )
    point = torch.from_numpy(gates).float()
    with asking(model.hf):
        pool = RowPool(merge=False)
        collector = reading.prepare(model, pool, 1)

        def push(cotangents: Sequence[Tensor], takers: Sequence[Callable[[Tensor, Numbers], None]]) -> None:
            """Let every batch contribute: slopes for each cotangent and, to one taker more, the answer."""
            answers = len(takers) > len(cotangents)
            job = GradientJob(pool.rows, collector, cotangents, point, component, answers)
            with steps(label, len(pool.rows)) as advance:
                if (crew := crew_of(model)) is not None:
                    for numbers, parcels in crew.work(job, batch_tokens):
                        for parcel in parcels:
                            takers[parcel.number](parcel.tensor, parcel.asks)
                        tokens = sum(len(pool.rows[number].ids) for number in numbers)
                        worked((1 + BACK * len(cotangents)) * tokens)
                        advance(len(numbers))
                    return
                with job.ready(model):
                    fitting = Fitting(model, pool.rows, job.work, batch_tokens)
                    for numbers in fitting.batches():
                        job.contribute(model, fitting, numbers, lambda number, *texts: takers[number](*texts))
                        advance(len(numbers))

        if answer is None:
            if isinstance(collector, SpanCollector) and collector.of_sums and not component.shared:
                by_text = ByText(collector, shape)  # one number per text: one pass gives the answer too
                push([by_text.cotangent], [by_text.add, by_text.answer])
                return [by_text.result(objective) for objective in objectives]
            answers = copy(collector)  # texts are tokenized once for both passes
            variant: Variant = ()
            if given.at is not None:
                variant = tuple(component.edit(i, row) for i, row in enumerate(point.tolist()))
            answer_prepared(model, pool, [answers], [variant], label=label, batch_tokens=batch_tokens)
            answer = cast(Doubles, answers.answer()[0])
        strata = strata_of(collector)
        slopes = [slope_at(objective, answer, strata) for objective in objectives]
        ways = ways_back(collector, slopes, shape, component.shared)
        push([way.cotangent for way in ways], [way.add for way in ways])
        of_slope = {slope: way.result(slope) for way in ways for slope in way.slopes}
        return [of_slope[slope] for slope in slopes]


# ---- the second pass as a job


@dataclass(frozen=True, eq=False)
class GradientJob:
    """What all batches of the second pass have in common: nothing in it depends on who runs it."""

    rows: Sequence[Tokens]
    collector: Collector[Any]
    cotangents: Sequence[Tensor]  # dJ/dy, each pushed back by itself
    point: Tensor  # [layer, component]
    component: Component
    # what each ask adds to the answer is contributed too, under the number after theirs
    answers: bool = False
    work: ClassVar[Work] = "gradients"

    def ready(self, model: Model) -> AbstractContextManager[None]:
        return at_rest(model.hf)

    def contribute(self, model: Model, fitting: Fitting, numbers: Sequence[int], add: Add) -> None:
        """Add what these rows contribute: for each cotangent its number, [row, layer, component], one row for
        all where they share their gates, and an ask of each row."""
        trunk, shared = Trunk(model), self.component.shared
        point = placed(self.point, model.device)
        ends: dict[str, Callable[[Tensor], Tensor]] = {
            "final": trunk.final,
            "logits": trunk.logits,
            "classified": lambda vectors: trunk.classified(trunk.pooled(vectors)),
        }

        def differentiate(some: Sequence[int], recompute: bool = model.waits_on_host) -> None:
            asks = asks_of_batch(self.collector, self._by_row, some, model.device)
            batch = inputs(model, [self.rows[n] for n in some])
            of_rows = np.asarray([self._by_row[n][0] for n in some])
            rows, width = batch["input_ids"].shape
            gates = [(gate.clone() if shared else gate.repeat(rows, 1)).requires_grad_() for gate in point]
            with torch.no_grad():
                plan = trunk.plan(batch)
            row, position = asks.places
            flat = placed(torch.from_numpy(np.unique(row * width + position)), model.device)
            with torch.enable_grad(), nullcontext() if recompute else QuickGelu():
                hidden = gated_blocks(trunk, plan, self.component, gates, flat, recompute=recompute)
                values = ends[self.collector.stage](asks.pick(hidden))
                pulled = [
                    self.collector.pull(placed(cotangent, values.device), asks.numbers, values.float())
                    for cotangent in self.cotangents
                ]
                totals = [each.sum() for each in pulled]
            by_row = []
            for number, total in enumerate(totals):
                worked(BACK * rows * width)
                slopes: Sequence[Tensor | None] = (None,)
                if total.requires_grad:
                    again = number < len(totals) - 1  # the graph is needed once more
                    slopes = torch.autograd.grad(total, gates, retain_graph=again, allow_unused=True)
                known = [slope for slope in slopes if slope is not None]
                if len(known) < len(slopes):
                    why = f": {model.fixed_weights}" if model.fixed_weights else ""
                    raise CannotDo(
                        f"{model.name} passes no gradients on to its gates here{why}. Load it in floats."
                    )
                by_row.append(torch.stack([slope[None] if shared else slope for slope in known], dim=1))
            # nothing is added before all of it is there: a batch whose memory runs out contributes nothing
            for number, part in enumerate(by_row):
                add(number, part, of_rows)
            if self.answers:
                add(len(by_row), pulled[-1].detach(), asks.numbers)

        fitting.run(numbers, differentiate, partial(differentiate, recompute=True))

    def parcels(self, model: Model, fitting: Fitting, numbers: Sequence[int]) -> list[Parcel]:
        given: list[tuple[int, Tensor, Numbers]] = []
        self.contribute(model, fitting, numbers, lambda *contributed: given.append(contributed))
        return [Parcel(number, 0, asks, values.cpu().numpy()) for number, values, asks in given]

    @cached_property
    def _by_row(self) -> list[Numbers]:
        return asks_by_row(self.collector, len(self.rows))


# ---- GELU


class QuickGelu(TorchFunctionMode):
    """While it is on, GELU of float32 and float64 on a CPU is x Φ(x), with torch's values to rounding: on the
    way back torch's own takes ten times as long as on the way there.

    d/dx x Φ(x) = Φ(x) + x φ(x)

    Fewer bits would be lost in every step, where torch's own rounds once.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        exact = func is torch.nn.functional.gelu and not kwargs and len(args) == 1
        if exact and args[0].is_cpu and args[0].dtype in (torch.float32, torch.float64):
            return _Gelu.apply(args[0])  # type: ignore[no-untyped-call]
        return func(*args, **kwargs)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        below = torch.erf(x * sqrt(0.5)).add_(1).mul_(0.5)
        ctx.save_for_backward(x, below)
        return x * below

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        x, below = ctx.saved_tensors
        density = (x * x).mul_(-0.5).exp_().mul_(1 / sqrt(2 * pi))
        return cast(Tensor, density.mul_(x).add_(below).mul_(slopes[0]))
