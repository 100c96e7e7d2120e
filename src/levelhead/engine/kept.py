"""Answers that an audit asks for again: kept while it lasts, so that no text is read twice for one question.

Readings that are named in advance are asked of the unmodified model as a whole, whoever wants a part of
them, and parts are taken from that: next sentences of half of the triples, texts that an exchange of words
leaves as they are. What two of them share belongs to the first. Everything else is kept as it was asked, for
one variant of a model or of its twin; in it, texts of a reading that is named are asked by themselves.

So an answer depends neither on what was asked before nor on what is asked beside it, and a run that was
killed and goes on without it ends with the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from levelhead.edits.sites import Variant
from levelhead.engine.answer_parts import (
    ByText,
    Item,
    about,
    bytes_of,
    items_of,
    joined_texts,
    joined_variants,
    of_texts,
    of_variant,
    sealed,
)
from levelhead.engine.readings import Reading
from levelhead.models.condition import Condition, condition
from levelhead.models.model import Model
from levelhead.models.twins import Twin

_MOST = 1 << 27  # bytes of what is kept as it was asked; the oldest goes first
Key = tuple[Any, ...]
AskVariants = Callable[[Sequence[Reading[Any]], Sequence[Variant]], list[Any]]
_Places = list[int]
_Parts = tuple[dict[int, tuple[_Places, _Places]], _Places]


class _Subject(NamedTuple):
    """Who is asked: a model as it is now, or a twin of it."""

    model: int
    condition: Condition
    twin: str  # "": the model itself


class _Named:
    """Readings that are asked as a whole: which of them an item belongs to, and where it stands in it."""

    def __init__(self, readings: Sequence[ByText]) -> None:
        self.wholes: list[ByText] = []
        self._places: dict[str, dict[Item, tuple[int, int]]] = {}
        for reading in readings:
            known, new = self._places.setdefault(_question(reading), {}), dict[Item, int]()
            for place, item in enumerate(items_of(reading)):
                if item not in known:
                    new.setdefault(item, place)
            known |= {item: (len(self.wholes), i) for i, item in enumerate(new)}
            self.wholes.append(about(reading, list(new.values())))

    def parts(self, reading: ByText) -> _Parts:
        """The places of a reading's items by the whole they belong to, each with those in the whole, and in
        its order; and the places of all others."""
        known, rest = self._places.get(_question(reading), {}), []
        parts: dict[int, list[tuple[int, int]]] = {}
        for here, item in enumerate(items_of(reading)):
            if (place := known.get(item)) is None:
                rest.append(here)
            else:
                parts.setdefault(place[0], []).append((place[1], here))
        ordered = {number: sorted(places) for number, places in sorted(parts.items())}
        return {
            number: ([here for _, here in places], [there for there, _ in places])
            for number, places in ordered.items()
        }, rest


def _question(reading: ByText) -> str:
    """What is asked about each item."""
    return repr(about(reading, []))


@dataclass(eq=False)
class _Kept:
    """Answers of some models, each of one variant."""

    models: Sequence[Model]
    named: _Named
    wholes: dict[Key, Any] = field(default_factory=dict)
    others: dict[Key, list[Any]] = field(default_factory=dict)  # as they were asked together, oldest first
    size: int = 0

    def answered(
        self, model: Model, readings: Sequence[Reading[Any]], variants: Sequence[Variant], ask: AskVariants
    ) -> list[Any]:
        """The answers to readings in variants; `ask` asks for what is not kept."""
        subject = self._subject(model)
        some = [reading for reading in readings if isinstance(reading, ByText)]
        if subject is None or len(some) < len(readings):
            return ask(readings, variants)
        parts = [self.named.parts(reading) for reading in some]
        from_wholes = not subject.twin and any(wholes for wholes, _ in parts)
        changed = [variant for variant in dict.fromkeys(variants) if variant or not from_wholes]
        given: list[dict[Variant, Any]] = [{} for _ in some]
        if from_wholes and () in variants:
            for own, answer in zip(given, self._untouched(subject, some, parts, ask), strict=True):
                own[()] = answer
        if changed:
            for own, answer in zip(given, self._changed(subject, some, parts, changed, ask), strict=True):
                own.update({variant: of_variant(answer, i) for i, variant in enumerate(changed)})
        return [joined_variants([own[v] for v in variants], range(len(variants))) for own in given]

    def _subject(self, model: Model) -> _Subject | None:
        """Who is asked; None where nothing is kept of it."""
        number = next((i for i, each in enumerate(self.models) if each is model), None)
        twins = [each.value.order.tobytes() for each in model.standing if isinstance(each.value, Twin)]
        if number is None or len(twins) < len(model.standing):
            return None
        own = frozenset(hook for each in model.standing for hook in each.hooks)
        order = hashlib.sha256(b"".join(twins)).hexdigest() if twins else ""
        return _Subject(number, condition(model.hf).without(own), order)

    def _untouched(
        self, subject: _Subject, readings: Sequence[ByText], parts: Sequence[_Parts], ask: AskVariants
    ) -> list[Any]:
        """The unmodified model: parts of wholes from them, all others together."""
        left = [bool(rest) or not wholes for wholes, rest in parts]
        others = [about(r, rest) for r, (_, rest), own in zip(readings, parts, left, strict=True) if own]
        asked = iter(self._as_asked(subject, others, [()], ask) if others else [])
        answers = []
        for (wholes, rest), own in zip(parts, left, strict=True):
            pieces = [of_texts(self._whole(subject, n, ask), there) for n, (_, there) in wholes.items()]
            places = [here for here, _ in wholes.values()]
            if own:
                pieces.append(next(asked))
                places.append(rest)
            answers.append(joined_texts(pieces, places))
        return answers

    def _whole(self, subject: _Subject, number: int, ask: AskVariants) -> Any:
        if (key := (*subject, number)) not in self.wholes:
            self.wholes[key] = sealed(ask([self.named.wholes[number]], [()])[0])
        return self.wholes[key]

    def _changed(
        self,
        subject: _Subject,
        readings: Sequence[ByText],
        parts: Sequence[_Parts],
        variants: Sequence[Variant],
        ask: AskVariants,
    ) -> list[Any]:
        """Changed models and twins: texts of a whole by themselves, as far as they are asked."""
        if len(readings) > 1:
            return self._as_asked(subject, readings, variants, ask)
        (reading,), ((wholes, rest),) = readings, parts
        places = [here for here, _ in wholes.values()]
        if rest or not places:
            places.append(rest)
        some = [self._as_asked(subject, [about(reading, own)], variants, ask)[0] for own in places]
        return [joined_texts(some, places)]

    def _as_asked(
        self, subject: _Subject, readings: Sequence[ByText], variants: Sequence[Variant], ask: AskVariants
    ) -> list[Any]:
        """Readings that are asked together, of variants for which their answers are not kept."""
        question = hashlib.sha256(repr(readings).encode()).hexdigest()
        there = {variant: self.others.get((*subject, question, variant)) for variant in variants}
        missing = [variant for variant, answers in there.items() if answers is None]
        new = ask(readings, missing) if missing else []
        for number, variant in enumerate(missing):
            there[variant] = [sealed(of_variant(answer, number)) for answer in new]
            self._keep((*subject, question, variant), there[variant] or [])
        every = [answers for answers in map(there.get, variants) if answers is not None]
        return [joined_variants(own, range(len(variants))) for own in zip(*every, strict=True)]

    def _keep(self, key: Key, answers: list[Any]) -> None:
        self.others[key] = answers
        self.size += sum(map(bytes_of, answers))
        while self.size > _MOST:
            self.size -= sum(map(bytes_of, self.others.pop(next(iter(self.others)))))


_KEPT: ContextVar[_Kept | None] = ContextVar("levelhead_kept", default=None)


@contextmanager
def keeping_answers(models: Sequence[Model], named: Sequence[ByText] = ()) -> Iterator[None]:
    """Inside, these models are asked nothing twice; the outermost one decides which and how long.

    named: readings that are asked of an unmodified model as a whole, in the order in which they are asked.
    """
    token = _KEPT.set(_KEPT.get() or _Kept(models, _Named(named)))
    try:
        yield
    finally:
        _KEPT.reset(token)


def answered(
    model: Model, readings: Sequence[Reading[Any]], variants: Sequence[Variant], ask: AskVariants
) -> list[Any]:
    """The answers to readings in variants, kept ones where there are any; `ask` asks the model."""
    kept = _KEPT.get()
    return ask(readings, variants) if kept is None else kept.answered(model, readings, variants, ask)
