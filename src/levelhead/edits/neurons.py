"""Neuron gates: one scalar for each neuron, multiplied with its activation before the MLP's down projection.

Reference: docs/method.md, Neuron gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from levelhead.edits.neuron import Neuron
from levelhead.edits.placing import beside
from levelhead.edits.sites import Site
from levelhead.errors import BadOption


class HasNeurons(Protocol):
    """What a neuron gate needs to know of a model."""

    @property
    def name(self) -> str: ...
    @property
    def layers(self) -> int: ...
    @property
    def neurons(self) -> int: ...


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


def removed_neurons(model: HasNeurons, neurons: Iterable[tuple[int, int]]) -> tuple[NeuronGates, ...]:
    """Edits that remove these neurons."""
    return neuron_gates(model, dict.fromkeys((Neuron(*each) for each in neurons), 0.0))
