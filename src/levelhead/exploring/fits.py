"""Changes that must be fitted before they can be asked about: projections and steering, in the background.

A fit does not depend on its strength, so a slider fits nothing anew. Projections that are fitted one after
the other, each with those before it on, are the exception.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, cast

from torch import Tensor

from levelhead.edits.erasure import AffineErasure
from levelhead.edits.projection import Projection
from levelhead.edits.sites import Variant
from levelhead.errors import BadOption
from levelhead.exploring.background import Advance, Background, Work
from levelhead.mitigation.mitigate import Fitted, fitted
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.mitigation.steering import steering_vector
from levelhead.models.model import Model

FITTING = "fitting"  # the kind of job
_KEPT = 16


class BeingFitted(Exception):
    """A change that has been begun to be fitted: ask again when that is done."""


@dataclass(frozen=True)
class _Fit:
    key: str
    label: str
    work: Work


class Fits:
    """What was fitted for recipes of one model."""

    def __init__(self, model: Model, background: Background) -> None:
        self._model, self._background = model, background
        self._kept: OrderedDict[str, object] = OrderedDict()

    def of(self, recipe: Recipe) -> Fitted:
        """What a recipe needs; BeingFitted where it is not there yet."""
        projections, direction = cast(Variant, ()), None
        if recipe.projections:
            unit, strength = unit_recipe(recipe)
            made = self._get(
                _Fit(recipe_text(unit), "Fitting projections", lambda _: self._projections(unit))
            )
            projections = tuple(cast(Projection | AffineErasure, edit).scaled(strength) for edit in made)
        if recipe.steering:
            direction = cast(Tensor, self._get(_Fit("steering", "Fitting steering", self._steering)))
        return Fitted(projections, direction)

    def _projections(self, unit: Recipe) -> Variant:
        return fitted(self._model, unit).projections

    def _steering(self, advance: Advance) -> Tensor:
        return steering_vector(self._model, advance)

    def _get(self, fit: _Fit) -> Any:
        """What was fitted; else it is begun."""
        progress = self._background.progress(FITTING)  # before what is kept: it may end in between
        if fit.key in self._kept:
            return self._kept[fit.key]
        if progress is not None and progress.key == fit.key and progress.finished:
            raise BadOption(progress.line or f"{fit.label} did not end as it should.")

        def work(advance: Advance) -> object:
            self._kept[fit.key] = made = fit.work(advance)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return made

        self._background.start(FITTING, fit.key, fit.label, work)
        raise BeingFitted


def unit_recipe(recipe: Recipe) -> tuple[Recipe, float]:
    """The projections of a recipe at full strength, and the strength that they have in common."""
    bare = replace(recipe, title="", steering=0.0, symmetrize="")
    if recipe.fit == "sequential":
        return bare, 1.0
    strength = max((step.strength for step in recipe.projections), key=abs)
    steps = tuple(replace(step, strength=step.strength / strength) for step in recipe.projections)
    return replace(bare, gates={}, neurons={}, projections=steps), strength
