"""Answers that an audit asks for again: kept while it lasts, so that no text is read twice for one question.

What is kept is what a whole reading gave for one variant of a model or of its twin. That does not depend on
what was asked beside it, so that a run which was killed and goes on without it ends with the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.collectors import Floats
from levelhead.engine.readings import Reading
from levelhead.engine.run import read_one
from levelhead.models.condition import condition
from levelhead.models.model import Model
from levelhead.models.twins import Twin

_MOST = 1 << 27  # bytes that are kept at once; the oldest go first
Key = tuple[Any, ...]


@dataclass(eq=False)
class _Kept:
    """Answers of readings by some models, [text, ...], the oldest first."""

    models: Sequence[Model]
    answers: dict[Key, Floats] = field(default_factory=dict)
    size: int = 0

    def keep(self, key: Key, answer: Floats) -> None:
        self.answers[key] = answer
        self.size += answer.nbytes
        while self.size > _MOST:
            self.size -= self.answers.pop(next(iter(self.answers))).nbytes

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
def keeping_answers(models: Sequence[Model]) -> Iterator[None]:
    """Inside, `read_once` asks these models nothing twice; the outermost one decides which and how long."""
    token = _KEPT.set(_KEPT.get() or _Kept(models))
    try:
        yield
    finally:
        _KEPT.reset(token)


def read_once(
    model: Model, reading: Reading[Floats], variants: Sequence[Variant] = UNTOUCHED, *, label: str
) -> Floats:
    """The reading's answer, [variant, text, ...]; only of variants for which it is not kept is it asked."""
    kept = _KEPT.get()
    if kept is None or (asked := kept.asked(model, reading)) is None:
        return read_one(model, reading, variants, label=label)
    there = {variant: kept.answers.get((*asked, variant)) for variant in variants}
    missing = [variant for variant, answer in there.items() if answer is None]
    if missing:
        new = read_one(model, reading, missing, label=label)
        for variant, answer in zip(missing, new, strict=True):
            there[variant] = answer
            kept.keep((*asked, variant), answer)
    return np.stack([answer for answer in map(there.get, variants) if answer is not None])
