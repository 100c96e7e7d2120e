"""Self-Debias as a value: words that a biased prompt makes likelier are made less likely.

    p~(w | x) ∝ α(Δ) p(w | x),   Δ(w) = p(w | x) − p(w | prefix + x),   α = 1 if Δ >= 0, else exp(λ Δ)

α is 0.01 at least; of several prefixes the one with the smallest Δ counts. It changes no tensor inside the
network but what is asked and how answers are put together, so it stands in a variant and acts where the model
answers; the engine asks once more for each prefix (engine/self_debias.py; docs/method.md, Self-Debias).
Reference: Schick et al. 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from levelhead.edits.sites import OUTPUT, Site, Variant
from levelhead.errors import CannotDo


@dataclass(frozen=True)
class SelfDebiased:
    """Probabilities of words, lowered where a prefix that asks for the bias raises them."""

    prefixes: tuple[str, ...]
    decay: float = 50.0  # λ; 0 changes nothing
    floor: float = 0.01  # of α

    @property
    def site(self) -> Site:
        """Where the model answers."""
        return OUTPUT

    @property
    def passes(self) -> int:
        """One without a prefix, and one behind each."""
        return 1 + len(self.prefixes)

    def __call__(self, h: Tensor) -> Tensor:
        raise CannotDo(
            "Self-Debias asks the model twice and changes no tensor inside: give it as a variant of a model."
        )


def self_debias_of(variant: Variant) -> SelfDebiased | None:
    """The Self-Debias in a variant, if there is one."""
    return next((edit for edit in variant if isinstance(edit, SelfDebiased)), None)
