"""Edits of a model as a whole: of what it is given, of how its answers are put together, or of its weights.

They change no single tensor inside the network, so they stand in a variant beside other edits and act where
the model answers (engine/symmetry.py, engine/self_debias.py, engine/run.py, models/hooks.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from levelhead.edits.sites import OUTPUT, Edit, Variant
from levelhead.errors import BadOption, CannotDo

E = TypeVar("E", bound=Edit)


class _AtOutput:
    site = OUTPUT
    refusal = ""  # why it cannot be called on one tensor

    def __call__(self, h: Tensor) -> Tensor:
        raise CannotDo(self.refusal.format(self))


@dataclass(frozen=True)
class Symmetrized(_AtOutput):
    """Answers averaged over the exchange of groups: over the orientations of a group swap.

        f_s(y | x) = (1/k) Σ_t f(σ^t y | σ^t x)       k groups; for two, ½ f(y | x) + ½ f(σy | σx)

    swap: a GroupSwap of probes/group_swap.py, which this room does not know. Reference: Basu et al. 2023
    (equi-tuning); docs/method/mitigations.md, Symmetrization.
    """

    swap: Any
    refusal = (
        "A symmetrized model is evaluated twice and changes no tensor inside: give it as a variant, or "
        "distill it into weights."
    )

    @property
    def passes(self) -> int:
        """One per group."""
        return int(self.swap.groups)


@dataclass(frozen=True)
class Coined(_AtOutput):
    """Answers at one orientation of a group swap, which a coin decides for each text: one pass, and in
    expectation the answers of the symmetrized model.

    coin: a Coin of probes/coin.py, which this room does not know.
    """

    coin: Any
    refusal = "A coin decides which text a model gets, and changes no tensor: give it as a variant."


@dataclass(frozen=True)
class SelfDebiased(_AtOutput):
    """Probabilities of words, lowered where a prefix that asks for the bias raises them.

        p~(w | x) ∝ α(Δ) p(w | x),   Δ(w) = p(w | x) − p(w | prefix + x),   α = 1 if Δ >= 0, else exp(λ Δ)

    α is 0.01 at least; of several prefixes the one with the smallest Δ counts. Reference: Schick et al. 2021
    (Self-Debias); docs/method/mitigations.md, Self-Debias.
    """

    prefixes: tuple[str, ...]
    decay: float = 50.0  # λ; 0 changes nothing
    floor: float = 0.01  # of α
    refusal = (
        "Self-Debias asks the model twice and changes no tensor inside: give it as a variant of a model."
    )

    @property
    def passes(self) -> int:
        """One without a prefix, and one behind each."""
        return 1 + len(self.prefixes)


@dataclass(frozen=True)
class Reweighted(_AtOutput):
    """Some parameters with other numbers: what a distilled, fine-tuned or directly edited model differs in.

    Two of the same name and numbers are equal. values: the new numbers by the name of the parameter, as
    `named_parameters` of the network has it; a name of a tied parameter stands for all of its names. Where
    several change one parameter, the last one counts.
    """

    name: str
    values: Mapping[str, Tensor] = field(compare=False, repr=False)
    digest: str = field(init=False)  # sha256 of names, shapes and numbers
    refusal = "{0.name} is other weights, not a change of one tensor: give it as a variant."

    def __post_init__(self) -> None:
        if not self.values:
            raise BadOption(f"{self.name}: values must have at least one parameter by its name (got none).")
        total = hashlib.sha256()
        for name, value in sorted(self.values.items()):
            plain = value.detach().cpu().contiguous()
            total.update(f"{name} {tuple(plain.shape)} {plain.dtype}\n".encode())
            total.update(plain.reshape(-1).view(torch.uint8).numpy().data)
        object.__setattr__(self, "digest", total.hexdigest())

    @classmethod
    def moved(
        cls, name: str, weights: Mapping[str, Tensor], steps: Mapping[str, Tensor], by: float = 1.0
    ) -> Reweighted:
        """weights + by · steps, for the parameters that steps name; by=0 leaves every bit as it is."""
        _check_known(name, weights, steps)
        new = {}
        for each, step in steps.items():
            own = weights[each].detach()
            if by == 0:
                new[each] = own.clone()
            else:
                new[each] = (own.double() + by * step.to(own.device).double()).to(own.dtype)
        return cls(name, new)

    @classmethod
    def part_way(
        cls, name: str, weights: Mapping[str, Tensor], others: Mapping[str, Tensor], way: float
    ) -> Reweighted:
        """weights + way · (others − weights), for the parameters that others name; 0 and 1 are exact."""
        _check_known(name, weights, others)
        new = {}
        for each, other in others.items():
            own = weights[each].detach().to(other.device).double()
            new[each] = own.lerp(other.double(), way).to(other.dtype)
        return cls(name, new)


def _check_known(name: str, weights: Mapping[str, Tensor], named: Mapping[str, Tensor]) -> None:
    if unknown := [each for each in named if each not in weights]:
        raise BadOption(f"{name}: the network has no parameter {unknown[0]!r}.")


def edit_of(kind: type[E], variant: Variant) -> E | None:
    """The edit of this kind in a variant, if there is one: a symmetrization, a coin, Self-Debias."""
    return next((edit for edit in variant if isinstance(edit, kind)), None)


def weights_of(variant: Variant) -> tuple[Reweighted, ...]:
    """The other weights in a variant, in their order."""
    return tuple(edit for edit in variant if isinstance(edit, Reweighted))


def besides_weights(variant: Variant) -> tuple[Edit, ...]:
    """The edits of a variant that leave the weights alone."""
    return tuple(edit for edit in variant if not isinstance(edit, Reweighted))
