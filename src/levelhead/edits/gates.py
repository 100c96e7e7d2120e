"""Head gates: one scalar for each head, multiplied with its output before W^O (docs/method.md, Head gate)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from levelhead.edits.head import Head
from levelhead.edits.placing import beside
from levelhead.edits.sites import Site
from levelhead.errors import BadOption


class HasHeads(Protocol):
    """What a gate needs to know of a model."""

    name: str
    layers: int
    heads: int


@dataclass(frozen=True)
class HeadGates:
    """All gates of one layer: 1 leaves a head as it is, 0 removes it, more than 1 amplifies it."""

    layer: int
    values: tuple[float, ...]  # [head]

    @property
    def site(self) -> Site:
        """Before the layer's output projection."""
        return Site(self.layer, "heads")

    def __call__(self, h: Tensor) -> Tensor:
        return h * beside(torch.tensor(self.values, dtype=torch.float64), h)[:, None]


def gates(
    model: HasHeads,
    values: Mapping[Head, float] | Mapping[tuple[int, int], float] | Mapping[str, float],
) -> tuple[HeadGates, ...]:
    """Edits that set some gates and leave the others at 1, one edit for each layer concerned.

    A head is (7, 5), counted from 0, or "8-6", counted from 1.
    """
    by_head: dict[tuple[int, int], float] = {Head.of(named): value for named, value in values.items()}
    for layer, head in by_head:
        if not (0 <= layer < model.layers and 0 <= head < model.heads):
            last = Head(model.layers - 1, model.heads - 1)
            raise BadOption(f"{model.name} has heads 1-1 to {last}; {Head(layer, head)} was asked for.")
    layers = sorted({layer for layer, _ in by_head})
    return tuple(
        HeadGates(layer, tuple(float(by_head.get((layer, head), 1.0)) for head in range(model.heads)))
        for layer in layers
    )


def removed(model: HasHeads, heads: Iterable[tuple[int, int] | str]) -> tuple[HeadGates, ...]:
    """Edits that remove these heads."""
    return gates(model, dict.fromkeys((Head.of(named) for named in heads), 0.0))


def all_heads(model: HasHeads) -> list[Head]:
    """Every head of a model, layer by layer."""
    return [Head(layer, head) for layer in range(model.layers) for head in range(model.heads)]
