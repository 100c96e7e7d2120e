"""Where a model can be changed, and what a change is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

Part = Literal["block", "cls", "pooled", "heads", "query", "key", "value", "neurons", "mlp", "output"]
# parts that act while a block runs
INSIDE: tuple[Part, ...] = ("query", "key", "value", "heads", "neurons", "mlp")
AFTER: tuple[Part, ...] = ("block", "cls")  # parts that act on a block's output


@dataclass(frozen=True)
class Site:
    """A place in the network. Layers are counted from 0 in code and from 1 in everything a person reads.

    block   a block's output, every token            [batch, token, hidden]
    cls     a block's output, the first token only   [batch, 1, hidden]
    pooled  what the classifier's last linear reads  [batch, hidden]; the layer is 0 by custom
    heads   the heads' outputs before W^O            [batch, token, head, dim]
    query, key, value   after their projections      [batch, token, head, dim]; key and value: grouped heads
    neurons the activations before the MLP's down projection  [batch, token, neuron]
    mlp     what the down projection returns         [batch, token, hidden]
    output  the answers themselves, outside the network; the layer is 0 by custom
    """

    layer: int
    part: Part


class Edit(Protocol):
    """A fitted change at one site. It returns a new tensor of the same shape and never writes in place."""

    @property
    def site(self) -> Site: ...

    def __call__(self, h: Tensor) -> Tensor: ...


Variant = tuple[Edit, ...]  # () is the unmodified model
UNTOUCHED: tuple[Variant, ...] = ((),)
OUTPUT = Site(0, "output")


def passes(variant: Variant) -> int:
    """How often a model is run for one answer: an edit that asks several times states its own `passes`."""
    return math.prod(getattr(edit, "passes", 1) for edit in variant)


def inside(variant: Variant) -> tuple[Edit, ...]:
    """The edits of a variant that act on tensors inside the network."""
    return tuple(edit for edit in variant if edit.site.part != OUTPUT.part)


def around(variant: Variant) -> tuple[Edit, ...]:
    """The edits of a variant that concern the whole network: what is asked of it, which weights it has."""
    return tuple(edit for edit in variant if edit.site.part == OUTPUT.part)
