"""A model that is run with and without a prefix which asks for a bias (edits/output.py).

Probabilities of words change: tokens at a blank, the likeliest tokens, likelihoods. What a model says without
its vocabulary head (vectors, attention, a next-sentence head, a classifier) is what it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from levelhead.edits.output import SelfDebiased
from levelhead.engine.batches import RowPool
from levelhead.engine.collectors import Collector, Doubles, Floats, TokenCollector, TokenScores, TopK
from levelhead.engine.readings import (
    Ask,
    Attention,
    Pooled,
    Predictions,
    Reading,
    SentenceVectors,
    SpanLikelihoods,
    States,
    StaticVectors,
    TokenLikelihoods,
    TokenLogProbs,
    WordVectors,
    blanks,
    span_sums,
)
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text, TokenRow, encode, mask_id, word_shape
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model

Place = tuple[TokenRow, int]  # a row, and the token at which its vocabulary is read
_FLOATS = 1 << 22  # vocabulary log-probabilities held at once
_UNCHANGED = (Pooled, WordVectors, StaticVectors, SentenceVectors, States, Attention)


def self_debiased(model: Model, edit: SelfDebiased, ask: Ask, readings: Sequence[Reading[Any]]) -> list[Any]:
    """The answers of the debiased model to each reading; `ask` runs the model itself."""
    if edit.decay == 0:
        return ask(readings)
    plain = [reading for reading in readings if isinstance(reading, _UNCHANGED)]
    unchanged = iter(ask(plain) if plain else [])
    debias = _Debias(model, edit, ask)
    return [
        next(unchanged) if isinstance(reading, _UNCHANGED) else debias.answer(reading) for reading in readings
    ]


def debiased(plain: Doubles, prefixed: Sequence[Doubles], edit: SelfDebiased) -> Doubles:
    """log p~ over the vocabulary [..., token], from log p without and with each prefix."""
    likelier = np.max([np.exp(each) for each in prefixed], axis=0)
    fallen = np.minimum(np.exp(plain) - likelier, 0.0)
    logs = plain + np.maximum(edit.decay * fallen, np.log(edit.floor))
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(logs - top - np.log(np.exp(logs - top).sum(axis=-1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class _Vocabulary(Reading[Floats]):
    """Log-probabilities of the whole vocabulary at some tokens: [variant, place, token]."""

    places: Sequence[Place]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[Floats]:
        collector = TokenCollector(variants, vocabulary=torch.arange(int(model.config.vocab_size)))
        for row, position in self.places:
            collector.ask(pool.add(row), position)
        return collector


@dataclass(frozen=True)
class _Debias:
    model: Model
    edit: SelfDebiased
    ask: Ask

    def answer(self, reading: Reading[Any]) -> Any:
        if not getattr(reading, "texts", ()):
            return self.ask([reading])[0]
        if isinstance(reading, TokenLikelihoods):
            return self._likelihoods(reading)
        if isinstance(reading, SpanLikelihoods) and reading.instead is None:
            return span_sums(self.model, reading, self._likelihoods(TokenLikelihoods(reading.texts)))
        if not isinstance(reading, TokenLogProbs | Predictions):
            raise CannotDo(
                f"{type(reading).__name__} asks for probabilities in a way that Self-Debias has no prefix. "
                "Ask for token log-probabilities, predictions or likelihoods."
            )
        places = [blanks(self.model, each) for each in (reading.texts, *self._prefixed(reading.texts))]
        if isinstance(reading, TokenLogProbs):
            tokens = list(reading.tokens)
            return self._kept(places, lambda logs, _: logs[..., tokens]).astype(np.float32)
        k = reading.k

        def likeliest(logs: Doubles, _: slice) -> Doubles:
            ids = np.argsort(-logs, axis=-1, kind="stable")[..., :k]
            return np.stack([ids.astype(np.float64), np.take_along_axis(logs, ids, axis=-1)], axis=-1)

        both = self._kept(places, likeliest)
        return TopK(both[..., 0].astype(np.int64), both[..., 1].astype(np.float32))

    def _likelihoods(self, reading: TokenLikelihoods) -> TokenScores:
        own: TokenScores = self.ask([reading])[0]
        positions = [list(map(int, each)) for each in own.positions]
        if not any(positions):
            return own
        causal = "causal" in self.model.abilities
        mask = 0 if causal else mask_id(self.model)

        def scored(rows: Sequence[TokenRow], positions: Sequence[Sequence[int]]) -> list[Place]:
            """Where the token at each position is predicted: at itself, masked, or at the one before it."""
            places = []
            for row, wanted in zip(rows, positions, strict=True):
                for i in wanted:
                    ids = row.ids.copy()
                    ids[i] = ids[i] if causal else mask
                    places.append((replace(row, ids=ids), i - int(causal)))
            return places

        places = [scored(own.rows, positions)]
        for prefix, texts in zip(self.edit.prefixes, self._prefixed(reading.texts), strict=True):
            rows = list(encode(self.model, texts))
            shift = len(prefix + gap(self.model))
            behind = []  # of each text the positions of the same tokens behind the prefix, by where they end
            for mine, theirs, wanted in zip(own.rows, rows, positions, strict=True):
                place, keys = {key: i for i, key in enumerate(_ends(theirs, 0))}, _ends(mine, shift)
                if any(keys[i] not in place for i in wanted):
                    raise CannotDo(
                        "A text is split into other tokens behind the prefix of Self-Debias, so that its "
                        "words cannot be compared. Give a prefix that ends with a sign of punctuation."
                    )
                behind.append([place[keys[i]] for i in wanted])
            places.append(scored(rows, behind))
        tokens = np.array([int(row.ids[i]) for row, of in zip(own.rows, positions, strict=True) for i in of])
        values = self._kept(
            places, lambda logs, some: np.take_along_axis(logs, tokens[some][None, :, None], axis=-1)[..., 0]
        ).astype(np.float32)
        ends = np.cumsum([len(each) for each in positions])[:-1]
        return replace(own, values=[list(np.split(each, ends)) for each in values])

    def _kept(self, places: Sequence[Sequence[Place]], keep: Callable[[Doubles, slice], Doubles]) -> Doubles:
        """What is kept of the debiased vocabulary at each place: [variant, place, ...]. places: those of the
        texts as they are, then those behind each prefix."""
        size = max(1, _FLOATS // int(self.model.config.vocab_size))
        kept = []
        for start in range(0, len(places[0]), size):
            some = slice(start, start + size)
            plain, *prefixed = self.ask([_Vocabulary(of_text[some]) for of_text in places])
            logs = debiased(
                plain.astype(np.float64), [each.astype(np.float64) for each in prefixed], self.edit
            )
            kept.append(keep(logs, some))
        return np.concatenate(kept, axis=1)

    def _prefixed(self, texts: Sequence[Text | str]) -> list[list[Text]]:
        """The texts behind each prefix, with their masks where they belong."""
        given = [Text.of(text) for text in texts]
        if any(text.whole for text in given):
            raise CannotDo(
                "Self-Debias has no prefix for a chat, which brings messages of its own. Give plain texts."
            )
        prefixes = [f"{prefix}{gap(self.model)}" for prefix in self.edit.prefixes]
        return [
            [
                replace(
                    text,
                    first=prefix + text.first,
                    masked=tuple((start + len(prefix), end + len(prefix)) for start, end in text.masked),
                )
                for text in given
            ]
            for prefix in prefixes
        ]


@once_a_model
def gap(model: Model) -> str:
    """What stands between a prefix and a text, so that the text's first word is the same tokens as without:
    a space, or a new line where a word behind a space is written otherwise than the first one of a text."""
    alike = word_shape(model).before == word_shape(model, after_space=False).before
    return " " if alike else "\n"


def _ends(row: TokenRow, shift: int) -> list[tuple[int, int, int]]:
    """Of each token its sentence, where it ends, and how many end there before it."""
    seen: Counter[tuple[int, int]] = Counter()
    keys = []
    for part, (_, end) in zip(row.part.tolist(), row.offsets.tolist(), strict=True):
        at = (part, end + shift * (part == 0))
        keys.append((*at, seen[at]))
        seen[at] += 1
    return keys
