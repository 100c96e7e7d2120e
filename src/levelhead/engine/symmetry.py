"""A model that is asked about every turn of its groups, and answers with the mean (edits/symmetry.py).

For each kind of reading two things are told here: what is asked of the model at a turn, and how the answers
of all turns become one answer.

    pooled logits, tokens at a blank    the mean of the probabilities, as logarithms
    vectors                             the mean of the vectors
    likelihoods, masked                 the mean of the probabilities of each word and its counterpart
    likelihoods, causal                 a mixture of whole sequences, P_s(x) = mean over t of P(σ^t x); word
                                        by word a mixture with weights in proportion to P(σ^t prefix)

A word whose counterpart has another number of subword tokens is mixed as a word, and its logarithm shared
out evenly over its tokens. A causal model that is asked without an opening gives the first token no
probability: a first word that has no other token at some turn is given at all of them, its other tokens keep
what the model gives them, and the weights of the turns are even behind it.

Words that stand for each other are exchanged class by class: her is the counterpart of his and of him, so
p(her) is mixed with p(his) + p(him), and what his and him get is shared out between them as the model does
(docs/method.md, Symmetrization).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.collectors import Floats, TokenScores, TopK
from levelhead.engine.name_beliefs import Ask
from levelhead.engine.readings import (
    Pooled,
    Predictions,
    Reading,
    SentenceVectors,
    StaticVectors,
    TokenLikelihoods,
    TokenLogProbs,
    WordVectors,
)
from levelhead.engine.spans import SpanLikelihoods, scored_positions
from levelhead.engine.token_classes import TokenClasses, token_classes
from levelhead.errors import CannotDo
from levelhead.models.encoding import Span, Text, TokenRow
from levelhead.models.model import Model
from levelhead.probes.group_swap import GroupSwap, TurnedText

T = TypeVar("T")
Doubles = NDArray[np.float64]
_FLOATS = 1 << 27  # vocabulary log-probabilities held at once


def symmetrized(model: Model, swap: GroupSwap, readings: Sequence[Reading[Any]], ask: Ask) -> list[Any]:
    """The answers of the symmetrized model to each reading; `ask` asks the model itself."""
    turned = Turned(model, swap)
    mixtures = [turned.mixture(reading) for reading in readings]
    asked = [each.asked() for each in mixtures]
    answers = iter(ask([reading for some in asked for reading in some]))
    return [
        mixture.mixed([next(answers) for _ in some]) for mixture, some in zip(mixtures, asked, strict=True)
    ]


@dataclass(frozen=True)
class Turned:
    """A model and the exchange of groups that it is asked under."""

    model: Model
    swap: GroupSwap

    @property
    def turns(self) -> range:
        """Every turn; 0 leaves the texts as they are."""
        return range(self.swap.groups)

    @property
    def classes(self) -> TokenClasses:
        """Which tokens of the model's vocabulary stand for each other."""
        return token_classes(self.model, self.swap)

    def texts(self, given: Sequence[Text | str], turn: int) -> list[Text]:
        """The texts after a turn, with their blanks and masks where they belong."""
        return [self._text(Text.of(text), turn) for text in given]

    def _text(self, text: Text, turn: int) -> Text:
        if not turn:
            return text
        first = self.swap(text.first, turn)
        second = None if text.second is None else self.swap(text.second, turn).text
        return replace(text, first=first.text, second=second, masked=tuple(map(first.place, text.masked)))

    def spans(self, given: Sequence[Text | str], spans: Sequence[Span], turn: int) -> list[Span]:
        """Where the words at these characters stand after a turn."""
        texts = zip(given, spans, strict=True)
        return [self.swap(Text.of(text).first, turn).place(span) for text, span in texts]

    def mixture(self, reading: Reading[T]) -> Mixture[T]:
        """How a reading is asked and put together."""
        for kind, mixture in _MIXTURES.items():
            if isinstance(reading, kind):
                return mixture(self, reading)
        raise CannotDo(
            f"{type(reading).__name__} looks inside the network, where a symmetrized model is two. Ask the "
            "model itself, or distill the symmetrized one into weights."
        )


