"""From a recipe to a mitigated model: fit what is to be fitted, fold what can be folded, write, reload,
compare (docs/method/projections.md, Export)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from levelhead.edits.gates import gates, neuron_gates
from levelhead.edits.output import Coined, Symmetrized
from levelhead.edits.sites import Head, Variant
from levelhead.edits.steering import Steering
from levelhead.errors import BadRun, NoEffect
from levelhead.mitigation.export import ExportReport, export
from levelhead.mitigation.fitting import Form, default_pairs, fit_steps, middle, steering_vector
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.probes.coin import Coin
from levelhead.probes.pairs import load_pairs
from levelhead.probes.words import load_words
from levelhead.studies.heads import Heads

_FORMS: dict[str, Form | None] = {"auto": None, "single": "single", "pairs": "pairs", "frames": "frames"}


def mitigate(model: Model, recipe: Recipe, folder: str | Path) -> ExportReport:
    """Write the model that a recipe describes; the recipe in the folder names the model it was applied to."""
    recipe.check_model(model)
    applied = replace(recipe, model=model.name, fingerprint=model.fingerprint)
    return export(model, edits_of(model, recipe), folder, applied)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a recipe needs that must be fitted on its model."""

    projections: Variant = ()
    direction: Tensor | None = None  # of steering


def edits_of(model: Model, recipe: Recipe) -> Variant:
    """A recipe's edits for this model. Projections and steering are fitted anew; the same weights and pairs
    give the same result."""
    return composed(model, recipe, fitted(model, recipe))


def fitted(model: Model, recipe: Recipe) -> Fitted:
    projections: Variant = ()
    if recipe.projections:
        shipped = recipe.pairs in _FORMS
        pairs = default_pairs(model, _FORMS[recipe.pairs]) if shipped else load_pairs(recipe.pairs)
        with model.edited(*(_gates(model, recipe) if recipe.fit == "sequential" else ())):
            (projections,) = fit_steps(model, pairs, [recipe.projections], recipe.fit)
    return Fitted(projections, steering_vector(model) if recipe.steering else None)


def composed(model: Model, recipe: Recipe, made: Fitted) -> Variant:
    """A recipe's edits of what was fitted for it."""
    rest = made.projections
    if made.direction is not None:
        rest = (*rest, Steering(middle(model), made.direction, recipe.steering))
    if recipe.symmetrize:  # at every orientation of the groups, or at one that a coin decides
        swap = swap_for(load_words(recipe.symmetrize))
        rest = (*rest, Symmetrized(swap) if recipe.coin is None else Coined(Coin(swap, recipe.coin)))
    values = (*recipe.gates.values(), *recipe.neurons.values())
    if not rest and all(value == 1 for value in values):
        raise NoEffect("Every gate of the recipe is 1, which leaves its head as it is: nothing would change.")
    return (*_gates(model, recipe), *rest)


def _gates(model: Model, recipe: Recipe) -> Variant:
    of_neurons = neuron_gates(model, recipe.neurons) if recipe.neurons else ()
    return (*gates(model, recipe.gates), *of_neurons)


def biased_heads(run: Heads, top: int, model: Model) -> list[Head]:
    """The heads with the highest bias scores in a run of the heads study, most biased first: at most `top`,
    and only scores above 0, clear or not (Heads.clear_heads says which are).

    A run about other weights is refused: its heads mean nothing here.
    """
    if run.weights != model.fingerprint:
        raise BadRun(f"{run.folder} is about {run.model}, with other weights than those of {model.name}.")
    return run.biased_heads(top)
