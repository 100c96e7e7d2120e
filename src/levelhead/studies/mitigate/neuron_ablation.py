"""The neurons that add most to what a model does ablated, by integrated gradients on part A's items."""

from __future__ import annotations

from levelhead.edits.gates import neuron_gates
from levelhead.edits.sites import Neuron
from levelhead.errors import CannotDo
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.objectives import behavior_of_few
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation

_SHARES = (0.001, 0.005, 0.02)  # of all neurons
_STEPS = 4  # of the way from 0 to 1


class NeuronAblation:
    """A share of all neurons removed: those with the highest integrated gradient of the behavior."""

    name = "ablated neurons"
    cost = 16.0

    def why_not(self, model: Model, fit: Battery) -> str:
        if model.fixed_weights:
            return f"{model.name} gives no gradients: {model.fixed_weights}"
        try:
            _ = model.neurons
            behavior_of_few(model, fit)
        except CannotDo as error:
            return str(error)
        return ""

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        scores = behavior_of_few(model, fit).neuron_scores(model, _STEPS)
        made = []
        for share in _SHARES:
            if count := round(share * scores.size):
                neurons = [Neuron(*each) for each in highest(scores, count)]
                named = f"{len(neurons)} ablated neuron{'s' * (len(neurons) > 1)}"
                recipe = Recipe(neurons=dict.fromkeys(neurons, 0.0), title=named)
                made.append(Candidate(named, self.name, share, neuron_gates(model, recipe.neurons), recipe))
        return made


register_mitigation(NeuronAblation())