class Mixture(ABC, Generic[T]):
    """One kind of reading: what is asked at every turn, and the answers as one."""

    def __init__(self, turned: Turned, reading: Any) -> None:
        self.turned, self.reading = turned, reading

    def asked(self) -> list[Reading[Any]]:
        """What is asked of the model itself, turn by turn."""
        return [self.at(turn) if turn else self.plain for turn in self.turned.turns]

    @property
    def plain(self) -> Reading[Any]:
        """What is asked about the texts as they are."""
        return cast(Reading[Any], self.reading)

    def at(self, turn: int) -> Reading[Any]:
        """What is asked after a turn: the same about the turned texts."""
        texts = self.turned.texts(self.reading.texts, turn)
        return cast(Reading[Any], replace(self.reading, texts=texts))

    @abstractmethod
    def mixed(self, answers: Sequence[Any]) -> T:
        """The answers of all turns as one."""


def log_mean(logs: Sequence[NDArray[Any]]) -> Doubles:
    """The logarithm of the mean of probabilities, from their logarithms."""
    total = np.asarray(logs[0], np.float64)
    for more in logs[1:]:
        total = np.logaddexp(total, more)
    return np.asarray(total - np.log(len(logs)))


class _MeanVectors(Mixture[Any]):
    def at(self, turn: int) -> Reading[Any]:
        given = self.reading.texts
        spans = {"spans": self.turned.spans(given, self.reading.spans, turn)} if self._has_spans else {}
        return cast(Reading[Any], replace(self.reading, texts=self.turned.texts(given, turn), **spans))

    @property
    def _has_spans(self) -> bool:
        return isinstance(self.reading, WordVectors | StaticVectors)

    def mixed(self, answers: Sequence[Any]) -> Any:
        return (sum(answers[1:], start=answers[0]) / len(answers)).astype(answers[0].dtype)


class _PooledMixture(Mixture[Floats]):
    def mixed(self, answers: Sequence[Floats]) -> Floats:
        if self.reading.vectors:
            return (sum(answers[1:], start=answers[0]) / len(answers)).astype(np.float32)
        logs = [_log_softmax(answer.astype(np.float64)) for answer in answers]
        return log_mean(logs).astype(np.float32)


def _log_softmax(logits: Doubles) -> Doubles:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


class _BlankMixture(Mixture[Floats]):
    """Tokens at a blank: those of the reading, and all others of their classes, at every turn."""

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys((*self.reading.tokens, *self.turned.classes.closed(self.reading.tokens))))

    @property
    def plain(self) -> Reading[Any]:
        return TokenLogProbs(self.reading.texts, self.tokens)

    def at(self, turn: int) -> Reading[Any]:
        return TokenLogProbs(self.turned.texts(self.reading.texts, turn), self.tokens)

    def mixed(self, answers: Sequence[Floats]) -> Floats:
        logs = self.turned.classes.mixed(answers, self.tokens)
        place = {token: i for i, token in enumerate(self.tokens)}
        return logs[..., [place[token] for token in self.reading.tokens]].astype(np.float32)


