"""What tells a live network from the one that was loaded: hooks, exchanged weights, another attention code.

Workers load a model by its name, and answer for it as long as nothing else was done to it here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Condition:
    """A network at one moment. Weights that are written to through `.data` seem unchanged."""

    hooks: frozenset[int]
    weights: tuple[tuple[int, int], ...]  # where each lies, and how often it was changed in place
    attention: str


@dataclass(frozen=True, eq=False)
class Standing:
    """A context that is on: the value that was put on, and the hooks by which it acts."""

    value: object
    hooks: frozenset[int]


def condition(hf: Any, standing: Iterable[Standing] = ()) -> Condition:
    """The condition of a network now, if these contexts were not on."""
    dicts = (hooks for m in hf.modules() for hooks in (m._forward_hooks, m._forward_pre_hooks))
    hooks = frozenset(number for own in dicts for number in own).difference(*(on.hooks for on in standing))
    weights = []
    for weight in (*hf.parameters(), *hf.buffers()):
        if weight.is_meta:  # its numbers are on the host or on disk, in other tensors at each pass
            continue
        try:
            place = weight.data_ptr()
        except RuntimeError:  # a quantized weight that consists of several tensors has no place of its own
            place = id(weight)
        weights.append((place, 0 if weight.is_inference() else weight._version))
    return Condition(hooks, tuple(weights), str(hf.config._attn_implementation))
