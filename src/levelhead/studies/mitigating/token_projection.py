"""Directions of the group difference projected out of every token, from some layer on."""

from __future__ import annotations

from levelhead.mitigation.fitting import fit_steps, pairs_about
from levelhead.mitigation.recipe import Recipe, step
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigating.protocol import Candidate, register_mitigation

_DIMENSIONS = 1
_DEPTHS = (1, 2, 4)  # last layers


class TokenProjection:
    """Hard projections of one direction at the last layers."""

    name = "projected tokens"
    cost = 2.5

    def why_not(self, model: Model, fit: Battery) -> str:
        return "" if pairs_about(model, fit.test) else f"{fit.test.name} has no pairs to fit directions on"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        pairs = pairs_about(model, fit.test)
        depths = [depth for depth in _DEPTHS if depth < model.layers]
        plans = [tuple(step("tokens", layer, _DIMENSIONS) for layer in range(-d, 0)) for d in depths]
        fitted = fit_steps(model, pairs, plans)
        return [
            Candidate(
                f"projected from layer {model.layers - depth + 1}",
                self.name,
                float(depth),
                edits,
                Recipe(projections=plan, title=f"projected from layer {model.layers - depth + 1}"),
            )
            for depth, plan, edits in zip(depths, plans, fitted, strict=True)
        ]


register_mitigation(TokenProjection())
