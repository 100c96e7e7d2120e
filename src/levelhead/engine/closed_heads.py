"""The parameters of heads that a gate closes: fine-tuning leaves them bit for bit as they were.

Behind a gate of 0 their gradient is exactly 0, so that only weight decay would move them (docs/method.md,
GLUE). They are the rows of the query, key and value projections and the columns of W^O.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from levelhead.edits.gates import HeadGates
from levelhead.edits.head import Head
from levelhead.edits.sites import Edit
from levelhead.models.adapter import AffineEdit
from levelhead.models.anatomy import Anatomy
from levelhead.models.hooks import join_qkv, split_qkv

_PARTS = ("query", "key", "value")


@dataclass(frozen=True, eq=False)
class HeadSlice:
    """The part of one parameter that serves closed heads alone."""

    parameter: nn.Parameter
    index: Tensor  # along the dimension
    dimension: int

    def values(self) -> Tensor:
        """A copy of the part as it is now."""
        return self.parameter.detach().index_select(self.dimension, self.index).clone()

    @torch.no_grad()
    def restore(self, values: Tensor) -> None:
        """Put earlier values back."""
        self.parameter.index_copy_(self.dimension, self.index, values)


def closed_heads(model: Anatomy, edits: Sequence[Edit]) -> list[Head]:
    """Heads that an edit multiplies with 0; of a block that several layers share, those closed in all."""
    closed = {head for edit in edits for head in _closed(edit)}
    layers = {block: [i for i, own in enumerate(model.blocks) if own is block] for block in model.blocks}
    return sorted(
        head
        for head in closed
        if all(Head(layer, head.head) in closed for layer in layers[model.blocks[head.layer]])
    )


def head_slices(model: Anatomy, heads: Collection[Head]) -> list[HeadSlice]:
    """What of the model's parameters serves these heads and no other.

    A key or value head that several query heads share is among it only if all of them are. Queries and keys
    that are normalized over all heads at once serve every head, so they are not among it.
    """
    slices: list[HeadSlice] = []
    for layer in sorted({head.layer for head in heads}):
        numbers = {head.head for head in heads if head.layer == layer}
        for number, part in enumerate(_PARTS):
            if model.family.joint_norm and part != "value":
                continue
            module = cast(Any, model.qkv_module(layer, part))
            index = _rows(model, module, numbers, number)
            slices.append(HeadSlice(module.weight, index, 0 if isinstance(module, nn.Linear) else 1))
            if getattr(module, "bias", None) is not None:
                slices.append(HeadSlice(module.bias, index, 0))
        output = cast(Any, model.output_projection(layer))
        columns = torch.arange(model.heads * model.head_dim, device=output.weight.device)
        index = torch.cat([columns.view(model.heads, -1)[number] for number in sorted(numbers)])
        slices.append(HeadSlice(output.weight, index, 1 if isinstance(output, nn.Linear) else 0))
    return [each for each in slices if len(each.index)]


def _closed(edit: Edit) -> list[Head]:
    if edit.site.part != "heads":
        return []
    if isinstance(edit, HeadGates):
        return [Head(edit.layer, head) for head, value in enumerate(edit.values) if value == 0]
    if isinstance(edit, AffineEdit) and edit.scale is not None and edit.read is None and edit.offset is None:
        return [Head(edit.site.layer, head) for head, scale in enumerate(edit.scale) if not scale.any()]
    return []


def _rows(model: Anatomy, module: Any, heads: Collection[int], part: int) -> Tensor:
    """Which outputs of a query, key, value or fused projection belong to these query heads alone."""
    width = module.weight.shape[0 if isinstance(module, nn.Linear) else 1]
    outputs = split_qkv(model, torch.zeros(width, device=module.weight.device), part)
    mine = outputs[part]  # [head, dim]
    group = model.heads // mine.shape[0]
    alone = [all(head * group + i in heads for i in range(group)) for head in range(mine.shape[0])]
    outputs[part] = mine + torch.tensor(alone, device=mine.device).to(mine)[:, None]
    return join_qkv(model, outputs, part).nonzero()[:, 0]