class _LikeliestMixture(Mixture[TopK]):
    """The likeliest tokens of the mixture, which need not be likely at any turn: the whole vocabulary."""

    def asked(self) -> list[Reading[Any]]:
        every = range(int(self.turned.model.config.vocab_size))
        step = max(1, _FLOATS // len(every))
        texts = list(self.reading.texts)
        if len(texts) > step:
            raise CannotDo(
                f"The likeliest words of {len(texts)} texts under symmetrization need too much memory; ask "
                f"{step} at a time."
            )
        whole = TokenLogProbs(texts, every)
        return [_BlankMixture(self.turned, whole).at(turn) for turn in self.turned.turns]

    def mixed(self, answers: Sequence[Floats]) -> TopK:
        logs = self.turned.classes.mixed(answers, range(answers[0].shape[-1]))
        ids = np.argsort(-logs, axis=-1, kind="stable")[..., : self.reading.k]
        return TopK(ids.astype(np.int64), np.take_along_axis(logs, ids, axis=-1).astype(np.float32))


class _LikelihoodMixture(Mixture[TokenScores]):
    def mixed(self, answers: Sequence[TokenScores]) -> TokenScores:
        own = answers[0]
        values = [
            [self._text(answers, variant, number) for number in range(len(own.rows))]
            for variant in range(len(own.values))
        ]
        return replace(own, values=values)

    def _text(self, answers: Sequence[TokenScores], variant: int, number: int) -> Floats:
        """Log-likelihoods of one text's scored tokens under the mixture."""
        units = self._units(answers, number)
        sums = np.array(
            [
                [float(answer.values[variant][number][list(unit)].sum()) for unit in of_turn]
                for answer, of_turn in zip(answers, units, strict=True)
            ]
        ).reshape(len(answers), -1)  # [turn, unit]
        if "causal" in self.turned.model.abilities:
            mixed = np.diff(log_mean(list(np.cumsum(sums, axis=1))), prepend=0.0)
        else:
            mixed = log_mean(list(sums))
        out = np.array(answers[0].values[variant][number], dtype=np.float32)
        for unit, value in zip(units[0], mixed, strict=True):
            out[list(unit)] = value / len(unit)
        return out

    def _units(self, answers: Sequence[TokenScores], number: int) -> list[list[tuple[int, ...]]]:
        """Scored tokens that stand for each other, [turn][unit] -> places among the text's scored tokens."""
        text = Text.of(self.reading.texts[number])
        turned = [self._changes(text, turn) for turn in self.turned.turns]
        parts = [
            _by_change(answer.rows[number], answer.positions[number], changes)
            for answer, changes in zip(answers, turned, strict=True)
        ]
        units: list[list[tuple[int, ...]]] = [[] for _ in answers]
        for pieces in zip(*parts, strict=True):  # the tokens between two exchanged words, or of one
            if not all(pieces):  # nothing there, or a first word of which some turn has the first token alone
                continue
            alike = len({len(piece) for piece in pieces}) == 1
            for of_turn, piece in zip(units, pieces, strict=True):
                of_turn += [(token,) for token in piece] if alike else [tuple(piece)]
        return units

    def _changes(self, text: Text, turn: int) -> list[list[Span]]:
        """Characters of every word that some turn exchanges, in each sentence of the turned text."""
        sentences = [text.first] if text.second is None else [text.first, text.second]
        return [self._exchanged(sentence, turn) for sentence in sentences]

    def _exchanged(self, sentence: str, turn: int) -> list[Span]:
        spans = {old for other in self.turned.turns for old, _ in self.turned.swap(sentence, other).changes}
        here: TurnedText = self.turned.swap(sentence, turn)
        return [here.place(span) for span in sorted(spans)]


class _SpanMixture(_LikelihoodMixture):
    """Sums over chosen tokens of what the mixture gives each of them."""

    def __init__(self, turned: Turned, reading: SpanLikelihoods) -> None:
        if reading.instead is not None:
            raise CannotDo("Tokens in place of a text's own have no counterpart under symmetrization.")
        super().__init__(turned, TokenLikelihoods(reading.texts))
        self._scored = reading.scored or [None] * len(reading.texts)

    def mixed(self, answers: Sequence[TokenScores]) -> Any:
        scores = super().mixed(answers)
        chosen = [
            np.isin(positions, scored_positions(self.turned.model, row, asked))
            for row, positions, asked in zip(scores.rows, scores.positions, self._scored, strict=True)
        ]
        return np.asarray(
            [
                [float(v[own].sum(dtype=np.float64)) for v, own in zip(values, chosen, strict=True)]
                for values in scores.values
            ]
        )


def _by_change(row: TokenRow, positions: NDArray[Any], changes: Sequence[Sequence[Span]]) -> list[list[int]]:
    """Places among the scored tokens, cut at exchanged words: before the first, the first, between ..."""
    pieces: list[list[int]] = []
    for part, spans in enumerate(changes):
        pieces += [[] for _ in range(2 * len(spans) + 1)]
        first = len(pieces) - (2 * len(spans) + 1)
        for place, position in enumerate(positions):
            if int(row.part[position]) != part:
                continue
            start, end = (int(at) for at in row.offsets[position])
            inside = next((i for i, (a, b) in enumerate(spans) if start < b and end > a), None)
            gap = sum(b <= start for _, b in spans)
            pieces[first + (2 * gap if inside is None else 2 * inside + 1)].append(place)
    return pieces


_MIXTURES: dict[type, Callable[[Turned, Any], Mixture[Any]]] = {
    Pooled: _PooledMixture,
    WordVectors: _MeanVectors,
    StaticVectors: _MeanVectors,
    SentenceVectors: _MeanVectors,
    TokenLogProbs: _BlankMixture,
    Predictions: _LikeliestMixture,
    TokenLikelihoods: _LikelihoodMixture,
    SpanLikelihoods: _SpanMixture,
}
