"""FASP: heads whose removal costs most perplexity are protected, the most biased of the rest are pruned.

    z_i = log perplexity of part A's text without head i − with it
    protected: the share γ with the highest z;  pruned: of the others, those with the highest b = dJ/dm

J is what the model does (preference, else log-odds), or |SEAT| where none of that can be measured. Zayed et
al. 2024 measure b by removing each head as well; ours is the gradient, which needs two passes for all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.gates import all_heads, removed
from levelhead.edits.sites import Head
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.fluency import why_no_fluency
from levelhead.scoring.natural import log_losses
from levelhead.scoring.objectives import behavior, word_objective
from levelhead.scoring.seat import word_table
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation

Doubles = NDArray[np.float64]
_PROTECTED = 0.3  # of all heads; the paper searches 0.3 to 0.7
_SHARES = (0.05, 0.1, 0.2)  # of all heads
_TEXTS = 12  # that every removal is tried on


class Fasp:
    """A share of all heads pruned, and none of those that the model needs."""

    name = "FASP"
    quick = False
    cost = 50.0

    def why_not(self, model: Model, fit: Battery) -> str:
        if model.fixed_weights:
            return f"{model.name} gives no gradients: {model.fixed_weights}"
        return why_no_fluency(model) and f"{model.name} has no perplexity: {why_no_fluency(model)}"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        objective = behavior(model, fit) or word_objective(word_table(fit.test, fit.contexts))
        scores = objective.gradients(model).scores
        costs = removal_costs(model, fit.sentences[:_TEXTS])
        made = []
        for share in _SHARES:
            if count := round(share * scores.size):
                heads, named = pruned(scores, costs, _PROTECTED, count), f"FASP, {share:.0%} of the heads"
                recipe = Recipe(gates=dict.fromkeys(heads, 0.0), title=named)
                made.append(Candidate(named, self.name, share, removed(model, heads), recipe))
        return made


def removal_costs(model: Model, texts: tuple[str, ...]) -> Doubles:
    """By how much log perplexity grows without each head: [layer, head]."""
    variants = [(), *(removed(model, [head]) for head in all_heads(model))]
    items = log_losses(model, texts, variants)
    means = np.average(items.values, axis=1, weights=items.weights)
    return np.asarray((means[1:] - means[0]).reshape(model.layers, model.heads))


def pruned(scores: Doubles, costs: Doubles, protected: float, count: int) -> list[Head]:
    """So many heads with the highest scores that are not among the share with the highest costs."""
    kept = highest(costs, round(protected * costs.size))
    open_scores = scores.copy()
    open_scores[tuple(np.array(kept, int).reshape(-1, 2).T)] = -np.inf
    return highest(open_scores, min(count, scores.size - len(kept)))


register_mitigation(Fasp())
