"""SentenceDebias, INLP and LEACE at their usual sites, each with one strength."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from levelhead.edits.sites import Site
from levelhead.errors import CannotDo
from levelhead.mitigation.fitting import fit_steps, pairs_about
from levelhead.mitigation.recipe import Method, Recipe, Step, step
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation


@dataclass(frozen=True)
class Erasure:
    """Directions of the group difference taken out by one method, in several strengths."""

    name: str
    method: Method
    strengths: tuple[int, ...]
    quick: bool = False
    cost: ClassVar[float] = 7.0

    def why_not(self, model: Model, fit: Battery) -> str:
        if self.method == "leace" and find_spec("concept_erasure") is None:
            return "it needs concept-erasure: pip install 'levelhead[leace]'"
        return "" if pairs_about(model, fit.test) else f"{fit.test.name} has no pairs to fit directions on"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        most = model.layers if self.method == "leace" else model.config.hidden_size
        strengths = [each for each in self.strengths if each < most]
        plans = [self._plan(model, each) for each in strengths]
        fitted = fit_steps(model, pairs_about(model, fit.test), [plan for _, plan in plans])
        made = []
        for strength, (strong, plan), edits in zip(strengths, plans, fitted, strict=True):
            named = f"{self.name}, {strong}"
            recipe = Recipe(projections=plan, title=named) if about_gender(fit.test) else None
            made.append(Candidate(named, self.name, float(strength), edits, recipe))
        return made

    def _plan(self, model: Model, strength: int) -> tuple[str, tuple[Step, ...]]:
        """A strength in words, and what is fitted for it."""
        if self.method == "leace":
            strong = f"the last {strength} layers" if strength > 1 else "the last layer"
            return strong, tuple(step("tokens", layer, method="leace") for layer in range(-strength, 0))
        several = "s" * (strength > 1)
        if self.method == "inlp":
            return f"{strength} round{several}", (step("tokens", dimensions=strength, method="inlp"),)
        try:
            model.check_site(Site(0, "pooled"))
        except CannotDo:  # a sentence has no vector of its own
            return f"{strength} direction{several}", (step("tokens", -1, strength),)
        return f"{strength} direction{several}", (step("sent", dimensions=strength),)


register_mitigation(Erasure("SentenceDebias", "pca", (1, 2, 4)))
register_mitigation(Erasure("INLP", "inlp", (1, 4, 16)))
register_mitigation(Erasure("LEACE", "leace", (1, 2, 4), quick=True))  # it has no strength but its layers
