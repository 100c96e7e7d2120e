"""Other weights as a value: what a distilled, fine-tuned or directly edited model differs in.

It stands in a variant beside other edits. The engine puts the tensors into the network while that variant is
asked, and takes them out again (engine/run.py; models/reweighting.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from levelhead.edits.sites import OUTPUT, Edit, Site, Variant
from levelhead.errors import BadOption, CannotDo


@dataclass(frozen=True)
class Reweighted:
    """Some parameters with other numbers. Two of the same name and numbers are equal.

    values: the new numbers by the name of the parameter, as `named_parameters` of the network has it; a name
    of a tied parameter stands for all of its names. Where several change one parameter, the last one counts.
    """

    name: str
    values: Mapping[str, Tensor] = field(compare=False, repr=False)
    digest: str = field(init=False)  # sha256 of names, shapes and numbers

    def __post_init__(self) -> None:
        if not self.values:
            raise BadOption(f"{self.name}: no weights came; give at least one parameter by its name.")
        object.__setattr__(self, "digest", _digest(self.values))

    @classmethod
    def moved(
        cls, name: str, weights: Mapping[str, Tensor], steps: Mapping[str, Tensor], by: float = 1.0
    ) -> Reweighted:
        """weights + by · steps, for the parameters that steps name; by=0 leaves every bit as it is."""
        if unknown := [each for each in steps if each not in weights]:
            raise BadOption(f"{name}: the network has no parameter {unknown[0]!r}.")
        return cls(name, {each: _moved(weights[each], step, by) for each, step in steps.items()})

    @classmethod
    def part_way(
        cls, name: str, weights: Mapping[str, Tensor], others: Mapping[str, Tensor], way: float
    ) -> Reweighted:
        """weights + way · (others − weights), for the parameters that others name; 0 and 1 are exact."""
        if unknown := [each for each in others if each not in weights]:
            raise BadOption(f"{name}: the network has no parameter {unknown[0]!r}.")
        return cls(name, {each: _between(weights[each], other, way) for each, other in others.items()})

    @property
    def site(self) -> Site:
        """All of the network; by custom, where the model answers."""
        return OUTPUT

    def __call__(self, h: Tensor) -> Tensor:
        raise CannotDo(f"{self.name} is other weights, not a change of one tensor: give it as a variant.")


def _moved(weight: Tensor, step: Tensor, by: float) -> Tensor:
    own = weight.detach()
    return own.clone() if by == 0 else (own.double() + by * step.to(own.device).double()).to(own.dtype)


def _between(weight: Tensor, other: Tensor, way: float) -> Tensor:
    own = weight.detach().to(other.device).double()
    return own.lerp(other.double(), way).to(other.dtype)


def weights_of(variant: Variant) -> tuple[Reweighted, ...]:
    """The other weights in a variant, in their order."""
    return tuple(edit for edit in variant if isinstance(edit, Reweighted))


def besides_weights(variant: Variant) -> tuple[Edit, ...]:
    """The edits of a variant that leave the weights alone."""
    return tuple(edit for edit in variant if not isinstance(edit, Reweighted))


def _digest(values: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name, value in sorted(values.items()):
        plain = value.detach().cpu().contiguous()
        total.update(f"{name} {tuple(plain.shape)} {plain.dtype}\n".encode())
        total.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
