"""SentenceDebias, INLP and LEACE at their usual sites, each with one strength."""

from __future__ import annotations

from collections.abc import Sequence
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
from levelhead.studies.mitigating.protocol import Candidate, register_mitigation


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
        strengths = [each for each in self.strengths if self._fits(model, each)]
        plans = [self._plan(model, each) for each in strengths]
        fitted = fit_steps(model, pairs_about(model, fit.test), plans)
        names = [f"{self.name}, {self._strength(each)}" for each in strengths]
        recipes: Sequence[Recipe | None] = [
            Recipe(projections=plan, title=named) if about_gender(fit.test) else None
            for plan, named in zip(plans, names, strict=True)
        ]
        return [
            Candidate(named, self.name, float(each), edits, recipe)
            for named, each, edits, recipe in zip(names, strengths, fitted, recipes, strict=True)
        ]

    def _fits(self, model: Model, strength: int) -> bool:
        return strength < (model.layers if self.method == "leace" else model.config.hidden_size)

    def _plan(self, model: Model, strength: int) -> tuple[Step, ...]:
        if self.method == "pca":
            place = step("sent", dimensions=strength) if _pools(model) else step("tokens", -1, strength)
            return (place,)
        if self.method == "inlp":
            return (step("tokens", dimensions=strength, method="inlp"),)
        return tuple(step("tokens", layer, method="leace") for layer in range(-strength, 0))

    def _strength(self, strength: int) -> str:
        if self.method == "leace":
            return f"the last {strength} layers" if strength > 1 else "the last layer"
        unit = "direction" if self.method == "pca" else "round"
        return f"{strength} {unit}{'s' * (strength > 1)}"


def _pools(model: Model) -> bool:
    """Whether a sentence has a vector of its own."""
    try:
        model.check_site(Site(0, "pooled"))
    except CannotDo:
        return False
    return True


register_mitigation(Erasure("SentenceDebias", "pca", (1, 2, 4)))
register_mitigation(Erasure("INLP", "inlp", (1, 4, 16)))
register_mitigation(Erasure("LEACE", "leace", (1, 2, 4), quick=True))  # it has no strength but its layers
