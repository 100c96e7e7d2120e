"""Where a model can be changed, and what a change is."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from levelhead.errors import BadOption

if TYPE_CHECKING:  # heads are named in settings, and `--help` imports no torch
    import torch
    from torch import Tensor

Part = Literal["block", "cls", "pooled", "heads", "query", "key", "value", "neurons", "mlp", "output"]
# parts that act while a block runs
INSIDE: tuple[Part, ...] = ("query", "key", "value", "heads", "neurons", "mlp")
AFTER: tuple[Part, ...] = ("block", "cls")  # parts that act on a block's output
UNTOUCHED: tuple[Variant, ...] = ((),)
_WRITTEN = re.compile(r"\s*([1-9][0-9]{0,5})\s*-\s*([1-9][0-9]{0,5})\s*")


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
OUTPUT = Site(0, "output")


def passes(variant: Variant) -> int:
    """How often a model is run for one answer: an edit that asks several times states its own `passes`."""
    return math.prod(getattr(edit, "passes", 1) for edit in variant)


def inside(variant: Variant) -> tuple[Edit, ...]:
    """The edits of a variant that act on tensors inside the network."""
    return tuple(edit for edit in variant if edit.site.part != OUTPUT.part)


def around(variant: Variant) -> tuple[Edit, ...]:
    """The edits of a variant that concern the whole network: what it is given, which weights it has."""
    return tuple(edit for edit in variant if edit.site.part == OUTPUT.part)


def placed(values: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """The values on a device, in their own dtype or another."""
    if device.type == "cuda" and values.device.type == "cpu":
        # from pinned memory the copy is queued on the card, and neither host nor card stands still for it
        values = values.pin_memory().to(device, non_blocking=True)
    return values.to(device=device, dtype=dtype or values.dtype)


def beside(values: Tensor, other: Tensor) -> Tensor:
    """The values on another tensor's device, in its dtype."""
    return placed(values, other.device, other.dtype)


class Head(NamedTuple):
    """One attention head: Head(7, 5) prints as 8-6."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.layer + 1}-{self.head + 1}"

    @classmethod
    def of(cls, named: tuple[int, int] | str) -> Head:
        """A head as code names it, (7, 5), or as people write it, "8-6"."""
        return cls.parse(named) if isinstance(named, str) else cls(*named)

    @classmethod
    def parse(cls, text: str) -> Head:
        """The head that is written so: "8-6" is Head(7, 5)."""
        written = _WRITTEN.fullmatch(text)
        if written is None:
            raise BadOption(f"{text[:40]!r} is no head. Write layer-head, both counted from 1, such as 8-6.")
        return cls(int(written[1]) - 1, int(written[2]) - 1)


class Neuron(NamedTuple):
    """One neuron of an MLP: Neuron(7, 511) prints as 8-512."""

    layer: int
    neuron: int

    def __str__(self) -> str:
        return f"{self.layer + 1}-{self.neuron + 1}"
