"""Exact gradients of all head gates, over any number of texts, in constant memory.

An objective J of a reading's answer y = sum over texts of y_c depends on the gates m only through y. So

    dJ/dm = sum_c <dJ/dy, dy_c/dm>

(docs/method.md, Head scores). One pass without gradients gives y, a tiny graph gives the cotangent dJ/dy, and
a second pass pushes it into the gates batch by batch. Each text has gates of its own there, which gives its
contribution without further cost: standard errors come from their spread within each stratum (a word's
texts), with the cotangent held fixed. A stratum of one text is not certain: its variance is pooled from the
others (_Sums).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.gates import HeadGates
from levelhead.engine.asks import Asks, asks_by_row, asks_of_batch, read_tokens
from levelhead.engine.batches import RowPool, inputs
from levelhead.engine.collectors import Collector
from levelhead.engine.gated import gated_blocks
from levelhead.engine.memory import Coming, Fitting
from levelhead.engine.readings import Reading
from levelhead.engine.run import answer_prepared
from levelhead.engine.trunk import Trunk
from levelhead.errors import BadOption, CannotDo
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.progress import steps

Doubles = NDArray[np.float64]
Objective = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class GateGradients:
    """dJ/dm for every head at m = 1, or at the gates that were asked for."""

    objective: float  # J
    scores: Doubles  # [layer, head]
    stderr: Doubles  # [layer, head]; nan when no stratum that J depends on has two texts
    n: int  # texts


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
    point = _point(model, at)
    variant = () if at is None else tuple(HeadGates(i, tuple(row)) for i, row in enumerate(point.tolist()))
    pool = RowPool(merge=False)
    collector = reading.prepare(model, pool, 1)
    answers = copy(collector)  # texts are tokenized once for both passes
    answer_prepared(model, pool, [answers], [variant], label=label, batch_tokens=batch_tokens)
    value, cotangent = _cotangent(objective, answers.answer()[0])
    sums = _Sums(model, collector, cotangent)
    by_row = asks_by_row(collector, len(pool.rows))
    fitting = Fitting(model, pool.rows, "gradients", batch_tokens)

    def differentiate(numbers: Sequence[int], recompute: bool = model.waits_on_host) -> None:
        asks = asks_of_batch(collector, by_row, numbers, model.device)
        batch = inputs(model, [pool.rows[n] for n in numbers])
        parts = _contributions(_Pass(model, cotangent, point, recompute), batch, asks)
        sums.add(parts, [by_row[n][0] for n in numbers])

    with at_rest(model.hf), steps(label, len(pool.rows)) as advance:
        for numbers in fitting.batches():
            fitting.run(numbers, differentiate, partial(differentiate, recompute=True))
            advance(len(numbers))
    return sums.result(value)


def _cotangent(objective: Objective, answer: Doubles) -> tuple[float, Tensor]:
    """J and dJ/dy at an answer."""
    point = torch.from_numpy(np.asarray(answer, np.float64)).requires_grad_()
    value = objective(point)
    (cotangent,) = torch.autograd.grad(value, point)
    if not bool(torch.isfinite(cotangent).all()):
        raise CannotDo(f"The objective has no finite gradient at its value {float(value.detach()):.4g}.")
    return float(value.detach()), cotangent


def _point(model: Model, at: Doubles | None) -> Tensor:
    """The gates at which to differentiate: [layer, head]."""
    shape = (model.layers, model.heads)
    values = np.ones(shape) if at is None else np.asarray(at, np.float64)
    if values.shape != shape or not np.isfinite(values).all():
        raise BadOption(
            f"Gates of shape {values.shape} came; {model.name} needs finite ones of shape {shape}."
        )
    return torch.from_numpy(values).float().to(model.device)


@dataclass(frozen=True, eq=False)
class _Pass:
    """What all batches of the second pass have in common."""

    model: Model
    cotangent: Tensor  # dJ/dy
    point: Tensor  # [layer, head]
    recompute: bool  # blocks run again on the way back, in less memory


def _contributions(given: _Pass, batch: dict[str, Tensor], asks: Asks) -> Tensor:
    """What each row of a batch adds to dJ/dm: [row, layer, head]."""
    model, collector = given.model, asks.collector
    rows, width = batch["input_ids"].shape
    gates = [gate.repeat(rows, 1).requires_grad_() for gate in given.point]
    trunk = Trunk(model)
    with torch.no_grad():
        plan = trunk.plan(batch)
    flat = torch.from_numpy(read_tokens([asks], width)).to(model.device)
    with torch.enable_grad():
        vectors = asks.pick(gated_blocks(model, plan, gates, flat, recompute=given.recompute))
        values = trunk.final(vectors) if collector.stage == "final" else trunk.logits(vectors)
        cotangent = given.cotangent.to(values.device)
        total = collector.pull(cotangent, asks.numbers, values.float()).sum()
    gradients = torch.autograd.grad(total, gates, allow_unused=True) if total.requires_grad else (None,)
    if any(gradient is None for gradient in gradients):
        why = f": {model.fixed_weights}" if model.fixed_weights else ""
        raise CannotDo(f"{model.name} passes no gradients on to its gates here{why}. Load it in floats.")
    return torch.stack([gradient for gradient in gradients if gradient is not None], dim=1)


class _Sums:
    """Sums and squares of contributions within each stratum; their size does not grow with the texts.

    Stratum w adds the mean over its n_w texts of z_c = <g_w, dy_c/dm>, g_w = dJ/dy_w; a text's part is u_c =
    z_c / n_w.

        stderr² = Σ_{n > 1} var_w(z) / n_w + σ² Σ_{n = 1} |g_w|²
        σ²      = Σ (n_w − 1) var_w(z) / Σ (n_w − 1) |g_w|²

    One text has no spread of its own: it gets that of the other strata, pooled, in proportion to its squared
    cotangent.
    """

    def __init__(self, model: Model, collector: Collector[Any], cotangent: Tensor) -> None:
        strata = 1 + max((collector.stratum(a) for a in range(len(collector.rows))), default=0)
        self._collector = collector
        self._shape = (model.layers, model.heads)
        # |g_w|²: a stratum is a row of the answer, or all of it, where there is nothing to compare with
        self._steep = cotangent.square().sum(-1) if strata > 1 else torch.ones(1, dtype=torch.float64)
        self._count = torch.zeros(strata, dtype=torch.float64)
        self._sum = torch.zeros(strata, *self._shape, dtype=torch.float64)
        self._square = torch.zeros(strata, *self._shape, dtype=torch.float64)
        self._coming: tuple[Coming, Sequence[int]] | None = None

    def add(self, contributions: Tensor, asks: Sequence[int]) -> None:
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
        stratum = torch.tensor([self._collector.stratum(ask) for ask in asks])
        values = coming.open().double()
        self._count.index_add_(0, stratum, torch.ones(len(asks), dtype=torch.float64))
        self._sum.index_add_(0, stratum, values)
        self._square.index_add_(0, stratum, values.square())

    def result(self, objective: float) -> GateGradients:
        """The gradients, and their standard errors, of everything that was added."""
        self._add_up()
        n = self._count[:, None, None]
        spread = (self._square - self._sum.square() / n.clamp(min=1)).clamp(min=0)  # Σ (u − mean u)²
        variance = torch.where(n > 1, n * spread / (n - 1).clamp(min=1), 0.0).sum(0)
        evidence = ((self._count - 1).clamp(min=0) * self._steep).sum()
        if (single := self._count == 1).any():
            variance += self._steep[single].sum() * (n.square() * spread).sum(0) / evidence
        stderr = variance.sqrt().numpy() if evidence > 0 else np.full(self._shape, np.nan)
        return GateGradients(objective, self._sum.sum(0).numpy(), stderr, int(self._count.sum()))
