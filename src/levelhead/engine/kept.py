"""Answers that an audit needs again: kept while it lasts, so that no text is run twice for one question.

Readings that are named in advance are run on the unmodified model as a whole, and parts are taken from that:
next sentences of half of the triples, texts that a swap leaves as they are. What two of them share belongs to
the first. Everything else is kept as it was given, for one variant of a model or of its null model; in it,
texts of a named reading are run by themselves. So an answer depends neither on what was run before nor on
what is run beside it, and a run that was killed and goes on without it ends with the same bytes.

Only readings that are answered text by text are kept: an answer stands at [variant, text, ...], so that it
can be taken apart and put together by texts and by variants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.engine.collectors import TokenScores, TopK
from levelhead.engine.readings import (
    Pooled,
    Reading,
    SentenceVectors,
    TokenLikelihoods,
    TokenLogProbs,
    WordVectors,
)
from levelhead.models.encoding import Span, Text
from levelhead.models.model import Model
from levelhead.models.null_model import NullModel
from levelhead.models.unmodified import Condition, condition

_MOST = 1 << 27  # bytes of what is kept as it was run; the oldest goes first
ByText = Pooled | WordVectors | SentenceVectors | TokenLogProbs | TokenLikelihoods
Item = tuple[Text, Span | None]  # a text, and the word of it that is read
Key = tuple[Any, ...]
AskVariants = Callable[[Sequence[Reading[Any]], Sequence[Variant]], list[Any]]
_Places = list[int]
_Parts = tuple[dict[int, tuple[_Places, _Places]], _Places]


# ---- parts of readings and of answers


def items_of(reading: ByText) -> list[Item]:
    """What a reading is about, one by one."""
    spans = reading.spans if isinstance(reading, WordVectors) else [None] * len(reading.texts)
    return [(Text.of(text), span) for text, span in zip(reading.texts, spans, strict=True)]


def about(reading: ByText, places: Sequence[int]) -> ByText:
    """The same question about the items at these places."""
    texts = [reading.texts[i] for i in places]
    if isinstance(reading, WordVectors):
        return replace(reading, texts=texts, spans=[reading.spans[i] for i in places])
    return replace(reading, texts=texts)


def of_texts(answer: Any, places: Sequence[int]) -> Any:
    """An answer about the items at these places."""
    if isinstance(answer, TokenScores):
        return TokenScores(
            [[of_variant[i] for i in places] for of_variant in answer.values],
            [answer.rows[i] for i in places],
            [answer.positions[i] for i in places],
        )
    return answer[:, list(places)]


def of_variant(answer: Any, number: int) -> Any:
    """An answer of one of its variants alone."""
    if isinstance(answer, TokenScores):
        return replace(answer, values=[answer.values[number]])
    return answer[number : number + 1]


def joined_texts(parts: Sequence[Any], places: Sequence[Sequence[int]]) -> Any:
    """Answers about some items each as one answer; places: where the items of each part belong."""
    order = np.argsort(np.concatenate([np.asarray(some, np.int64) for some in places])).tolist()
    if len(parts) == 1 and order == list(range(len(order))):
        return parts[0]
    if not isinstance(parts[0], TokenScores):
        return of_texts(np.concatenate(parts, axis=1), order)
    whole = TokenScores(
        [[v for part in parts for v in part.values[variant]] for variant in range(len(parts[0].values))],
        [row for part in parts for row in part.rows],
        [positions for part in parts for positions in part.positions],
    )
    return of_texts(whole, order)


def joined_variants(answers: Sequence[Any], order: Sequence[int]) -> Any:
    """Answers of groups of variants as one answer; order: the place of each variant, group by group."""
    if len(answers) == 1 and list(order) == list(range(len(order))):
        return answers[0]
    first, place = answers[0], np.argsort(order)
    if isinstance(first, TokenScores):
        every = [of_variant for answer in answers for of_variant in answer.values]
        return replace(first, values=[every[i] for i in place])
    if isinstance(first, TopK):
        ids, logs = (np.concatenate([getattr(a, side) for a in answers]) for side in ("ids", "log_probs"))
        return TopK(ids[place], logs[place])
    if isinstance(first, list):
        flat = [of_variant for answer in answers for of_variant in answer]
        return [flat[i] for i in place]
    return np.concatenate(answers)[place]


def _sealed(answer: Any) -> Any:
    """An answer that is kept: whoever asks again is given the same array, so nobody may write to it."""
    if isinstance(answer, np.ndarray):
        answer.flags.writeable = False
    return answer


def _bytes_of(answers: Sequence[Any]) -> int:
    """How much memory the numbers of some answers take."""
    return sum(
        sum(values.nbytes for of_variant in answer.values for values in of_variant)
        if isinstance(answer, TokenScores)
        else int(answer.nbytes)
        for answer in answers
    )


# ---- what is kept


class _Subject(NamedTuple):
    """Who answers: a model as it is now, or a null model of it."""

    model: int
    condition: Condition
    null_model: str  # "": the model itself


class _Named:
    """Readings that are run as a whole: which of them an item belongs to, and where it stands in it."""

    def __init__(self, readings: Sequence[ByText]) -> None:
        self.wholes: list[ByText] = []
        self._places: dict[str, dict[Item, tuple[int, int]]] = {}
        for reading in readings:
            known, new = self._places.setdefault(repr(about(reading, [])), {}), dict[Item, int]()
            for place, item in enumerate(items_of(reading)):
                if item not in known:
                    new.setdefault(item, place)
            known |= {item: (len(self.wholes), i) for i, item in enumerate(new)}
            self.wholes.append(about(reading, list(new.values())))

    def parts(self, reading: ByText) -> _Parts:
        """The places of a reading's items by the whole they belong to, each with those in the whole, and in
        its order; and the places of all others."""
        known, rest = self._places.get(repr(about(reading, [])), {}), []
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


@dataclass(eq=False)
class _Kept:
    """Answers of some models, each of one variant."""

    models: Sequence[Model]
    named: _Named
    wholes: dict[Key, Any] = field(default_factory=dict)
    others: dict[Key, list[Any]] = field(default_factory=dict)  # as they were run together, oldest first
    size: int = 0

    def answered(
        self, model: Model, readings: Sequence[Reading[Any]], variants: Sequence[Variant], ask: AskVariants
    ) -> list[Any]:
        """The answers to readings in variants; `ask` runs what is not kept."""
        number = next((i for i, each in enumerate(self.models) if each is model), None)
        null_models = [
            each.value.order.tobytes() for each in model.standing if isinstance(each.value, NullModel)
        ]
        some = [reading for reading in readings if isinstance(reading, ByText)]
        if number is None or len(null_models) < len(model.standing) or len(some) < len(readings):
            return ask(readings, variants)  # nothing is kept of these
        order = hashlib.sha256(b"".join(null_models)).hexdigest() if null_models else ""
        subject = _Subject(number, condition(model.hf, model.standing), order)
        parts = [self.named.parts(reading) for reading in some]
        from_wholes = not subject.null_model and any(wholes for wholes, _ in parts)
        changed = [variant for variant in dict.fromkeys(variants) if variant or not from_wholes]
        given: list[dict[Variant, Any]] = [{} for _ in some]
        if from_wholes and () in variants:
            for own, answer in zip(given, self._untouched(subject, some, parts, ask), strict=True):
                own[()] = answer
        if changed:
            if len(some) > 1:
                new = self._together(subject, some, changed, ask)
            else:  # texts of a whole by themselves, as far as they are read
                wholes, rest = parts[0]
                places = [here for here, _ in wholes.values()]
                if rest or not places:
                    places.append(rest)
                parts_of = [self._together(subject, [about(some[0], own)], changed, ask) for own in places]
                new = [joined_texts([answers[0] for answers in parts_of], places)]
            for own, answer in zip(given, new, strict=True):
                own.update({variant: of_variant(answer, i) for i, variant in enumerate(changed)})
        return [joined_variants([own[v] for v in variants], range(len(variants))) for own in given]

    def _untouched(
        self, subject: _Subject, readings: Sequence[ByText], parts: Sequence[_Parts], ask: AskVariants
    ) -> list[Any]:
        """The unmodified model: parts of wholes from them, all others together."""
        left = [bool(rest) or not wholes for wholes, rest in parts]
        others = [about(r, rest) for r, (_, rest), own in zip(readings, parts, left, strict=True) if own]
        answered = iter(self._together(subject, others, [()], ask) if others else [])
        answers = []
        for (wholes, rest), own in zip(parts, left, strict=True):
            pieces, places = [], []
            for number, (here, there) in wholes.items():
                if (key := (*subject, number)) not in self.wholes:
                    self.wholes[key] = _sealed(ask([self.named.wholes[number]], [()])[0])
                pieces.append(of_texts(self.wholes[key], there))
                places.append(here)
            if own:
                pieces.append(next(answered))
                places.append(rest)
            answers.append(joined_texts(pieces, places))
        return answers

    def _together(
        self, subject: _Subject, readings: Sequence[ByText], variants: Sequence[Variant], ask: AskVariants
    ) -> list[Any]:
        """Readings that are run together, of variants for which their answers are not kept."""
        question = hashlib.sha256(repr(readings).encode()).hexdigest()
        there = {variant: self.others.get((*subject, question, variant)) for variant in variants}
        missing = [variant for variant, answers in there.items() if answers is None]
        new = ask(readings, missing) if missing else []
        for number, variant in enumerate(missing):
            answers = [_sealed(of_variant(answer, number)) for answer in new]
            there[variant] = self.others[*subject, question, variant] = answers
            self.size += _bytes_of(answers)
            while self.size > _MOST:
                self.size -= _bytes_of(self.others.pop(next(iter(self.others))))
        every = [answers for answers in map(there.get, variants) if answers is not None]
        return [joined_variants(own, range(len(variants))) for own in zip(*every, strict=True)]


_KEPT: ContextVar[_Kept | None] = ContextVar("levelhead_kept", default=None)


@contextmanager
def keeping_answers(models: Sequence[Model], named: Sequence[ByText] = ()) -> Iterator[None]:
    """Inside, these models are run on nothing twice; the outermost one decides which and how long.

    named: readings that an unmodified model answers as a whole, in their order.
    """
    token = _KEPT.set(_KEPT.get() or _Kept(models, _Named(named)))
    try:
        yield
    finally:
        _KEPT.reset(token)


def left_to_read(reading: Reading[Any]) -> Reading[Any] | None:
    """What of a reading no named one answers for the unmodified model; None where nothing is left."""
    kept = _KEPT.get()
    if kept is None or not isinstance(reading, ByText):
        return reading
    wholes, rest = kept.named.parts(reading)
    return about(reading, rest) if rest or not wholes else None


def answered(
    model: Model, readings: Sequence[Reading[Any]], variants: Sequence[Variant], ask: AskVariants
) -> list[Any]:
    """The answers to readings in variants, kept ones where there are any; `ask` runs the model."""
    kept = _KEPT.get()
    return ask(readings, variants) if kept is None else kept.answered(model, readings, variants, ask)
