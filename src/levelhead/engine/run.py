"""Readings x variants -> arrays. The only place that runs a forward pass without gradients.

Variants are walked as a tree: every block runs once for each distinct history of edits before it, so variants
share every layer that they have in common. At the last block only the rows that somebody reads are computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from levelhead.edits.sites import AFTER, INSIDE, Edit, Part, Site, Variant
from levelhead.engine.batches import RowPool, batches, inputs, token_budget
from levelhead.engine.collectors import Collector
from levelhead.engine.progress import steps
from levelhead.engine.readings import Reading
from levelhead.engine.trunk import Plan, Trunk, only_rows
from levelhead.errors import CannotDo
from levelhead.models.hooks import attached, on_heads, split_qkv
from levelhead.models.model import Model

T = TypeVar("T")
Ints = NDArray[np.int64]
_LOGIT_FLOATS = 1 << 24  # vocabulary logits held at once


class Answers:
    """What came back. `answers[reading]` has the type that the reading promises, in the caller's order."""

    def __init__(self, collected: dict[int, Any]) -> None:
        self._collected = collected

    def __getitem__(self, reading: Reading[T]) -> T:
        return cast(T, self._collected[id(reading)])


def read(
    model: Model,
    readings: Sequence[Reading[Any]],
    variants: Sequence[Variant] = ((),),
    *,
    label: str = "Asking",
    batch_tokens: int | None = None,
) -> Answers:
    """Ask a model, in every variant of it, everything at once."""
    for edit in {id(edit): edit for variant in variants for edit in variant}.values():
        model.check_site(edit.site)
    pool = RowPool()
    collectors = [reading.prepare(model, pool, len(variants)) for reading in readings]
    budget = batch_tokens or token_budget(model)
    asked = [_asks_by_row(collector, len(pool.rows)) for collector in collectors]
    with torch.inference_mode(), _eager_if(model, collectors), steps(label, len(pool.rows)) as advance:
        for numbers in batches(pool.rows, budget, equal=model.family.padding_leaks):
            batch = _Batch(model, pool, numbers, list(zip(collectors, asked, strict=True)))
            batch.run(variants)
            advance(len(numbers))
    return Answers({id(r): c.answer() for r, c in zip(readings, collectors, strict=True)})


def read_one(
    model: Model, reading: Reading[T], variants: Sequence[Variant] = ((),), *, label: str = "Asking"
) -> T:
    """One reading's answer."""
    return read(model, [reading], variants, label=label)[reading]


def _asks_by_row(collector: Collector[Any], rows: int) -> list[Ints]:
    order = np.argsort(np.asarray(collector.rows, np.int64), kind="stable")
    counts = np.bincount(np.asarray(collector.rows, np.int64), minlength=rows)
    return list(np.split(order, np.cumsum(counts)[:-1])) if rows else []


@contextmanager
def _eager_if(model: Model, collectors: Sequence[Collector[Any]]) -> Iterator[None]:
    """Attention weights exist only under eager attention; the model's own choice comes back afterwards."""
    before = model.hf.config._attn_implementation
    if before == "eager" or not any(c.stage == "attention" for c in collectors):
        yield
        return
    model.hf.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.hf.set_attn_implementation(before)


@dataclass
class _Asked:
    """One collector's asks within a batch."""

    collector: Collector[Any]
    asks: Ints
    row: Tensor  # [ask]: which row of the batch
    position: Tensor  # [ask]

    def pick(self, h: Tensor) -> Tensor:
        """[batch, token, ...] -> [ask, ...]"""
        return h[self.row, self.position]


