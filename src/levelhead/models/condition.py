"""What tells a live network from the one that was loaded: hooks, exchanged weights, another attention code.

Other processes load a model by its name. They may answer for it as long as nothing was done to it here that
they do not know of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Condition:
    """A network at one moment. Weights that are written to through `.data` look unchanged."""

    hooks: frozenset[int]
    weights: tuple[tuple[int, int], ...]  # where each lies, and how often it was changed in place
    attention: str

    def without(self, hooks: frozenset[int]) -> Condition:
        """The same network, if these hooks were taken off."""
        return Condition(self.hooks - hooks, self.weights, self.attention)


@dataclass(frozen=True, eq=False)
class Standing:
    """A context that is on: the value that was put on, and the hooks by which it acts."""

    value: object
    hooks: frozenset[int]


def condition(hf: Any) -> Condition:
    """The condition of a network now."""
    weights = [*hf.parameters(), *hf.buffers()]
    return Condition(_hooks(hf), tuple(map(_state, weights)), str(hf.config._attn_implementation))


def _hooks(network: nn.Module) -> frozenset[int]:
    """The numbers of all hooks that act on the way forward."""
    dicts = (hooks for m in network.modules() for hooks in (m._forward_hooks, m._forward_pre_hooks))
    return frozenset(number for hooks in dicts for number in hooks)


def _state(weight: Tensor) -> tuple[int, int]:
    changes = 0 if weight.is_inference() else weight._version
    try:
        return weight.data_ptr(), changes
    except RuntimeError:  # a quantized weight that consists of several tensors has no place of its own
        return id(weight), changes
