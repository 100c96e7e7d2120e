"""Collectors of what a model computes inside: hidden states at a site, and attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from levelhead.engine.collectors import Collector, Floats, Numbers, Stage
from levelhead.models.encoding import Ints


class StateCollector(Collector[list[list[Floats]]]):
    stage: ClassVar[Stage] = "state"

    def __init__(self, variants: int) -> None:
        super().__init__()
        self._variants = variants
        self._lengths: list[int] = []
        self._values: Floats | None = None

    def text(self, row: int, positions: Sequence[int]) -> None:
        self._lengths.append(len(positions))
        for position in positions:
            self.ask(row, position)

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        """As the model computes them: bfloat16 is half as long on the way as the same numbers in float32."""
        return values

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        if self._values is None:
            self._values = np.zeros((self._variants, len(self.rows), *values.shape[1:]), np.float32)
        self._values[variant, asks] = values.float().numpy()

    def answer(self) -> list[list[Floats]]:
        if self._values is None:
            return [[] for _ in range(self._variants)]
        ends = np.cumsum(self._lengths)[:-1]
        return [list(np.split(self._values[v], ends)) for v in range(self._variants)]


class PooledStateCollector(StateCollector):
    stage: ClassVar[Stage] = "pooled"


@dataclass(frozen=True)
class AttentionRow:
    """Attention of one text: from each token of the target word to every token, in every head."""

    weights: Floats  # [layer, head, target token, token]
    target: Ints  # positions of the target's tokens
    attribute: Ints  # positions of the attribute's tokens
    counted: NDArray[np.bool_]  # [token]: neither a special token nor punctuation
    tokens: tuple[str, ...]  # as written in the text


@dataclass
class AttentionText:
    target: Ints
    attribute: Ints
    counted: NDArray[np.bool_]
    tokens: tuple[str, ...]
    first_ask: int


class AttentionCollector(Collector[list[list[AttentionRow]]]):
    stage: ClassVar[Stage] = "attention"

    def __init__(self, variants: int) -> None:
        super().__init__()
        self._texts: list[AttentionText] = []
        self._owner: list[int] = []
        self._values: list[dict[int, Floats]] = [{} for _ in range(variants)]

    def text(
        self, row: int, target: Ints, attribute: Ints, counted: NDArray[np.bool_], tokens: tuple[str, ...]
    ) -> None:
        self._texts.append(AttentionText(target, attribute, counted, tokens, len(self.rows)))
        for position in target:
            self.ask(row, int(position))
            self._owner.append(len(self._texts) - 1)

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        for ask, weights in zip(asks, values.numpy(), strict=True):
            length = len(self._texts[self._owner[ask]].tokens)  # without the padding
            self._values[variant][int(ask)] = weights[:, :, :length].copy()

    def answer(self) -> list[list[AttentionRow]]:
        return [[self._row(values, text) for text in self._texts] for values in self._values]

    def _row(self, values: dict[int, Floats], text: AttentionText) -> AttentionRow:
        weights = np.stack([values[text.first_ask + i] for i in range(len(text.target))], axis=2)
        return AttentionRow(weights, text.target, text.attribute, text.counted, text.tokens)
