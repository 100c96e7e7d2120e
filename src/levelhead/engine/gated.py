"""The blocks of a model as a function of the gates of its heads or of its neurons."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, cast

from torch import Tensor
from torch.utils.checkpoint import checkpoint
from torch.utils.hooks import RemovableHandle

from levelhead.edits.gates import HeadGates
from levelhead.edits.neurons import NeuronGates
from levelhead.edits.sites import Edit, Site
from levelhead.engine.trunk import Plan, Trunk, only_rows
from levelhead.models.hooks import on_heads, on_input
from levelhead.models.model import Model


@dataclass(frozen=True)
class Component(ABC):
    """What has a gate: a head or a neuron. A value, which a job takes along to another process."""

    shared: ClassVar[bool] = False  # whether all texts of a batch have the same gates

    @abstractmethod
    def count(self, model: Model) -> int:
        """How many of them a layer has; a model that has none is refused."""

    @abstractmethod
    def edit(self, layer: int, values: Sequence[float]) -> Edit:
        """The edit that sets the gates of a layer."""

    @abstractmethod
    def repeated(self, gates: Tensor, rows: int) -> Tensor:
        """The gates of a layer as a batch of so many rows has them: of each row its own, or all the same."""

    @abstractmethod
    def attached(self, model: Model, layer: int, gate: Tensor) -> RemovableHandle:
        """The gates of a layer put into the model."""

    def slopes(self, gradient: Tensor) -> Tensor:
        """The gradients of a layer's gates by row: [row, component]; one row where all share their gates."""
        return gradient[None] if self.shared else gradient


@dataclass(frozen=True)
class Heads(Component):
    """A gate for each text, layer and head: what each text contributes is seen at no cost."""

    def count(self, model: Model) -> int:
        return model.heads

    def edit(self, layer: int, values: Sequence[float]) -> Edit:
        return HeadGates(layer, tuple(values))

    def repeated(self, gates: Tensor, rows: int) -> Tensor:
        return gates.repeat(rows, 1)

    def attached(self, model: Model, layer: int, gate: Tensor) -> RemovableHandle:
        hook = on_heads(model, lambda h: h * gate[:, None, :, None].to(h))
        return model.output_projection(layer).register_forward_pre_hook(hook)


@dataclass(frozen=True)
class Neurons(Component):
    """A gate for each layer and neuron, which all texts share: a gate for each text would be as large as the
    activations."""

    shared: ClassVar[bool] = True

    def count(self, model: Model) -> int:
        model.check_site(Site(0, "neurons"))
        return model.neurons

    def edit(self, layer: int, values: Sequence[float]) -> Edit:
        return NeuronGates(layer, len(values), tuple(range(len(values))), tuple(values))

    def repeated(self, gates: Tensor, rows: int) -> Tensor:
        return gates.clone()

    def attached(self, model: Model, layer: int, gate: Tensor) -> RemovableHandle:
        hook = on_input(lambda h: h * gate.to(h))
        return model.down_projection(layer).register_forward_pre_hook(hook)


HEADS, NEURONS = Heads(), Neurons()


def gated_blocks(
    trunk: Trunk, plan: Plan, component: Component, gates: Sequence[Tensor], flat: Tensor, *, recompute: bool
) -> Tensor:
    """What leaves the last block, at the tokens `flat` of batch x token only: [batch, token, hidden].

    gates: of each layer, as `component.repeated` has them. recompute: keep what enters each block and nothing
    else; the way back then runs every block once more. The gradient is the same, the memory that of a block.
    """
    hidden = plan.hidden
    for layer, gate in enumerate(gates):
        block = partial(_gated_block, trunk, plan, (component, layer), flat)
        if recompute:
            hidden = cast(
                Tensor, checkpoint(block, hidden, gate, use_reentrant=False, preserve_rng_state=False)
            )
        else:
            hidden = block(hidden, gate)
    return hidden


def _gated_block(
    trunk: Trunk, plan: Plan, place: tuple[Component, int], flat: Tensor, hidden: Tensor, gate: Tensor
) -> Tensor:
    model, (component, layer) = trunk.model, place
    handle = component.attached(model, layer, gate)
    try:
        if layer < model.layers - 1:
            return trunk.block(plan, layer, hidden)
        with only_rows(model, layer, flat, (hidden.shape[0], hidden.shape[1])):
            return trunk.block(plan, layer, hidden)
    finally:
        handle.remove()
