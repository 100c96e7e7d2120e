"""Neurons by the gradient of their gates: b = dJ / dm at m = 1 (docs/method/heads.md, Neuron gate)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelhead.errors import CannotDo
from levelhead.models.model import Model
from levelhead.scoring.objective import Objective
from levelhead.studies.atlas.protocol import ComponentKind, ComponentScores


@dataclass(frozen=True)
class NeuronGradient:
    """Exact over all texts; sums, without standard errors. steps: as in integrated gradients; 0: at m = 1."""

    name: str = "neuron gradient"
    steps: int = 0
    component: ClassVar[ComponentKind] = "neurons"

    def why_not(self, model: Model, objective: Objective) -> str:
        return why_no_neurons(model)

    def scores(self, model: Model, objective: Objective) -> ComponentScores:
        return ComponentScores.exact(self.component, objective.neuron_scores(model, self.steps))


def why_no_neurons(model: Model) -> str:
    """Why the neurons of a model have no gradients; empty where they have."""
    try:
        _ = model.neurons
    except CannotDo as error:
        return str(error)
    return f"{model.name} gives no gradients: {model.fixed_weights}" if model.fixed_weights else ""
