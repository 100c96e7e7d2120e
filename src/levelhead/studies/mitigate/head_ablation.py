"""The heads with the highest bias scores ablated ('Bias A-head?'), scored on part A's items."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.edits.gates import removed
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.natural import LOG_ODDS, PREFERENCE
from levelhead.scoring.objectives import SEAT, objectives
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation


@dataclass(frozen=True)
class HeadAblation:
    """So many heads of the highest gradient of an objective removed: |SEAT|, or what the model does."""

    objective: str = SEAT
    counts: tuple[int, ...] = (1, 3, 6)

    @property
    def name(self) -> str:
        return "ablated heads" if self.objective == SEAT else f"ablated heads by {self.objective}"

    @property
    def cost(self) -> float:
        """A pass for each candidate, and the gradients on part A."""
        return len(self.counts) + 0.2

    def why_not(self, model: Model, fit: Battery) -> str:
        if model.fixed_weights:
            return f"{model.name} gives no gradients: {model.fixed_weights}"
        known = self.objective in objectives(model, fit)
        return "" if known else f"{model.name} has no {self.objective} for {fit.test.name} here"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        scores = objectives(model, fit)[self.objective].gradients(model).scores
        made = []
        for count in (count for count in self.counts if count < scores.size):
            heads = highest(scores, count)
            named = f"{count} {self.name}" if count > 1 else f"1 {self.name.replace('heads', 'head', 1)}"
            recipe = Recipe(gates=dict.fromkeys(heads, 0.0), title=named)
            made.append(Candidate(named, self.name, float(count), removed(model, heads), recipe))
        return made


register_mitigation(HeadAblation())
register_mitigation(HeadAblation(PREFERENCE))
register_mitigation(HeadAblation(LOG_ODDS))
