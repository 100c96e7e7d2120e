"""A model that is asked with and without a prefix which asks for a bias (edits/self_debias.py).

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
from numpy.typing import NDArray

from levelhead.edits.self_debias import SelfDebiased
from levelhead.engine.batches import RowPool
from levelhead.engine.collectors import Collector, Floats, TokenCollector, TokenScores, TopK
from levelhead.engine.name_beliefs import Ask
from levelhead.engine.readings import (
    Attention,
    Pooled,
    Predictions,
    Reading,
    SentenceVectors,
    States,
    StaticVectors,
    TokenLikelihoods,
    TokenLogProbs,
    WordVectors,
    blanks,
)
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text, TokenRow, encode, mask_id
from levelhead.models.model import Model
from levelhead.models.once import once_a_model
from levelhead.models.vocabulary import word_shape

Doubles = NDArray[np.float64]
Place = tuple[TokenRow, int]  # a row, and the token at which its vocabulary is read
_FLOATS = 1 << 22  # vocabulary log-probabilities held at once
_UNCHANGED = (Pooled, WordVectors, StaticVectors, SentenceVectors, States, Attention)


def self_debiased(model: Model, edit: SelfDebiased, ask: Ask, readings: Sequence[Reading[Any]]) -> list[Any]:
    """The answers of the debiased model to each reading; `ask` asks the model itself."""
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
        every = torch.arange(int(model.config.vocab_size))
        collector = TokenCollector(len(self.places), variants, every)
        for row, position in self.places:
            collector.ask(pool.add(row), position)
        return collector


@dataclass(frozen=True)
class _Debias:
    model: Model
    edit: SelfDebiased
    ask: Ask

    def answer(self, reading: Reading[Any]) -> Any:
        """What the debiased model answers."""
        if not getattr(reading, "texts", ()):
            return self.ask([reading])[0]
        if isinstance(reading, TokenLogProbs):
            tokens = list(reading.tokens)
            return self._at_blanks(reading.texts, lambda logs, _: logs[..., tokens]).astype(np.float32)
        if isinstance(reading, Predictions):
            return self._likeliest(reading)
        if isinstance(reading, TokenLikelihoods):
            return self._likelihoods(reading)
        raise CannotDo(
            f"{type(reading).__name__} asks for probabilities in a way that Self-Debias has no prefix. Ask "
            "for token log-probabilities, predictions or likelihoods."
        )

    def _at_blanks(self, texts: Sequence[Text | str], keep: Callable[[Doubles, slice], Doubles]) -> Doubles:
        return self._asked([blanks(self.model, each) for each in (texts, *self._prefixed(texts))], keep)

    def _likeliest(self, reading: Predictions) -> TopK:
        def keep(logs: Doubles, _: slice) -> Doubles:
            ids = np.argsort(-logs, axis=-1, kind="stable")[..., : reading.k]
            return np.stack([ids.astype(np.float64), np.take_along_axis(logs, ids, axis=-1)], axis=-1)

        both = self._at_blanks(reading.texts, keep)
        return TopK(both[..., 0].astype(np.int64), both[..., 1].astype(np.float32))

    def _likelihoods(self, reading: TokenLikelihoods) -> TokenScores:
        own: TokenScores = self.ask([reading])[0]
        positions = [list(map(int, each)) for each in own.positions]
        if not any(positions):
            return own
        places = [self._scored(list(own.rows), positions)]
        for number, texts in enumerate(self._prefixed(reading.texts)):
            rows = list(encode(self.model, texts))
            shift = len(self.edit.prefixes[number] + gap(self.model))
            behind = [
                _behind(mine, theirs, wanted, shift)
                for mine, theirs, wanted in zip(own.rows, rows, positions, strict=True)
            ]
            places.append(self._scored(rows, behind))
        tokens = np.array([int(row.ids[i]) for row, of in zip(own.rows, positions, strict=True) for i in of])

        def keep(logs: Doubles, some: slice) -> Doubles:
            return np.take_along_axis(logs, tokens[some][None, :, None], axis=-1)[..., 0]

        values = self._asked(places, keep).astype(np.float32)
        ends = np.cumsum([len(each) for each in positions])[:-1]
        return replace(own, values=[list(np.split(each, ends)) for each in values])

    def _scored(self, rows: Sequence[TokenRow], positions: Sequence[Sequence[int]]) -> list[Place]:
        """Where the token at each position is predicted: at itself, masked, or at the one before it."""
        if "causal" in self.model.abilities:
            return [(row, i - 1) for row, of in zip(rows, positions, strict=True) for i in of]
        mask = mask_id(self.model)
        return [(_masked(row, i, mask), i) for row, of in zip(rows, positions, strict=True) for i in of]

    def _asked(self, places: Sequence[Sequence[Place]], keep: Callable[[Doubles, slice], Doubles]) -> Doubles:
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
                "Self-Debias has no prefix for a chat, which brings its own turns. Ask plain texts."
            )
        return [
            [_behind_prefix(text, f"{prefix}{gap(self.model)}") for text in given]
            for prefix in self.edit.prefixes
        ]


@once_a_model
def gap(model: Model) -> str:
    """What stands between a prefix and a text, so that the text's first word is the same tokens as without:
    a space, or a new line where a word behind a space is written otherwise than the first one of a text."""
    alike = word_shape(model).before == word_shape(model, after_space=False).before
    return " " if alike else "\n"


def _behind_prefix(text: Text, prefix: str) -> Text:
    masked = tuple((start + len(prefix), end + len(prefix)) for start, end in text.masked)
    return replace(text, first=prefix + text.first, masked=masked)


def _masked(row: TokenRow, position: int, mask: int) -> TokenRow:
    ids = row.ids.copy()
    ids[position] = mask
    return row.with_ids(ids)


def _behind(own: TokenRow, prefixed: TokenRow, wanted: Sequence[int], shift: int) -> list[int]:
    """The positions of the same tokens behind a prefix, by where they end."""
    place = {key: i for i, key in enumerate(_ends(prefixed, 0))}
    keys = _ends(own, shift)
    try:
        return [place[keys[i]] for i in wanted]
    except KeyError:
        raise CannotDo(
            "A text is split into other tokens behind the prefix of Self-Debias, so that its words cannot be "
            "compared. Give a prefix that ends with a sign of punctuation."
        ) from None


def _ends(row: TokenRow, shift: int) -> list[tuple[int, int, int]]:
    """Of each token its sentence, where it ends, and how many end there before it."""
    seen: Counter[tuple[int, int]] = Counter()
    keys = []
    for part, (_, end) in zip(row.part.tolist(), row.offsets.tolist(), strict=True):
        at = (part, end + shift * (part == 0))
        keys.append((*at, seen[at]))
        seen[at] += 1
    return keys
