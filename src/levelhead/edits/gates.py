"""Gates: one scalar for each head, multiplied with its output before W^O, or for each neuron, multiplied with
its activation before the MLP's down projection (docs/method/heads.md, Head gate; Neuron gate)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from levelhead.edits.sites import Head, Neuron, Site, beside
from levelhead.errors import BadOption


class HasHeads(Protocol):
    """What a head gate needs to know of a model."""

    name: str
    layers: int
    heads: int


class HasNeurons(Protocol):
    """What a neuron gate needs to know of a model."""

    name: str
    layers: int

    @property
    def neurons(self) -> int: ...


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


@dataclass(frozen=True)
class NeuronGates:
    """Gates of some neurons of one layer, all others are 1: 0 removes a neuron, more than 1 amplifies it."""

    layer: int
    width: int  # neurons of the layer
    numbers: tuple[int, ...]  # of the neurons that have a gate
    values: tuple[float, ...]

    @property
    def site(self) -> Site:
        """Before the layer's down projection."""
        return Site(self.layer, "neurons")

    @property
    def scale(self) -> Tensor:
        """The gates of all neurons: [neuron]."""
        scale = torch.ones(self.width, dtype=torch.float64)
        scale[list(self.numbers)] = torch.tensor(self.values, dtype=torch.float64)
        return scale

    def __call__(self, h: Tensor) -> Tensor:
        return h * beside(self.scale, h)


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
    return tuple(
        HeadGates(layer, tuple(float(by_head.get((layer, head), 1.0)) for head in range(model.heads)))
        for layer in sorted({layer for layer, _ in by_head})
    )


def removed(model: HasHeads, heads: Iterable[tuple[int, int] | str]) -> tuple[HeadGates, ...]:
    """Edits that remove these heads."""
    return gates(model, dict.fromkeys((Head.of(named) for named in heads), 0.0))


def all_heads(model: HasHeads) -> list[Head]:
    """Every head of a model, layer by layer."""
    return [Head(layer, head) for layer in range(model.layers) for head in range(model.heads)]


def neuron_gates(
    model: HasNeurons, values: Mapping[Neuron, float] | Mapping[tuple[int, int], float]
) -> tuple[NeuronGates, ...]:
    """Edits that set the gates of some neurons, counted from 0; one edit for each layer concerned."""
    by_layer: dict[int, dict[int, float]] = {}
    for (layer, neuron), value in sorted(values.items()):
        if not (0 <= layer < model.layers and 0 <= neuron < model.neurons):
            last = Neuron(model.layers - 1, model.neurons - 1)
            raise BadOption(f"{model.name} has neurons 1-1 to {last}; {Neuron(layer, neuron)} was asked for.")
        by_layer.setdefault(layer, {})[neuron] = float(value)
    return tuple(
        NeuronGates(layer, model.neurons, tuple(own), tuple(own.values())) for layer, own in by_layer.items()
    )
