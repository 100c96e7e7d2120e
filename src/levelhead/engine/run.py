"""Readings x variants -> arrays. The only place that runs a forward pass without gradients.

One batch is walked as a tree for all variants: every block runs once for each distinct history of edits
before it, so variants share every layer that they have in common. At the last block only tokens that somebody
reads are computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from levelhead.edits.output import Coined, SelfDebiased, Symmetrized, edit_of, weights_of
from levelhead.edits.sites import AFTER, INSIDE, UNTOUCHED, Edit, Part, Site, Variant, around, inside, placed
from levelhead.engine.batches import RowPool, Tokens, inputs
from levelhead.engine.collectors import Asks, Collector, Numbers, asks_by_row, asks_of_batch
from levelhead.engine.kept import answered, joined_variants
from levelhead.engine.memory import Fitting, Handed, Packed, Parcel, Work
from levelhead.engine.readings import Reading
from levelhead.engine.self_debias import self_debiased
from levelhead.engine.shards import crew_of
from levelhead.engine.symmetry import believing, coined, symmetrized
from levelhead.engine.trunk import Plan, Trunk, only_rows
from levelhead.errors import BadOption, CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.hooks import at_rest, attach_at, attached, attention_by
from levelhead.models.model import Model
from levelhead.progress import steps, worked

Seen = tuple[int, Tensor]  # id of the asks that wanted it, and what they saw: [ask, ...]
_LOGIT_FLOATS = 1 << 24  # vocabulary logits held at once; on a card four times as many
T = TypeVar("T")


class Batch:
    """All asks of some rows, answered for all variants."""

    def __init__(self, model: Model, rows: Sequence[Tokens], asks: Sequence[Asks], handed: Handed) -> None:
        self.model, self.trunk, self.handed = model, Trunk(model), handed
        self.inputs = inputs(model, rows)
        self.shape = (len(rows), int(self.inputs["input_ids"].shape[1]))
        self.asks = [some for some in asks if len(some.numbers)]
        self.states = [some for some in self.asks if some.collector.stage == "state"]
        self.attention = [some for some in self.asks if some.collector.stage == "attention"]
        self.ends = [some for some in self.asks if some.collector.stage not in ("state", "attention")]

    # ---- the walk

    def run(self, variants: Sequence[Variant]) -> None:
        """Answer everything. Stage 2l runs block l with its inner edits, stage 2l+1 edits its output."""
        if not self.asks:
            return
        self.variants = variants
        self.flat: Tensor | None = None  # the tokens that the last block computes; None: all of them
        if self.ends and not (self.states or self.attention):
            width = self.shape[1]
            flat = np.unique(np.concatenate([a.places[0] * width + a.places[1] for a in self.ends]))
            if 2 * len(flat) <= self.shape[0] * width:  # else most are read
                self.flat = placed(torch.from_numpy(flat), self.model.device)
        if self.ends:  # the last block's output edits are applied to the vectors that are read, in _give
            self.stop = 2 * self.model.layers - 1
        elif self.attention:
            self.stop = 2 * self.model.layers
        else:
            self.stop = 2 * (max(cast(Site, some.collector.site).layer for some in self.states) + 1)
        plan = self.trunk.plan(self.inputs)
        for members, hidden, trace in self._walk(plan, 0, plan.hidden, list(range(len(variants))), ()):
            self._give(members, hidden, trace)

    def _walk(
        self, plan: Plan, stage: int, hidden: Tensor, members: list[int], trace: tuple[Seen, ...]
    ) -> Iterator[tuple[list[int], Tensor, tuple[Seen, ...]]]:
        while stage < self.stop:
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
        """Variants by the edits that they have at these parts of a layer."""
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
                whole = edit.site.part == "block"
                hidden = edit(hidden) if whole else torch.cat([edit(hidden[:, :1]), hidden[:, 1:]], dim=1)
            sites = (Site(layer, "block"), Site(layer, "cls"))
            here = (asks for asks in self.states if asks.collector.site in sites)
            return hidden, tuple((id(asks), asks.pick(hidden)) for asks in here)
        seen: list[Seen] = []

        def note_attention(_: nn.Module, args: Any, out: Any) -> None:
            tensors = (x for x in out[1:] if isinstance(x, Tensor) and x.dim() == 4)
            weights = next((x for x in tensors if x.shape[1] == self.model.heads), None)
            if weights is None:
                raise CannotDo(
                    f"{self.model.name} does not return its attention weights, even under eager attention."
                )
            seen.extend((id(asks), asks.pick(weights.transpose(1, 2))) for asks in self.attention)

        def note_state(asks: Asks, h: Tensor) -> Tensor:
            rows = h.unflatten(0, self.shape) if h.dim() == 2 else h  # OPT's MLP gets all tokens in one row
            seen.append((id(asks), asks.pick(rows)))
            return h

        with ExitStack() as stack:
            stack.enter_context(attached(self.model, edits))
            if self.attention:
                module = self.model.blocks[layer].get_submodule(self.model.family.attention)
                stack.callback(module.register_forward_hook(note_attention).remove)
            for asks in self.states:
                site = cast(Site, asks.collector.site)
                if site.layer == layer and site.part in INSIDE:
                    stack.callback(attach_at(self.model, site, partial(note_state, asks)).remove)
            if layer == self.model.layers - 1 and self.flat is not None:
                stack.enter_context(only_rows(self.model, layer, self.flat, self.shape))
            out = self.trunk.block(plan, layer, hidden, weights=bool(self.attention))
        return out, tuple(seen)

    # ---- handing over

    def _give(self, members: list[int], hidden: Tensor, trace: tuple[Seen, ...]) -> None:
        for asks in (*self.states, *self.attention):
            values = [value for owner, value in trace if owner == id(asks)]
            if asks.collector.stage == "attention":  # all layers, on the first one's device
                together = torch.stack([value.to(values[0].device) for value in values], dim=1)
                self._take(asks, members, together)
            elif values:
                self._take(asks, members, values[0])
            else:  # the last block's output, which no stage has edited yet
                layer = cast(Site, asks.collector.site).layer
                for edits, some in self._split(members, layer, AFTER):
                    self._take(asks, some, _edited(edits, asks, hidden))
        groups = self._split(members, self.model.layers - 1, AFTER)
        for asks in self.ends:
            # the vectors of each group, one group after the other: what follows runs once for all of them
            vectors = torch.cat([_edited(edits, asks, hidden) for edits, _ in groups])
            stage, size = asks.collector.stage, len(asks.numbers)
            if stage == "logits":
                floats = _LOGIT_FLOATS * (4 if vectors.is_cuda else 1)
                at_once = max(1, floats // int(self.model.config.vocab_size))
                for (_, group), own in zip(groups, vectors.split(size), strict=True):
                    for start in range(0, size, at_once):
                        part = slice(start, start + at_once)
                        self._take(asks, group, self.trunk.logits(own[part]), part)
            elif stage == "final":
                for (_, group), own in zip(groups, self.trunk.final(vectors).split(size), strict=True):
                    self._take(asks, group, own)
            else:
                edited: list[tuple[list[int], Tensor]] = []
                for (_, group), own in zip(groups, self.trunk.pooled(vectors).split(size), strict=True):
                    for edits, some in self._split(group, 0, ("pooled",)):
                        pooled = own
                        for edit in edits:
                            pooled = edit(pooled)
                        edited.append((some, pooled))
                together = torch.cat([pooled for _, pooled in edited])
                answers = together if stage == "pooled" else self.trunk.classified(together)
                for (some, _), own in zip(edited, answers.split(size), strict=True):
                    self._take(asks, some, own)

    def _take(self, asks: Asks, members: list[int], values: Tensor, part: slice = slice(None)) -> None:
        for member in members:
            self.handed.take(asks.collector, member, asks.numbers[part], values)


def _edited(edits: Sequence[Edit], asks: Asks, hidden: Tensor) -> Tensor:
    """The asks' vectors of a block's output, under its edits: [ask, hidden].

    A cls edit concerns those at position 0.
    """
    vectors = asks.pick(hidden)
    for edit in edits:
        if edit.site.part == "block" or not asks.places[1].any():
            vectors = edit(vectors)
        else:
            first = (asks.position == 0).to(vectors.device)
            vectors = torch.where(first[:, None], edit(vectors), vectors)
    return vectors


@dataclass(frozen=True, eq=False)
class Answers:
    """What came back. `answers[reading]` has the type that the reading promises, in the caller's order."""

    _collected: dict[int, Any]  # by the reading's id

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
    """Run a model, in every variant of it, on everything at once, but for answers that are kept.

    Variants with other weights, or symmetrized, are run apart: those that share them together.
    """

    def ask(own: Sequence[Variant], some: Sequence[Reading[Any]]) -> list[Any]:
        return answered(model, some, own, pass_over)

    def pass_over(some: Sequence[Reading[Any]], own: Sequence[Variant]) -> list[Any]:
        for edit in {id(edit): edit for variant in own for edit in variant}.values():
            model.check_site(edit.site)
        with asking(model.hf):
            pool = RowPool()
            collectors = [reading.prepare(model, pool, len(own)) for reading in some]
            answer_prepared(model, pool, collectors, own, label=label, batch_tokens=batch_tokens)
        return [collector.answer() for collector in collectors]

    whole = [around(variant) for variant in variants]
    if not any(whole):
        given = ask(variants, readings)
        return Answers({id(r): answer for r, answer in zip(readings, given, strict=True)})
    collected: list[list[Any]] = []  # [shared edits][reading]
    order: list[int] = []  # the variants' places, in the order in which they are run
    with asking(model.hf):
        for shared in dict.fromkeys(whole):
            places = [i for i, each in enumerate(whole) if each == shared]
            once = partial(ask, [inside(variants[i]) for i in places])
            if (debias := edit_of(SelfDebiased, shared)) is not None:
                once = partial(self_debiased, model, debias, once)
            symmetry, coin = edit_of(Symmetrized, shared), edit_of(Coined, shared)
            if symmetry is not None and coin is not None:
                raise BadOption("Give either a symmetrized model or a coin, not both.")
            if symmetry is not None:
                texts = [text for reading in readings for text in getattr(reading, "texts", ())]
                swap = believing(model, symmetry.swap, texts, partial(ask, UNTOUCHED))
                once = partial(symmetrized, model, swap, ask=once)
            elif coin is not None:
                once = partial(coined, model, coin.coin, ask=once)
            with model.edited(*weights_of(shared)):
                collected.append(once(readings))
            order += places
    answers = zip(readings, *collected, strict=True)
    return Answers({id(reading): joined_variants(parts, order) for reading, *parts in answers})


