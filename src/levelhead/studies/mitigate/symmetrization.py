"""Symmetrization as a mitigation: no training, one pass per group (edits/output.py)."""

from __future__ import annotations

from levelhead.edits.output import Symmetrized
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.probes.words import shipped_words
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation


class Symmetrization:
    """Answers averaged over the exchange of groups."""

    name = "symmetrized"
    cost = 1.3  # texts without a word of a group are the same at both orientations

    def why_not(self, model: Model, fit: Battery) -> str:
        return "" if fit.test.pairs else f"{fit.test.name} states no counterparts to exchange"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        ships = fit.test.name in shipped_words()  # any other list is a file, which a recipe has to name
        recipe = Recipe(symmetrize=fit.test.name, title=self.name) if ships else None
        return [Candidate(self.name, self.name, 1.0, (Symmetrized(swap_for(fit.test)),), recipe)]


register_mitigation(Symmetrization())
