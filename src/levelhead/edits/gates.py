"""Head gates: one scalar for each head, multiplied with its output before W^O (SPEC A1, eq. 2 of 'Bias A-head?')."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from levelhead.errors import BadProbe
from levelhead.models.model import Model
from levelhead.models.sites import Site

Head = tuple[int, int]  # (layer, head), both counted from 0


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
        return h * torch.tensor(self.values, dtype=h.dtype, device=h.device)[:, None]


def gates(model: Model, values: Mapping[Head, float]) -> tuple[HeadGates, ...]:
    """Edits that set some gates and leave the others at 1, one edit for each layer concerned."""
    for layer, head in values:
        if not (0 <= layer < model.layers and 0 <= head < model.heads):
            raise BadProbe(
                f"{model.name} has heads 1-1 to {model.layers}-{model.heads}; {layer + 1}-{head + 1} was asked for."
            )
    layers = sorted({layer for layer, _ in values})
    return tuple(
        HeadGates(layer, tuple(float(values.get((layer, head), 1.0)) for head in range(model.heads)))
        for layer in layers
    )


def removed(model: Model, heads: list[Head]) -> tuple[HeadGates, ...]:
    """Edits that remove these heads."""
    return gates(model, dict.fromkeys(heads, 0.0))
