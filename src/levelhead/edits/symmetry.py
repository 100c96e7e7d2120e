"""Symmetrization as a value: the model's answers averaged over the exchange of groups.

    f_s(y | x) = (1/k) Σ_t f(σ^t y | σ^t x)       k groups; for two, ½ f(y | x) + ½ f(σy | σx)

It changes no tensor inside the network but what is asked and how answers are put together, so it stands in a
variant beside other edits and acts where the model answers. The engine asks the model k times
(engine/symmetry.py; docs/method.md, Symmetrization). After Basu et al. 2023 (equi-tuning).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from levelhead.edits.sites import OUTPUT, Site, Variant
from levelhead.errors import CannotDo


@dataclass(frozen=True)
class Symmetrized:
    """Answers averaged over the turns of a group swap.

    swap: a GroupSwap of probes/group_swap.py, which this room does not know.
    """

    swap: Any

    @property
    def site(self) -> Site:
        """Where the model answers."""
        return OUTPUT

    @property
    def passes(self) -> int:
        """One per group."""
        return int(self.swap.groups)

    def __call__(self, h: Tensor) -> Tensor:
        raise CannotDo(
            "A symmetrized model is asked twice and changes no tensor inside: give it as a variant, or "
            "distill it into weights."
        )


@dataclass(frozen=True)
class Coined:
    """Answers at one turn of a group swap, which a coin decides for each text: one pass, and in expectation
    the answers of the symmetrized model.

    coin: a Coin of probes/coin.py, which this room does not know.
    """

    coin: Any

    @property
    def site(self) -> Site:
        """Where the model answers."""
        return OUTPUT

    def __call__(self, h: Tensor) -> Tensor:
        raise CannotDo("A coin decides what a model is asked, and changes no tensor: give it as a variant.")


def coin_of(variant: Variant) -> Coined | None:
    """The coin in a variant, if there is one."""
    return next((edit for edit in variant if isinstance(edit, Coined)), None)


def symmetry_of(variant: Variant) -> Symmetrized | None:
    """The symmetrization in a variant, if there is one."""
    return next((edit for edit in variant if isinstance(edit, Symmetrized)), None)
