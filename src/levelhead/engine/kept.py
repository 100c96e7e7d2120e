"""Answers that an audit asks for again: kept while it lasts, so that no text is read twice for one question.

What is kept is what a whole reading gave for one variant of a model or of its twin. That does not depend on
what was asked beside it, so that a run which was killed and goes on without it ends with the same bytes.
Texts that a smaller question asks first are asked by themselves in the larger one too, whether that answer is
still there or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.collectors import Floats
from levelhead.engine.readings import Pooled, Reading
from levelhead.engine.run import read_one
from levelhead.models.condition import condition
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.models.twins import Twin

_MOST = 1 << 27  # bytes that are kept at once; the oldest go first
Key = tuple[Any, ...]


@dataclass(eq=False)
class _Kept:
    """Answers of readings by some models, [text, ...], the oldest first."""

    models: Sequence[Model]
    sooner: Mapping[Text, int] = field(default_factory=dict)  # texts that are asked first -> their order
    answers: dict[Key, Floats] = field(default_factory=dict)
    size: int = 0

    def keep(self, key: Key, answer: Floats) -> None:
        self.answers[key] = answer
        self.size += answer.nbytes
        while self.size > _MOST:
            self.size -= self.answers.pop(next(iter(self.answers))).nbytes

    def parts(self, texts: Sequence[Text | str]) -> list[list[int]]:
        """The places of texts that are asked first, in their order, and those of the others."""
        order = {i: self.sooner[text] for i, text in enumerate(map(Text.of, texts)) if text in self.sooner}
        first = sorted(order, key=order.__getitem__)
        others = [i for i in range(len(texts)) if i not in order]
        return [part for part in (first, others) if part]

    def asked(self, model: Model, reading: Reading[Floats]) -> Key | None:
        """Which model is asked what, as it is now or as its twin; None where nothing is kept of it."""
        number = next((i for i, each in enumerate(self.models) if each is model), None)
        twins = [each.value.order.tobytes() for each in model.standing if isinstance(each.value, Twin)]
        if number is None or len(twins) < len(model.standing):
            return None
        own = frozenset(hook for each in model.standing for hook in each.hooks)
        question = hashlib.sha256(repr(reading).encode())
        for order in twins:
            question.update(order)
        return number, condition(model.hf).without(own), question.hexdigest()


_KEPT: ContextVar[_Kept | None] = ContextVar("levelhead_kept", default=None)


@contextmanager
def keeping_answers(models: Sequence[Model], sooner: Sequence[Text] = ()) -> Iterator[None]:
    """Inside, `read_once` asks these models nothing twice; the outermost one decides which and how long.

    sooner: texts that are asked by themselves wherever they are asked; Pooled readings alone heed them.
    """
    token = _KEPT.set(_KEPT.get() or _Kept(models, {text: number for number, text in enumerate(sooner)}))
    try:
        yield
    finally:
        _KEPT.reset(token)


def read_once(
    model: Model, reading: Reading[Floats], variants: Sequence[Variant] = UNTOUCHED, *, label: str
) -> Floats:
    """The reading's answer, [variant, text, ...]; only of variants for which it is not kept is it asked."""
    kept = _KEPT.get()
    if kept is None:
        return read_one(model, reading, variants, label=label)
    if not isinstance(reading, Pooled):
        return _read_part(kept, model, reading, variants, label)
    parts = kept.parts(reading.texts) or [[]]
    some = [replace(reading, texts=[reading.texts[i] for i in part]) for part in parts]
    answers = np.concatenate([_read_part(kept, model, each, variants, label) for each in some], axis=1)
    return np.asarray(answers[:, np.argsort(np.concatenate(parts))])


def _read_part(
    kept: _Kept, model: Model, reading: Reading[Floats], variants: Sequence[Variant], label: str
) -> Floats:
    if (asked := kept.asked(model, reading)) is None:
        return read_one(model, reading, variants, label=label)
    there = {variant: kept.answers.get((*asked, variant)) for variant in variants}
    missing = [variant for variant, answer in there.items() if answer is None]
    if missing:
        new = read_one(model, reading, missing, label=label)
        for variant, answer in zip(missing, new, strict=True):
            there[variant] = answer
            kept.keep((*asked, variant), answer)
    return np.stack([answer for answer in map(there.get, variants) if answer is not None])
