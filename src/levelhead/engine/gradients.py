"""Exact gradients of all head gates, over any number of texts, in constant memory.

An objective J of a reading's answer y = sum over texts of y_c depends on the gates m only through y. So

    dJ/dm = sum_c <dJ/dy, dy_c/dm>

(docs/method.md, Head scores). One pass without gradients gives y, a tiny graph gives the cotangent dJ/dy, and
a second pass pushes it into the gates batch by batch. Each text has gates of its own there, which gives its
contribution without further cost: standard errors come from their spread within each stratum (a word's
texts), with the cotangent held fixed. A stratum of one text is not certain: its variance is pooled from the
others (_WayBack).

Several objectives of one answer share both passes. Those that depend on different rows of the answer, such as
|SEAT| of two halves of the words, are pushed back together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.gates import HeadGates
from levelhead.edits.placing import placed
from levelhead.engine.asks import Asks, asks_by_row, asks_of_batch, read_tokens
from levelhead.engine.batches import RowPool, Tokens, inputs
from levelhead.engine.budget import Work
from levelhead.engine.collectors import Collector, Numbers
from levelhead.engine.gated import gated_blocks
from levelhead.engine.helped import crew_of
from levelhead.engine.memory import Coming, Fitting, Parcel
from levelhead.engine.readings import Reading
from levelhead.engine.run import answer_prepared
from levelhead.engine.trunk import Trunk
from levelhead.errors import BadOption, CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.progress import steps
from levelhead.work import BACK, worked

Doubles = NDArray[np.float64]
Objective = Callable[[Tensor], Tensor]
Add = Callable[[int, Tensor, Numbers], None]  # number of the cotangent, contributions, an ask of each
_FLAT = 1e-5  # of the steepest row's |dJ/dy|: below it a slope is rounding of float32, another on each CPU


@dataclass(frozen=True)
class GateGradients:
    """dJ/dm for every head at m = 1, or at the gates that were asked for."""

    objective: float  # J
    scores: Doubles  # [layer, head]
    stderr: Doubles  # [layer, head]; nan when no stratum that J depends on has two texts
    n: int  # texts that J depends on


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

    reading: StaticVectors (objective of [word, hidden]) or TokenLogProbs (objective of [text, token]).
    at: the gates [layer, head] at which the derivative is taken; 1 by default.
    """
    several = several_gate_gradients(
        model, reading, [objective], label=label, batch_tokens=batch_tokens, at=at
    )
    return several[0]


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
    point = _point(model, at)
    variant = () if at is None else tuple(HeadGates(i, tuple(row)) for i, row in enumerate(point.tolist()))
    with asking(model.hf):
        pool = RowPool(merge=False)
        collector = reading.prepare(model, pool, 1)
        answers = copy(collector)  # texts are tokenized once for both passes
        answer_prepared(model, pool, [answers], [variant], label=label, batch_tokens=batch_tokens)
        back = _Back(model, pool, collector, point)
        return back.gradients(answers.answer()[0], objectives, label, batch_tokens)


def gradients_at_answer(
    model: Model, reading: Reading[Any], answer: Doubles, objectives: Sequence[Objective], label: str
) -> list[GateGradients]:
    """The gradients of several objectives of a reading's answer that is known already: one pass is enough."""
    with asking(model.hf):
        pool = RowPool(merge=False)
        back = _Back(model, pool, reading.prepare(model, pool, 1), _point(model, None))
        return back.gradients(answer, objectives, label, None)


@dataclass(frozen=True, eq=False)
class _Back:
    """The way from an answer to the gates: which texts it is of, and at which gates."""

    model: Model
    pool: RowPool
    collector: Collector[Any]
    point: Tensor

    def gradients(
        self, answer: Doubles, objectives: Sequence[Objective], label: str, batch_tokens: int | None
    ) -> list[GateGradients]:
        """What each objective of the answer does with each gate."""
        model, collector, strata = self.model, self.collector, _strata(self.collector)
        slopes = [_slope(objective, answer, strata) for objective in objectives]
        ways = [_WayBack(model, collector, together) for together in _on_different_rows(slopes, collector)]
        job = GradientJob(self.pool.rows, collector, [way.cotangent for way in ways], self.point)
        with steps(label, len(self.pool.rows)) as advance:
            for rows in _contributed(model, job, ways, batch_tokens):
                advance(rows)
        of_slope = {slope: way.result(slope) for way in ways for slope in way.slopes}
        return [of_slope[slope] for slope in slopes]


