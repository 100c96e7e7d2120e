"""The heads with the highest bias scores ablated ('Bias A-head?'), scored on part A's items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.natural import LOG_ODDS, PREFERENCE
from levelhead.scoring.objectives import SEAT, objectives
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.mitigating.protocol import Candidate, register_mitigation

_COUNTS = (1, 3, 6)


@dataclass(frozen=True)
class HeadAblation:
    """So many heads of the highest gradient of an objective removed: |SEAT|, or what the model does."""

    objective: str = SEAT
    cost: ClassVar[float] = 6.0

    @property
    def name(self) -> str:
        return f"ablated heads{self._by}"

    @property
    def _by(self) -> str:
        return "" if self.objective == SEAT else f" by {self.objective}"

    def why_not(self, model: Model, fit: Battery) -> str:
        if model.fixed_weights:
            return f"{model.name} gives no gradients: {model.fixed_weights}"
        known = self.objective in objectives(model, fit)
        return "" if known else f"{model.name} has no {self.objective} for {fit.test.name} here"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        scores = objectives(model, fit)[self.objective].gradients(model).scores
        counts = [count for count in _COUNTS if count < scores.size]
        return [self._candidate(model, highest(scores, count), count) for count in counts]

    def _candidate(self, model: Model, heads: list[Head], count: int) -> Candidate:
        named = f"{count} ablated head{'s' * (count > 1)}{self._by}"
        recipe = Recipe(gates=dict.fromkeys(heads, 0.0), title=named)
        return Candidate(named, self.name, float(count), removed(model, heads), recipe)


register_mitigation(HeadAblation())
register_mitigation(HeadAblation(PREFERENCE))
register_mitigation(HeadAblation(LOG_ODDS))
