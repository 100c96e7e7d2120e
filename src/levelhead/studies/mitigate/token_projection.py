"""Directions of the group difference projected out of every token, from some layer on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelhead.mitigation.fitting import fit_steps, pairs_about
from levelhead.mitigation.recipe import Recipe, step
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation

_DIMENSIONS = 1


@dataclass(frozen=True)
class TokenProjection:
    """Hard projections of one direction at the last layers."""

    depths: tuple[int, ...] = (1, 2, 4)  # last layers
    name: ClassVar[str] = "projected tokens"

    @property
    def cost(self) -> float:
        """One pass, of which each further candidate repeats its last layers."""
        return 1.0 + 0.4 * (len(self.depths) - 1)

    def why_not(self, model: Model, fit: Battery) -> str:
        return "" if pairs_about(model, fit.test) else f"{fit.test.name} has no pairs to fit directions on"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        pairs = pairs_about(model, fit.test)
        depths = [depth for depth in self.depths if depth < model.layers]
        plans = [tuple(step("tokens", layer, _DIMENSIONS) for layer in range(-d, 0)) for d in depths]
        made = []
        for depth, plan, edits in zip(depths, plans, fit_steps(model, pairs, plans), strict=True):
            named = f"projected from layer {model.layers - depth + 1}"
            # directions that are fitted on words of part A: no recipe could name these again
            recipe = Recipe(projections=plan, title=named) if about_gender(fit.test) else None
            made.append(Candidate(named, self.name, float(depth), edits, recipe))
        return made


register_mitigation(TokenProjection())