class _Batch:
    """All asks of some rows, answered for all variants."""

    def __init__(
        self, model: Model, pool: RowPool, numbers: list[int], asked: list[tuple[Collector[Any], list[Ints]]]
    ) -> None:
        self.model, self.trunk = model, Trunk(model)
        rows = [pool.rows[n] for n in numbers]
        self.inputs = inputs(model, rows)
        self.shape = (len(rows), int(self.inputs["input_ids"].shape[1]))
        self.asked = [self._here(collector, by_row, numbers) for collector, by_row in asked]
        self.asked = [a for a in self.asked if len(a.asks)]
        self.ends = [a for a in self.asked if a.collector.stage in ("final", "logits", "pooled", "judged")]
        self.states = [a for a in self.asked if a.collector.stage == "state"]
        self.attention = [a for a in self.asked if a.collector.stage == "attention"]

    def _here(self, collector: Collector[Any], by_row: list[Ints], numbers: list[int]) -> _Asked:
        parts = [by_row[n] for n in numbers]
        asks = np.concatenate(parts)
        row = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
        position = np.asarray([collector.positions[a] for a in asks], np.int64)
        device = self.model.device
        return _Asked(
            collector, asks, torch.from_numpy(row).to(device), torch.from_numpy(position).to(device)
        )

    # ---- the walk

    def run(self, variants: Sequence[Variant]) -> None:
        """Answer everything. Stage 2l runs block l with its inner edits, stage 2l+1 edits its output."""
        if not self.asked:
            return
        self.variants = variants
        plan = self.trunk.plan(self.inputs)
        for members, hidden, trace in self._walk(plan, 0, plan.hidden, list(range(len(variants))), ()):
            self._give(members, hidden, trace)

    @property
    def _stop(self) -> int:
        if self.ends:
            return (
                2 * self.model.layers - 1
            )  # the last block's output edits are applied to the rows that are read
        layers = [a.collector.site.layer for a in self.states if a.collector.site is not None]
        return 2 * (self.model.layers if self.attention else max(layers) + 1)

    def _walk(
        self, plan: Plan, stage: int, hidden: Tensor, members: list[int], trace: tuple[Any, ...]
    ) -> Iterator[tuple[list[int], Tensor, tuple[Any, ...]]]:
        while stage < self._stop:
            groups = self._split(members, stage // 2, AFTER if stage % 2 else INSIDE)
            if len(groups) > 1:
                for edits, some in groups:
                    out, seen = self._step(plan, stage, hidden, edits)
                    yield from self._walk(plan, stage + 1, out, some, trace + seen)
                return
            hidden, seen = self._step(plan, stage, hidden, groups[0][0])
            trace += seen
            stage += 1
        yield members, hidden, trace

    def _split(
        self, members: list[int], layer: int, parts: tuple[Part, ...]
    ) -> list[tuple[tuple[Edit, ...], list[int]]]:
        groups: dict[tuple[Edit, ...], list[int]] = defaultdict(list)
        for member in members:
            here = (e for e in self.variants[member] if e.site.part in parts)
            groups[tuple(e for e in here if e.site.layer == layer or e.site.part == "pooled")].append(member)
        return list(groups.items())

    def _step(
        self, plan: Plan, stage: int, hidden: Tensor, edits: tuple[Edit, ...]
    ) -> tuple[Tensor, tuple[Any, ...]]:
        layer = stage // 2
        if stage % 2:
            for edit in edits:
                hidden = _after(edit, hidden)
            return hidden, self._seen_after(layer, hidden)
        seen: list[Any] = []
        with ExitStack() as stack:
            stack.enter_context(attached(self.model, edits))
            stack.enter_context(self._capturing(layer, seen))
            stack.enter_context(self._narrowed(layer))
            out = self.trunk.block(plan, layer, hidden, weights=bool(self.attention))
        return out, tuple(seen)

    def _narrowed(self, layer: int) -> Any:
        if layer < self.model.layers - 1 or not self.ends or self.states or self.attention:
            return nullcontext()
        flat = torch.cat([a.row * self.shape[1] + a.position for a in self.ends]).unique()
        if 2 * len(flat) > self.shape[0] * self.shape[1]:
            return nullcontext()
        return only_rows(self.model, layer, flat, self.shape)

    # ---- what is seen on the way

    @contextmanager
    def _capturing(self, layer: int, seen: list[Any]) -> Iterator[None]:
        block = self.model.blocks[layer]
        with ExitStack() as stack:
            if self.attention:
                hook = self._on_attention(seen)
                stack.callback(
                    block.get_submodule(self.model.family.attention).register_forward_hook(hook).remove
                )
            for asked in self.states:
                site = cast(Site, asked.collector.site)
                if site.layer == layer and site.part in INSIDE:
                    stack.callback(self._hook_state(asked, site, seen).remove)
            yield

    def _on_attention(self, seen: list[Any]) -> Any:
        def hook(_: nn.Module, args: Any, out: Any) -> None:
            found = [
                x
                for x in out[1:]
                if isinstance(x, Tensor) and x.dim() == 4 and x.shape[1] == self.model.heads
            ]
            if not found:
                raise CannotDo(
                    f"{self.model.name} does not return its attention weights, even under eager attention."
                )
            seen.extend(
                (id(asked), found[0].transpose(1, 2)[asked.row, asked.position]) for asked in self.attention
            )

        return hook

    def _hook_state(self, asked: _Asked, site: Site, seen: list[Any]) -> Any:
        def heads(h: Tensor) -> Tensor:
            seen.append((id(asked), asked.pick(h)))
            return h

        if site.part == "heads":
            return self.model.output_projection(site.layer).register_forward_pre_hook(
                on_heads(self.model, heads)
            )
        which = ("query", "key", "value").index(site.part)

        def qkv(_: nn.Module, args: Any, out: Tensor) -> None:
            seen.append((id(asked), asked.pick(split_qkv(self.model, out, which)[which])))

        return self.model.qkv_module(site.layer, site.part).register_forward_hook(qkv)

    def _seen_after(self, layer: int, hidden: Tensor) -> tuple[Any, ...]:
        here = [a for a in self.states if a.collector.site in (Site(layer, "block"), Site(layer, "cls"))]
        return tuple((id(a), a.pick(hidden)) for a in here)

    # ---- handing over

    def _give(self, members: list[int], hidden: Tensor, trace: tuple[Any, ...]) -> None:
        for asked in (*self.states, *self.attention):
            found = [value for owner, value in trace if owner == id(asked)]
            if asked.collector.stage == "state" and not found:
                site = cast(
                    Site, asked.collector.site
                )  # the last block's output, which no stage has edited yet
                self._give_last_state(asked, members, hidden, site)
                continue
            value = torch.stack(found, dim=1) if asked.collector.stage == "attention" else found[0]
            for member in members:
                asked.collector.take(member, asked.asks, value)
        groups = self._split(members, self.model.layers - 1, AFTER)
        for asked in self.ends:
            rows = torch.cat([_edited_rows(edits, asked.pick(hidden), asked.position) for edits, _ in groups])
            self._give_end(asked, rows, [some for _, some in groups])

    def _give_last_state(self, asked: _Asked, members: list[int], hidden: Tensor, site: Site) -> None:
        for edits, some in self._split(members, site.layer, AFTER):
            rows = _edited_rows(edits, asked.pick(hidden), asked.position)
            for member in some:
                asked.collector.take(member, asked.asks, rows)

    def _give_end(self, asked: _Asked, rows: Tensor, groups: list[list[int]]) -> None:
        """rows: the asks' rows of each group, one group after the other; what follows runs once for all of
        them."""
        stage, size = asked.collector.stage, len(asked.asks)
        if stage == "logits":
            for group, own in zip(groups, rows.split(size), strict=True):
                self._give_logits(asked, own, group)
        elif stage == "final":
            for group, values in zip(groups, self.trunk.final(rows).split(size), strict=True):
                for member in group:
                    asked.collector.take(member, asked.asks, values)
        else:
            self._give_pooled(asked, self.trunk.pooled(rows).split(size), groups)

    def _give_logits(self, asked: _Asked, rows: Tensor, members: list[int]) -> None:
        size = max(1, _LOGIT_FLOATS // int(self.model.config.vocab_size))
        for start in range(0, len(rows), size):
            logits = self.trunk.logits(rows[start : start + size])
            for member in members:
                asked.collector.take(member, asked.asks[start : start + size], logits)

    def _give_pooled(self, asked: _Asked, pooled: Sequence[Tensor], groups: list[list[int]]) -> None:
        judged: list[tuple[list[int], Tensor]] = []
        for own, group in zip(pooled, groups, strict=True):
            for edits, some in self._split(group, 0, ("pooled",)):
                vector = own
                for edit in edits:
                    vector = edit(vector)
                judged.append((some, vector))
        vectors = torch.cat([vector for _, vector in judged])
        values = (vectors if asked.collector.stage == "pooled" else self.trunk.judge(vectors)).cpu()
        for (some, _), value in zip(judged, values.split(len(asked.asks)), strict=True):
            for member in some:
                asked.collector.take(member, asked.asks, value)


def _after(edit: Edit, hidden: Tensor) -> Tensor:
    if edit.site.part == "block":
        return edit(hidden)
    return torch.cat([edit(hidden[:, :1]), hidden[:, 1:]], dim=1)


def _edited_rows(edits: Sequence[Edit], rows: Tensor, position: Tensor) -> Tensor:
    for edit in edits:
        rows = _after_rows(edit, rows, position)
    return rows


def _after_rows(edit: Edit, rows: Tensor, position: Tensor) -> Tensor:
    """The same for rows that were picked out already: a cls edit concerns those at position 0."""
    if edit.site.part == "block" or not bool(position.any()):
        return edit(rows)
    return torch.where((position == 0)[:, None], edit(rows), rows)
