"""Neurons by integrated gradients of their gates from 0 to 1: their scores add up to J(1) − J(0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelhead.models.model import Model
from levelhead.scoring.objective import Objective
from levelhead.studies.localizing.neuron_gradient import why_no_neurons
from levelhead.studies.localizing.protocol import ComponentKind, ComponentScores


@dataclass(frozen=True)
class NeuronIntegration:
    """The midpoint rule in so many steps. Reference: Sundararajan et al. 2017."""

    name: str = "integrated gradients"
    steps: int = 8
    component: ClassVar[ComponentKind] = "neurons"

    def why_not(self, model: Model, objective: Objective) -> str:
        return why_no_neurons(model)

    def scores(self, model: Model, objective: Objective) -> ComponentScores:
        return ComponentScores.exact(self.component, objective.neuron_scores(model, self.steps))
