"""Heads by the gradient of their gates: b = dJ / dm at m = 1 (docs/method.md, Head scores)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelhead.models.model import Model
from levelhead.scoring.objective import Objective
from levelhead.studies.localizing.protocol import ComponentKind, ComponentScores, why_no_gradients


@dataclass(frozen=True)
class HeadGradient:
    """Exact over all texts, with standard errors over them."""

    name: str = "gradient"
    component: ClassVar[ComponentKind] = "heads"

    def why_not(self, model: Model, objective: Objective) -> str:
        return why_no_gradients(model)

    def scores(self, model: Model, objective: Objective) -> ComponentScores:
        found = objective.gradients(model)
        return ComponentScores(self.component, found.scores, found.stderr, found.objective)
