"""The heads with the highest bias scores ablated ('Bias A-head?'), scored on part A's words."""

from __future__ import annotations

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.word_table import word_table
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.heads.scores import head_scores
from levelhead.studies.mitigating.protocol import Candidate, register_mitigation

_COUNTS = (1, 3, 6)


class HeadAblation:
    """So many heads of the highest gradient of |SEAT| removed."""

    name = "ablated heads"

    def why_not(self, model: Model, fit: Battery) -> str:
        return model.fixed_weights and f"{model.name} gives no gradients: {model.fixed_weights}"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        scores = head_scores(model, word_table(fit.test, fit.contexts).first_contexts(4)).scores
        counts = [count for count in _COUNTS if count < scores.size]
        return [self._candidate(model, highest(scores, count), count) for count in counts]

    def _candidate(self, model: Model, heads: list[Head], count: int) -> Candidate:
        named = f"{count} ablated head{'s' * (count > 1)}"
        recipe = Recipe(gates=dict.fromkeys(heads, 0.0), title=named)
        return Candidate(named, self.name, float(count), removed(model, heads), recipe)


register_mitigation(HeadAblation())
