"""The blocks of a model as a function of one gate for each text, layer and head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from levelhead.engine.trunk import Plan, Trunk, only_rows
from levelhead.models.hooks import on_heads
from levelhead.models.model import Model


def gated_blocks(
    model: Model, plan: Plan, gates: Sequence[Tensor], flat: Tensor, *, recompute: bool = False
) -> Tensor:
    """What leaves the last block, at the tokens `flat` of batch x token only: [batch, token, hidden].

    gates: of each layer, [text, head]. recompute: keep what enters each block and nothing else; the way back
    then runs every block once more. The gradient is the same, the memory that of one block.
    """
    hidden, trunk = plan.hidden, Trunk(model)
    for layer, gate in enumerate(gates):
        block = partial(_gated_block, trunk, plan, layer, flat)
        if recompute:
            hidden = cast(
                Tensor, checkpoint(block, hidden, gate, use_reentrant=False, preserve_rng_state=False)
            )
        else:
            hidden = block(hidden, gate)
    return hidden


def _gated_block(trunk: Trunk, plan: Plan, layer: int, flat: Tensor, hidden: Tensor, gate: Tensor) -> Tensor:
    model = trunk.model
    handle = model.output_projection(layer).register_forward_pre_hook(on_heads(model, _multiply(gate)))
    try:
        if layer < model.layers - 1:
            return trunk.block(plan, layer, hidden)
        with only_rows(model, layer, flat, (hidden.shape[0], hidden.shape[1])):
            return trunk.block(plan, layer, hidden)
    finally:
        handle.remove()


def _multiply(gate: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda h: h * gate[:, None, :, None].to(h)
