"""From a recipe to a mitigated model: fit what is to be fitted, fold what can be folded, write, reload,
compare (docs/method.md, Export)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from levelhead.edits.gates import gates
from levelhead.edits.head import Head
from levelhead.edits.neurons import neuron_gates
from levelhead.edits.sites import Variant
from levelhead.edits.steering import Steering
from levelhead.edits.symmetry import Coined, Symmetrized
from levelhead.errors import BadRun, NoEffect
from levelhead.mitigation.export import ExportReport, export
from levelhead.mitigation.fitting import Form, default_pairs, fit_steps
from levelhead.mitigation.recipe import Recipe
from levelhead.mitigation.steering import middle, steering_vector
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.probes.coin import Coin
from levelhead.probes.pairs import InputPair, load_pairs
from levelhead.probes.words import load_words
from levelhead.results.runs import HeadsRun


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
    """The recipe's projections and the direction of its steering."""
    projections: Variant = ()
    if recipe.projections:
        pairs = _pairs(model, recipe.pairs)
        with model.edited(*(_closed(model, recipe) if recipe.fit == "sequential" else ())):
            (projections,) = fit_steps(model, pairs, [recipe.projections], recipe.fit)
    return Fitted(projections, steering_vector(model) if recipe.steering else None)


def composed(model: Model, recipe: Recipe, made: Fitted) -> Variant:
    """A recipe's edits of what was fitted for it."""
    steered = () if made.direction is None else (Steering(middle(model), made.direction, recipe.steering),)
    rest = (*made.projections, *steered, *_exchange(recipe))
    values = (*recipe.gates.values(), *recipe.neurons.values())
    if not rest and all(value == 1 for value in values):
        raise NoEffect("Every gate of the recipe is 1, which leaves its head as it is: nothing would change.")
    return (*_closed(model, recipe), *rest)


def _closed(model: Model, recipe: Recipe) -> Variant:
    """The gates of heads and of neurons."""
    of_neurons = neuron_gates(model, recipe.neurons) if recipe.neurons else ()
    return (*gates(model, recipe.gates), *of_neurons)


def _exchange(recipe: Recipe) -> Variant:
    """The exchange of groups that a recipe asks for: none, at every turn, or at one that a coin decides."""
    if not recipe.symmetrize:
        return ()
    swap = swap_for(load_words(recipe.symmetrize))
    return (Symmetrized(swap) if recipe.coin is None else Coined(Coin(swap, recipe.coin)),)


def biased_heads(run: HeadsRun, top: int, model: Model) -> list[Head]:
    """The heads with the highest bias scores in a run of the heads study, most biased first: at most `top`,
    and only scores above 0, clear or not (HeadsRun.clear_heads says which are).

    A run about other weights is refused: its heads mean nothing here.
    """
    if run.weights != model.fingerprint:
        raise BadRun(f"{run.folder} is about {run.model}, with other weights than those of {model.name}.")
    return run.biased_heads(top)


def _pairs(model: Model, named: str) -> tuple[InputPair, ...]:
    forms: dict[str, Form | None] = {"auto": None, "single": "single", "pairs": "pairs", "frames": "frames"}
    return default_pairs(model, forms[named]) if named in forms else load_pairs(named)