def answer_prepared(
    model: Model,
    pool: RowPool,
    collectors: Sequence[Collector[Any]],
    variants: Sequence[Variant],
    *,
    label: str,
    batch_tokens: int | None,
) -> None:
    """Give collectors what they ask about the rows of a pool."""
    job, crew = AnswerJob(pool.rows, collectors, variants), crew_of(model)
    if crew is not None:
        with steps(label, len(pool.rows)) as advance:
            for numbers, parcels in crew.work(job, batch_tokens):
                for parcel in parcels:
                    collectors[parcel.number].take(parcel.variant, parcel.asks, parcel.tensor)
                worked(sum(len(pool.rows[number].ids) for number in numbers))
                advance(len(numbers))
        return
    with job.ready(model), steps(label, len(pool.rows)) as advance:
        fitting = Fitting(model, pool.rows, job.work, batch_tokens)
        for numbers in fitting.batches():
            job.hand_over(model, fitting, numbers, Handed())
            advance(len(numbers))


@dataclass(frozen=True, eq=False)
class AnswerJob:
    """What is read of every batch of a pass without gradients: nothing in it depends on who runs it."""

    rows: Sequence[Tokens]
    collectors: Sequence[Collector[Any]]
    variants: Sequence[Variant]
    work: ClassVar[Work] = "answers"

    @contextmanager
    def ready(self, model: Model) -> Iterator[None]:
        weights = any(collector.stage == "attention" for collector in self.collectors)
        own = str(model.hf.config._attn_implementation)
        # eager attention is the only one that gives its weights
        with at_rest(model.hf), torch.inference_mode(), attention_by(model.hf, "eager" if weights else own):
            yield

    def hand_over(self, model: Model, fitting: Fitting, numbers: Sequence[int], handed: Handed) -> None:
        """Answer what concerns these rows."""

        def answer(some: Sequence[int]) -> None:
            asks = [
                asks_of_batch(collector, own, some, model.device)
                for collector, own in zip(self.collectors, self._by_row, strict=True)
            ]
            try:
                Batch(model, [self.rows[n] for n in some], asks, handed).run(self.variants)
            finally:
                handed.arrive()

        fitting.run(numbers, answer)

    def parcels(self, model: Model, fitting: Fitting, numbers: Sequence[int]) -> list[Parcel]:
        packed = Packed(collectors=self.collectors)
        self.hand_over(model, fitting, numbers, packed)
        return packed.parcels

    @cached_property
    def _by_row(self) -> list[list[Numbers]]:
        return [asks_by_row(collector, len(self.rows)) for collector in self.collectors]


def read_one(
    model: Model, reading: Reading[T], variants: Sequence[Variant] = ((),), *, label: str = "Asking"
) -> T:
    """One reading's answer."""
    return read(model, [reading], variants, label=label)[reading]
