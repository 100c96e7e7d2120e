"""A mitigation of one's own: the heads that add to a bias are turned down instead of ablated.

`pip install -e .`, then `levelhead mitigate MODEL --methods "quieter heads" -o RUN`. Whether it is certified
is decided on items that `candidates` has not seen: it is given part A alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.edits.gates import gates
from levelhead.edits.sites import Head
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.objectives import SEAT, objectives
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation


@dataclass(frozen=True)
class QuieterHeads:
    """Every head with a positive score is multiplied by one number below 1."""

    name: str = "quieter heads"
    strengths: tuple[float, ...] = (0.05, 0.1, 0.2)  # by how much they are turned down

    def why_not(self, model: Model, fit: Battery) -> str:
        """Why it cannot run; empty where it can."""
        return f"{model.name} gives no gradients" if model.fixed_weights else ""

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        """The weakest first."""
        scores = objectives(model, fit)[SEAT].gradients(model).scores
        adding = [Head(layer, head) for layer, head in zip(*(scores > 0).nonzero(), strict=True)]
        return [self._candidate(model, adding, strength) for strength in self.strengths if adding]

    def _candidate(self, model: Model, heads: list[Head], strength: float) -> Candidate:
        title = f"{len(heads)} heads quieter by {strength:.0%}"
        values = dict.fromkeys(heads, 1.0 - strength)
        return Candidate(title, self.name, strength, gates(model, values), Recipe(gates=values, title=title))


register_mitigation(QuieterHeads())
