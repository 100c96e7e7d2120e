"""Readings x variants -> arrays. The only place that runs a forward pass without gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar, cast

import torch

from levelhead.edits.self_debias import self_debias_of
from levelhead.edits.sites import UNTOUCHED, Variant, around, inside
from levelhead.edits.symmetry import coin_of, symmetry_of
from levelhead.edits.weights import weights_of
from levelhead.engine.answer_parts import joined_variants
from levelhead.engine.asks import asks_by_row, asks_of_batch
from levelhead.engine.batches import RowPool, Tokens
from levelhead.engine.budget import Work
from levelhead.engine.coining import coined
from levelhead.engine.collectors import Collector, Numbers
from levelhead.engine.helped import crew_of
from levelhead.engine.kept import answered
from levelhead.engine.memory import Fitting, Handed, Packed, Parcel
from levelhead.engine.name_beliefs import believing
from levelhead.engine.readings import Reading
from levelhead.engine.self_debias import self_debiased
from levelhead.engine.symmetry import symmetrized
from levelhead.engine.walk import Batch
from levelhead.errors import BadOption
from levelhead.models.concurrency import asking
from levelhead.models.hooks import at_rest, attention_by
from levelhead.models.model import Model
from levelhead.progress import steps
from levelhead.work import worked

T = TypeVar("T")


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
    """Ask a model, in every variant of it, everything at once, but for answers that are kept.

    Variants with other weights, or symmetrized, are asked apart: those that share them together.
    """

    def ask(own: Sequence[Variant], some: Sequence[Reading[Any]]) -> list[Any]:
        return answered(model, some, own, partial(_read, model, label=label, batch_tokens=batch_tokens))

    whole = [around(variant) for variant in variants]
    if not any(whole):
        given = ask(variants, readings)
        return Answers({id(r): answer for r, answer in zip(readings, given, strict=True)})
    collected: list[list[Any]] = [[] for _ in readings]

    with asking(model.hf):
        for shared in dict.fromkeys(whole):
            once = partial(
                ask, [inside(v) for v, each in zip(variants, whole, strict=True) if each == shared]
            )
            if (debias := self_debias_of(shared)) is not None:
                once = partial(self_debiased, model, debias, once)
            symmetry, coin = symmetry_of(shared), coin_of(shared)
            if symmetry is not None and coin is not None:
                raise BadOption("Give either a symmetrized model or a coin, not both.")
            if symmetry is not None:
                texts = [text for reading in readings for text in getattr(reading, "texts", ())]
                swap = believing(model, symmetry.swap, texts, partial(ask, UNTOUCHED))
                once = partial(symmetrized, model, swap, ask=once)
            elif coin is not None:
                once = partial(coined, model, coin.coin, ask=once)
            with model.edited(*weights_of(shared)):
                given = once(readings)
            for answers, answer in zip(collected, given, strict=True):
                answers.append(answer)
    order = [i for shared in dict.fromkeys(whole) for i, each in enumerate(whole) if each == shared]
    joined = [joined_variants(answers, order) for answers in collected]
    return Answers({id(r): answer for r, answer in zip(readings, joined, strict=True)})


def _read(
    model: Model,
    readings: Sequence[Reading[Any]],
    variants: Sequence[Variant],
    *,
    label: str,
    batch_tokens: int | None,
) -> list[Any]:
    for edit in {id(edit): edit for variant in variants for edit in variant}.values():
        model.check_site(edit.site)
    with asking(model.hf):
        pool = RowPool()
        collectors = [reading.prepare(model, pool, len(variants)) for reading in readings]
        answer_prepared(model, pool, collectors, variants, label=label, batch_tokens=batch_tokens)
    return [collector.answer() for collector in collectors]


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
    """What is asked of every batch of a pass without gradients: nothing in it depends on who runs it."""

    rows: Sequence[Tokens]
    collectors: Sequence[Collector[Any]]
    variants: Sequence[Variant]
    work: ClassVar[Work] = "answers"

    @contextmanager
    def ready(self, model: Model) -> Iterator[None]:
        """The model as its batches need it."""
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
        """The answers about these rows, for collectors in another process."""
        packed = Packed(self.collectors)
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
