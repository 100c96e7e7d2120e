"""Heads by the gradient of their gates: b = dJ / dm at m = 1 (docs/method/heads.md, Head scores)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from levelhead.models.model import Model
from levelhead.scoring.objective import Objective, several_gradients
from levelhead.studies.atlas.protocol import ComponentKind, ComponentScores


@dataclass(frozen=True)
class HeadGradient:
    """Exact over all texts, with standard errors over them."""

    name: str = "gradient"
    component: ClassVar[ComponentKind] = "heads"

    def why_not(self, model: Model, objective: Objective) -> str:
        return f"{model.name} gives no gradients: {model.fixed_weights}" if model.fixed_weights else ""

    def scores(self, model: Model, objective: Objective) -> ComponentScores:
        return self.scores_of_several(model, [objective])[0]

    def scores_of_several(self, model: Model, objectives: Sequence[Objective]) -> list[ComponentScores]:
        """The scores for several objectives; those of one reading cost as much as one of them."""
        return [
            ComponentScores(self.component, found.scores, found.stderr, found.objective)
            for found in several_gradients(model, objectives)
        ]
