"""Directions of the group difference projected out of every token, from some layer on."""

from __future__ import annotations

from levelhead.mitigation.fitting import fit_steps, pairs_about
from levelhead.mitigation.recipe import Recipe, Step, step
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
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
                self._recipe(plan, f"projected from layer {model.layers - depth + 1}", fit),
            )
            for depth, plan, edits in zip(depths, plans, fitted, strict=True)
        ]

    def _recipe(self, plan: tuple[Step, ...], title: str, fit: Battery) -> Recipe | None:
        """None where directions are fitted on words of part A, which no recipe could name again."""
        return Recipe(projections=plan, title=title) if about_gender(fit.test) else None


register_mitigation(TokenProjection())
