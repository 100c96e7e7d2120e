"""Likelihoods of parts of texts: what benchmarks compare candidate sentences by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from levelhead.edits.placing import beside, placed
from levelhead.engine.batches import RowPool
from levelhead.engine.collectors import Collector, Doubles, Floats, Numbers, Stage, log_probs_of
from levelhead.engine.readings import Reading, likelihood_asks
from levelhead.errors import BadProbe
from levelhead.models.encoding import Ints, Text, TokenRow, encode
from levelhead.models.model import Model

Positions = Sequence[int] | None  # of tokens in a row; None: every token of the text itself


@dataclass(frozen=True)
class SpanLikelihoods(Reading[Doubles]):
    """Sum of log p over chosen tokens of each text, [variant, text], differentiable in the gates of heads.

        masked models    each chosen token masked alone, given all others
        causal models    given the tokens before it

    scored: for each text the positions of its tokens as `encode` gives them; None: every token of the text.
    instead: for a text the tokens that are asked for at those positions in place of its own.
    items: the item that each text belongs to; standard errors of gradients come from the spread of items,
    which are the texts where none are given. The first token of a causal text that has nothing before it is
    never scored.
    """

    texts: Sequence[Text | str]
    scored: Sequence[Positions] | None = None
    items: Sequence[int] | None = None
    instead: Sequence[Sequence[int] | None] | None = None

    def prepare(self, model: Model, pool: RowPool, variants: int) -> SpanCollector:
        if "causal" not in model.abilities:
            model.require("mlm", "token likelihoods")
        for name, given in (("scored", self.scored), ("items", self.items), ("instead", self.instead)):
            if given is not None and len(given) != len(self.texts):
                raise BadProbe(f"{len(self.texts)} texts came with {len(given)} {name}; give one per text.")
        collector = SpanCollector(len(self.texts), variants, self.items)
        scored = self.scored or [None] * len(self.texts)
        for number, (row, positions) in enumerate(zip(encode(model, self.texts), scored, strict=True)):
            asks = list(likelihood_asks(model, pool, row, scored_positions(model, row, positions)))
            tokens = None if self.instead is None else self.instead[number]
            for place, (pooled, position, own) in enumerate(asks):
                collector.want(number, pooled, position, own if tokens is None else tokens[place])
        return collector


def scored_positions(model: Model, row: TokenRow, positions: Positions) -> Ints:
    """The tokens of a row that are scored, of those that are asked for."""
    asked = np.flatnonzero(row.part != -1) if positions is None else np.asarray(positions, np.int64)
    if len(asked) and not 0 <= asked.min() <= asked.max() < len(row.ids):
        raise BadProbe(f"Tokens {list(asked)[:8]} are to be scored in a row of {len(row.ids)}.")
    return asked[asked > 0].astype(np.int32) if "causal" in model.abilities else asked.astype(np.int32)


class SpanCollector(Collector[Doubles]):
    stage: ClassVar[Stage] = "logits"

    def __init__(self, texts: int, variants: int, items: Sequence[int] | None) -> None:
        super().__init__()
        self._shape = (variants, texts)
        self._items = None if items is None else np.asarray(items, np.int64)
        self._text: list[int] = []
        self._tokens: list[int] = []
        self._values: Floats | None = None

    def want(self, text: int, row: int, position: int, token: int) -> None:
        self.ask(row, position)
        self._text.append(text)
        self._tokens.append(token)

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        return log_probs_of([self._tokens[a] for a in asks], values)

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        if self._values is None:
            self._values = np.zeros((self._shape[0], len(self._tokens)), np.float32)
        self._values[variant, asks] = values.numpy()

    def answer(self) -> Doubles:
        if self._values is None:
            return np.zeros(self._shape)
        text = np.asarray(self._text, np.int64)
        return np.stack([np.bincount(text, weights=each, minlength=self._shape[1]) for each in self._values])

    def pull(self, cotangent: Tensor, asks: Numbers, values: Tensor) -> Tensor:
        text = placed(torch.tensor([self._text[a] for a in asks]), cotangent.device)
        return self.reduced(asks, values) * beside(cotangent[text], values)

    def units(self) -> tuple[Numbers, Numbers]:
        text = np.asarray(self._text, np.int64)
        return text, text if self._items is None else self._items[text]
