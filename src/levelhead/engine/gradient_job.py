"""The second pass of gradients as a job: what each batch of rows contributes, whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from levelhead.edits.placing import placed
from levelhead.engine.asks import Asks, asks_by_row, asks_of_batch, read_tokens
from levelhead.engine.batches import Tokens, inputs
from levelhead.engine.budget import Work
from levelhead.engine.collectors import Collector, Numbers
from levelhead.engine.gated import Component, gated_blocks
from levelhead.engine.gelu import QuickGelu
from levelhead.engine.memory import Fitting, Parcel
from levelhead.engine.trunk import Trunk
from levelhead.errors import CannotDo
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.work import BACK, worked

Add = Callable[[int, Tensor, Numbers], None]  # number of the cotangent, contributions, an ask of each


@dataclass(frozen=True, eq=False)
class GradientJob:
    """What all batches of the second pass have in common: nothing in it depends on who runs it."""

    rows: Sequence[Tokens]
    collector: Collector[Any]
    cotangents: Sequence[Tensor]  # dJ/dy, each pushed back by itself
    point: Tensor  # [layer, component]
    component: Component
    answers: bool = (
        False  # what each ask adds to the answer is contributed too, under the number after theirs
    )
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
            slopes, values = _contributions(self, _Pass(model, recompute), batch, asks)
            for number, part in enumerate(slopes):
                add(number, part, of_rows)
            if self.answers:
                add(len(slopes), values, asks.numbers)

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


def _contributions(
    job: GradientJob, given: _Pass, batch: dict[str, Tensor], asks: Asks
) -> tuple[list[Tensor], Tensor]:
    """What each row of a batch adds to dJ/dm: [row, layer, component], for each cotangent; and what each ask
    adds under the last of them: [ask]."""
    model, collector = given.model, asks.collector
    rows, width = batch["input_ids"].shape
    component, point = job.component, placed(job.point, model.device)
    gates = [component.repeated(gate, rows).requires_grad_() for gate in point]
    trunk = Trunk(model)
    with torch.no_grad():
        plan = trunk.plan(batch)
    flat = placed(torch.from_numpy(read_tokens([asks], width)), model.device)
    with torch.enable_grad(), nullcontext() if given.recompute else QuickGelu():
        vectors = asks.pick(gated_blocks(trunk, plan, component, gates, flat, recompute=given.recompute))
        values = _ends(trunk, vectors)[collector.stage]()
        pulled = [
            collector.pull(placed(cotangent, values.device), asks.numbers, values.float())
            for cotangent in job.cotangents
        ]
        totals = [each.sum() for each in pulled]
    last, tokens = totals[-1], rows * width
    slopes = [_pushed_back(model, total, gates, tokens, again=total is not last) for total in totals]
    by_row = [torch.stack([component.slopes(each) for each in own], dim=1) for own in slopes]
    return by_row, pulled[-1].detach()


def _ends(trunk: Trunk, vectors: Tensor) -> dict[str, Callable[[], Tensor]]:
    """What becomes of the last block's vectors, by the stage of a collector."""
    return {
        "final": lambda: trunk.final(vectors),
        "logits": lambda: trunk.logits(vectors),
        "classified": lambda: trunk.classified(trunk.pooled(vectors)),
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
