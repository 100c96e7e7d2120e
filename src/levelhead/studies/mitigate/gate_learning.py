"""Gates on heads that are learned on part A's items: the least bias for a given loss of fluency.

The search is that of the heads study (studies/heads/learned_gates.py), here for a benchmark where one is the
target, else for preference or log-odds.
"""

from __future__ import annotations

import numpy as np

from levelhead.edits.sites import Head
from levelhead.errors import BadProbe, CannotDo
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.objectives import behavior_of_few
from levelhead.studies.heads.learned_gates import as_variant, blanks, learn_gates
from levelhead.studies.heads.settings import LearnSettings
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation

_SEARCH = LearnSettings(bounds=(1.005, 1.01, 1.02))  # fluency may lose so much where it is learned
_DIGITS = 6  # of a gate


class GateLearning:
    """A gate in [0, 2] on every head, for three bounds on perplexity."""

    name = "learned gates"
    cost = 40.0
    quick = False

    def why_not(self, model: Model, fit: Battery) -> str:
        if model.fixed_weights:
            return f"{model.name} gives no gradients: {model.fixed_weights}"
        if not model.abilities & {"mlm", "causal"}:
            return f"{model.name} predicts no tokens, so no fluency bounds its gates"
        try:
            blanks(model, fit.sentences, 1, 0)
            behavior_of_few(model, fit)
        except (BadProbe, CannotDo) as error:
            return str(error)
        return ""

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        objective = behavior_of_few(model, fit)
        found, last = [], np.ones((model.layers, model.heads))
        for point in learn_gates(model, objective, fit.sentences, _SEARCH):
            values = np.round(point.values, _DIGITS)
            if (values != last).any():  # a looser bound may reach no more
                named = f"learned gates, at most {point.bound:g}"
                changed = [Head(int(layer), int(head)) for layer, head in np.argwhere(values != 1)]
                recipe = Recipe(gates={head: float(values[head]) for head in changed}, title=named)
                found.append(Candidate(named, self.name, point.bound, as_variant(model, values), recipe))
            last = values
        return found


register_mitigation(GateLearning())
