"""One batch for all variants, walked as a tree: every block runs once for each distinct history of edits
before it.

So variants share every layer that they have in common. At the last block only tokens that somebody reads are
computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from levelhead.edits.placing import placed
from levelhead.edits.sites import AFTER, INSIDE, Edit, Part, Site, Variant
from levelhead.engine.asks import Asks, edited_vectors, read_tokens
from levelhead.engine.batches import Tokens, inputs
from levelhead.engine.memory import Handed
from levelhead.engine.trunk import Plan, Trunk, only_rows
from levelhead.errors import CannotDo
from levelhead.models.hooks import attached, on_heads, on_input, split_qkv
from levelhead.models.model import Model

Seen = tuple[int, Tensor]  # id of the asks that wanted it, and what they saw: [ask, ...]
_LOGIT_FLOATS = 1 << 24  # vocabulary logits held at once; on a card four times as many


class Batch:
    """All asks of some rows, answered for all variants."""

    def __init__(self, model: Model, rows: Sequence[Tokens], asks: Sequence[Asks], handed: Handed) -> None:
        self.model, self.trunk, self.handed = model, Trunk(model), handed
        self.inputs = inputs(model, rows)
        self.shape = (len(rows), int(self.inputs["input_ids"].shape[1]))
        self.asks = [some for some in asks if len(some.numbers)]
        self.ends = self._at("final", "logits", "pooled", "classified")
        self.states = self._at("state")
        self.attention = self._at("attention")

    def _at(self, *stages: str) -> list[Asks]:
        return [asks for asks in self.asks if asks.collector.stage in stages]

    # ---- the walk

    def run(self, variants: Sequence[Variant]) -> None:
        """Answer everything. Stage 2l runs block l with its inner edits, stage 2l+1 edits its output."""
        if not self.asks:
            return
        self.variants = variants
        plan = self.trunk.plan(self.inputs)
        for members, hidden, trace in self._walk(plan, 0, plan.hidden, list(range(len(variants))), ()):
            self._give(members, hidden, trace)

    @property
    def _stop(self) -> int:
        if self.ends:  # the last block's output edits are applied to the vectors that are read, in _give
            return 2 * self.model.layers - 1
        layers = [a.collector.site.layer for a in self.states if a.collector.site is not None]
        return 2 * (self.model.layers if self.attention else max(layers) + 1)

    def _walk(
        self, plan: Plan, stage: int, hidden: Tensor, members: list[int], trace: tuple[Seen, ...]
    ) -> Iterator[tuple[list[int], Tensor, tuple[Seen, ...]]]:
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
    ) -> tuple[Tensor, tuple[Seen, ...]]:
        layer = stage // 2
        if stage % 2:
            for edit in edits:
                hidden = _after(edit, hidden)
            return hidden, self._seen_after(layer, hidden)
        seen: list[Seen] = []
        with ExitStack() as stack:
            stack.enter_context(attached(self.model, edits))
            stack.enter_context(self._capturing(layer, seen))
            stack.enter_context(self._narrowed(layer))
            out = self.trunk.block(plan, layer, hidden, weights=bool(self.attention))
        return out, tuple(seen)

    def _narrowed(self, layer: int) -> AbstractContextManager[None]:
        if layer < self.model.layers - 1 or self._read is None:
            return nullcontext()
        return only_rows(self.model, layer, self._read, self.shape)

    @cached_property
    def _read(self) -> Tensor | None:
        """The tokens that the last block computes; None: all, where most are read or something inside is."""
        if not self.ends or self.states or self.attention:
            return None
        flat = read_tokens(self.ends, self.shape[1])
        few = 2 * len(flat) <= self.shape[0] * self.shape[1]
        return placed(torch.from_numpy(flat), self.model.device) if few else None

    # ---- what is seen on the way

    @contextmanager
    def _capturing(self, layer: int, seen: list[Seen]) -> Iterator[None]:
        attention = self.model.blocks[layer].get_submodule(self.model.family.attention)
        with ExitStack() as stack:
            if self.attention:
                stack.callback(attention.register_forward_hook(self._on_attention(seen)).remove)
            for asks in self.states:
                site = cast(Site, asks.collector.site)
                if site.layer == layer and site.part in INSIDE:
                    stack.callback(self._hook_state(asks, site, seen).remove)
            yield

    def _on_attention(self, seen: list[Seen]) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_: nn.Module, args: Any, out: Any) -> None:
            tensors = (x for x in out[1:] if isinstance(x, Tensor) and x.dim() == 4)
            weights = next((x for x in tensors if x.shape[1] == self.model.heads), None)
            if weights is None:
                raise CannotDo(
                    f"{self.model.name} does not return its attention weights, even under eager attention."
                )
            seen.extend((id(asks), asks.pick(weights.transpose(1, 2))) for asks in self.attention)

        return hook

    def _hook_state(self, asks: Asks, site: Site, seen: list[Seen]) -> RemovableHandle:
        def note(h: Tensor) -> Tensor:
            rows = h.unflatten(0, self.shape) if h.dim() == 2 else h  # OPT's MLP gets all tokens in one row
            seen.append((id(asks), asks.pick(rows)))
            return h

        if site.part in ("neurons", "mlp"):
            down = self.model.down_projection(site.layer)
            if site.part == "neurons":
                return down.register_forward_pre_hook(on_input(note))
            return down.register_forward_hook(lambda _, args, out: note(out))
        if site.part == "heads":
            return self.model.output_projection(site.layer).register_forward_pre_hook(
                on_heads(self.model, note)
            )
        which = ("query", "key", "value").index(site.part)

        def qkv(_: nn.Module, args: Any, out: Tensor) -> None:
            seen.append((id(asks), asks.pick(split_qkv(self.model, out, which)[which])))

        return self.model.qkv_module(site.layer, site.part).register_forward_hook(qkv)

    def _seen_after(self, layer: int, hidden: Tensor) -> tuple[Seen, ...]:
        sites = (Site(layer, "block"), Site(layer, "cls"))
        return tuple((id(asks), asks.pick(hidden)) for asks in self.states if asks.collector.site in sites)

    # ---- handing over

    def _give(self, members: list[int], hidden: Tensor, trace: tuple[Seen, ...]) -> None:
        for asks in (*self.states, *self.attention):
            values = [value for owner, value in trace if owner == id(asks)]
            if asks.collector.stage == "state" and not values:
                self._give_last_state(asks, members, hidden)
                continue
            value = _together(values) if asks.collector.stage == "attention" else values[0]
            for member in members:
                self.handed.take(asks.collector, member, asks.numbers, value)
        groups = self._split(members, self.model.layers - 1, AFTER)
        for asks in self.ends:
            vectors = [edited_vectors(edits, asks, hidden) for edits, _ in groups]
            self._give_end(asks, torch.cat(vectors), [some for _, some in groups])

    def _give_last_state(self, asks: Asks, members: list[int], hidden: Tensor) -> None:
        """Hand over the last block's output, which no stage has edited yet."""
        for edits, some in self._split(members, cast(Site, asks.collector.site).layer, AFTER):
            vectors = edited_vectors(edits, asks, hidden)
            for member in some:
                self.handed.take(asks.collector, member, asks.numbers, vectors)

    def _give_end(self, asks: Asks, vectors: Tensor, groups: list[list[int]]) -> None:
        """vectors: the asks' vectors of each group, one group after the other; the rest runs once for all."""
        stage, size = asks.collector.stage, len(asks.numbers)
        if stage == "logits":
            for group, own in zip(groups, vectors.split(size), strict=True):
                self._give_logits(asks, own, group)
        elif stage == "final":
            for group, values in zip(groups, self.trunk.final(vectors).split(size), strict=True):
                for member in group:
                    self.handed.take(asks.collector, member, asks.numbers, values)
        else:
            self._give_pooled(asks, self.trunk.pooled(vectors).split(size), groups)

    def _give_logits(self, asks: Asks, vectors: Tensor, members: list[int]) -> None:
        floats = _LOGIT_FLOATS * (4 if vectors.is_cuda else 1)
        size = max(1, floats // int(self.model.config.vocab_size))
        for start in range(0, len(vectors), size):
            logits = self.trunk.logits(vectors[start : start + size])
            for member in members:
                self.handed.take(asks.collector, member, asks.numbers[start : start + size], logits)

    def _give_pooled(self, asks: Asks, pooled: Sequence[Tensor], groups: list[list[int]]) -> None:
        edited: list[tuple[list[int], Tensor]] = []
        for own, group in zip(pooled, groups, strict=True):
            for edits, some in self._split(group, 0, ("pooled",)):
                vectors = own
                for edit in edits:
                    vectors = edit(vectors)
                edited.append((some, vectors))
        together = torch.cat([vectors for _, vectors in edited])
        values = together if asks.collector.stage == "pooled" else self.trunk.classified(together)
        for (some, _), value in zip(edited, values.split(len(asks.numbers)), strict=True):
            for member in some:
                self.handed.take(asks.collector, member, asks.numbers, value)


def _after(edit: Edit, hidden: Tensor) -> Tensor:
    """A block's output under an edit: [batch, token, hidden]."""
    if edit.site.part == "block":
        return edit(hidden)
    return torch.cat([edit(hidden[:, :1]), hidden[:, 1:]], dim=1)


def _together(values: Sequence[Tensor]) -> Tensor:
    """What all layers showed, on the first one's device: [ask, layer, ...]."""
    return torch.stack([value.to(values[0].device) for value in values], dim=1)