def _contributed(
    model: Model, job: GradientJob, ways: Sequence[_WayBack], batch_tokens: int | None
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
class _Slope:
    """An objective at the answer: J, and its cotangent dJ/dy."""

    value: float
    cotangent: Tensor

    def steepness(self, strata: int) -> Tensor:
        """|dJ/dy|² by stratum: a row of the answer, or all of it, where there is nothing to compare with."""
        return self.cotangent.square().sum(-1) if strata > 1 else torch.ones(1, dtype=torch.float64)


def _slope(objective: Objective, answer: Doubles, strata: int) -> _Slope:
    """An objective at the answer; a stratum whose slope is rounding has none, whatever the processor."""
    y = torch.from_numpy(np.asarray(answer, np.float64)).requires_grad_()
    value = objective(y)
    (cotangent,) = torch.autograd.grad(value, y)
    if not bool(torch.isfinite(cotangent).all()):
        raise CannotDo(f"The objective has no finite gradient at its value {float(value.detach()):.4g}.")
    slope = _Slope(float(value.detach()), cotangent)
    if strata == 1:
        return slope
    steep = slope.steepness(strata)
    return replace(slope, cotangent=cotangent * (steep > _FLAT**2 * steep.max())[:, None])


def _point(model: Model, at: Doubles | None) -> Tensor:
    """The gates at which to differentiate: [layer, head]."""
    shape = (model.layers, model.heads)
    values = np.ones(shape) if at is None else np.asarray(at, np.float64)
    if values.shape != shape or not np.isfinite(values).all():
        raise BadOption(
            f"Gates of shape {values.shape} came; {model.name} needs finite ones of shape {shape}."
        )
    return torch.from_numpy(values).float()


@dataclass(frozen=True, eq=False)
class GradientJob:
    """What all batches of the second pass have in common: nothing in it depends on who runs it."""

    rows: Sequence[Tokens]
    collector: Collector[Any]
    cotangents: Sequence[Tensor]  # dJ/dy, each pushed back by itself
    point: Tensor  # [layer, head]
    work: ClassVar[Work] = "gradients"

    def ready(self, model: Model) -> AbstractContextManager[None]:
        """The model as its batches need it."""
        return at_rest(model.hf)

    def contribute(self, model: Model, fitting: Fitting, numbers: Sequence[int], add: Add) -> None:
        """Add what these rows contribute: for each cotangent its number, [row, layer, head], and an ask of
        each row."""

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
    """What each row of a batch adds to dJ/dm: [row, layer, head], for each cotangent."""
    model, collector = given.model, asks.collector
    rows, width = batch["input_ids"].shape
    gates = [gate.repeat(rows, 1).requires_grad_() for gate in placed(job.point, model.device)]
    trunk = Trunk(model)
    with torch.no_grad():
        plan = trunk.plan(batch)
    flat = placed(torch.from_numpy(read_tokens([asks], width)), model.device)
    with torch.enable_grad():
        vectors = asks.pick(gated_blocks(model, plan, gates, flat, recompute=given.recompute))
        values = trunk.final(vectors) if collector.stage == "final" else trunk.logits(vectors)
        totals = [
            collector.pull(placed(cotangent, values.device), asks.numbers, values.float()).sum()
            for cotangent in job.cotangents
        ]
    last = totals[-1]
    return [_pushed_back(model, total, gates, rows * width, again=total is not last) for total in totals]


def _pushed_back(model: Model, total: Tensor, gates: list[Tensor], tokens: int, again: bool) -> Tensor:
    """The slope of a batch's total in its gates: [row, layer, head]. again: the graph is needed once more."""
    slopes: Sequence[Tensor | None] = (None,)
    worked(BACK * tokens)
    if total.requires_grad:
        slopes = torch.autograd.grad(total, gates, retain_graph=again, allow_unused=True)
    if any(slope is None for slope in slopes):
        why = f": {model.fixed_weights}" if model.fixed_weights else ""
        raise CannotDo(f"{model.name} passes no gradients on to its gates here{why}. Load it in floats.")
    return torch.stack([slope for slope in slopes if slope is not None], dim=1)


def _strata(collector: Collector[Any]) -> int:
    return 1 + max((collector.stratum(a) for a in range(len(collector.rows))), default=0)


def _on_different_rows(slopes: Sequence[_Slope], collector: Collector[Any]) -> list[list[_Slope]]:
    """Slopes of objectives that depend on different rows of the answer, together: their cotangents add."""
    strata = _strata(collector)
    together: list[list[_Slope]] = []
    taken: list[Tensor] = []  # [stratum], of each of them
    for slope in slopes:
        rows = slope.steepness(strata) > 0
        place = next((i for i, others in enumerate(taken) if not bool((others & rows).any())), None)
        if place is None:
            together.append([slope])
            taken.append(rows)
        else:
            together[place].append(slope)
            taken[place] = taken[place] | rows
    return together


class _WayBack:
    """The contributions of objectives whose cotangents are pushed back together.

    Sums and squares within each stratum; their size does not grow with the texts. Stratum w adds the mean
    over its n_w texts of z_c = <g_w, dy_c/dm>, g_w = dJ/dy_w; a text's part is u_c = z_c / n_w.

        stderr² = Σ_{n > 1} var_w(z) / n_w + σ² Σ_{n = 1} |g_w|²
        σ²      = Σ (n_w − 1) var_w(z) / Σ (n_w − 1) |g_w|²

    One text has no spread of its own: it gets that of the other strata, pooled, in proportion to its squared
    cotangent.
    """

    def __init__(self, model: Model, collector: Collector[Any], slopes: Sequence[_Slope]) -> None:
        strata = _strata(collector)
        self.slopes = slopes
        self.cotangent = torch.stack([slope.cotangent for slope in slopes]).sum(0)
        self._collector = collector
        self._shape = (model.layers, model.heads)
        self._count = torch.zeros(strata, dtype=torch.float64)
        self._sum = torch.zeros(strata, *self._shape, dtype=torch.float64)
        self._square = torch.zeros(strata, *self._shape, dtype=torch.float64)
        self._coming: tuple[Coming, Numbers] | None = None

    def add(self, contributions: Tensor, asks: Numbers) -> None:
        """Contributions of some texts [text, layer, head], and an ask of each, which names its stratum.

        Those of the batch before are added up meanwhile: a card works while the host adds.
        """
        coming = Coming(contributions)
        self._add_up()
        self._coming = coming, asks

    def _add_up(self) -> None:
        if self._coming is None:
            return
        coming, asks = self._coming
        self._coming = None
        stratum = torch.tensor([self._collector.stratum(int(ask)) for ask in asks])
        values = coming.open().double()
        self._count.index_add_(0, stratum, torch.ones(len(asks), dtype=torch.float64))
        self._sum.index_add_(0, stratum, values)
        self._square.index_add_(0, stratum, values.square())

    def result(self, slope: _Slope) -> GateGradients:
        """The gradients of one of the objectives with their standard errors, from all that was added."""
        self._add_up()
        steep = slope.steepness(len(self._count))
        own = steep > 0
        steep, count, total, square = steep[own], self._count[own], self._sum[own], self._square[own]
        n = count[:, None, None]
        spread = (square - total.square() / n.clamp(min=1)).clamp(min=0)  # Σ (u − mean u)²
        variance = torch.where(n > 1, n * spread / (n - 1).clamp(min=1), 0.0).sum(0)
        evidence = ((count - 1).clamp(min=0) * steep).sum()
        if (single := count == 1).any():
            variance += steep[single].sum() * (n.square() * spread).sum(0) / evidence
        stderr = variance.sqrt().numpy() if evidence > 0 else np.full(self._shape, np.nan)
        return GateGradients(slope.value, total.sum(0).numpy(), stderr, int(count.sum()))
