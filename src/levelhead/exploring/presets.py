"""Mitigations that a page offers by one click: the recipes of a run, the certified ones marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from levelhead.edits.head import Head
from levelhead.edits.neuron import Neuron
from levelhead.errors import BadOption, LevelheadError
from levelhead.exploring.state import PageState
from levelhead.mitigation.recipe import Recipe, parse_recipe
from levelhead.models.model import Model
from levelhead.results import layout
from levelhead.results.codec import Record
from levelhead.results.runs import AnyRun, AuditRun, HeadsRun, MitigateRun

C = TypeVar("C", Head, Neuron)
_TOP = 3  # heads of a heads run that one click removes


@dataclass(frozen=True)
class Preset:
    """A recipe by its name. why_not: why this model cannot take it; empty where it can."""

    name: str
    recipe: Recipe
    certified: bool = False
    verdict: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class PresetShown(Record):
    """A preset as the page shows it. scales: whether its strength can be chosen: symmetrization has none."""

    name: str
    certified: bool
    verdict: str
    why_not: str
    scales: bool
    gates: tuple[str, ...]
    values: tuple[float, ...]  # of the gates


def presets(run: AnyRun | None, model: Model) -> tuple[Preset, ...]:
    """The recipes of a run, the certified ones first; those for other weights say so."""
    if run is None:
        return ()
    found = {preset.name: preset for preset in _found(run)}
    usable = [_checked(preset, model, run.weights) for preset in found.values()]
    return tuple(sorted(usable, key=lambda preset: not preset.certified))


def _found(run: AnyRun) -> Iterator[Preset]:
    for path, text in run.recipe_texts.items():
        recipe = parse_recipe(text, path)
        yield Preset(recipe.title or path.stem, recipe)
    tried = run if isinstance(run, MitigateRun) else run.arena if isinstance(run, AuditRun) else None
    for each in () if tried is None else tried.candidates:
        if each.recipe:
            recipe = parse_recipe(each.recipe, run.folder / layout.RECIPES / each.name)
            yield Preset(each.name, recipe, each.certificate.certified, each.certificate.verdict)
    heads = run if isinstance(run, HeadsRun) else run.heads if isinstance(run, AuditRun) else None
    if heads is not None and any(score.biased for score in heads.scores):
        closed = heads.biased_heads(_TOP)
        name = f"without {', '.join(map(str, closed))} (highest scores)"
        yield Preset(name, Recipe(gates=dict.fromkeys(closed, 0.0), fingerprint=heads.weights))


def _checked(preset: Preset, model: Model, weights: str | None) -> Preset:
    """weights: of the run's model, which a recipe that names none was made for."""
    try:
        replace(preset.recipe, fingerprint=preset.recipe.fingerprint or weights).check_model(model)
    except LevelheadError as error:
        return replace(preset, why_not=str(error))
    return preset


def shown(preset: Preset) -> PresetShown:
    """The preset as the page shows it."""
    recipe = preset.recipe
    return PresetShown(
        preset.name,
        preset.certified,
        preset.verdict,
        preset.why_not,
        bool(recipe.gates or recipe.neurons or recipe.projections or recipe.steering),
        tuple(map(str, recipe.gates)),
        tuple(recipe.gates.values()),
    )


def recipe_of(state: PageState, known: tuple[Preset, ...], words: str) -> Recipe:
    """What a state changes, as one recipe: the preset at its strength, then what was switched by hand.

        gate = 1 + strength · (gate of the recipe − 1),   likewise of neurons
        strength of a projection, steering = strength · that of the recipe

    words: the list whose groups are exchanged where the state is symmetrized.
    """
    preset = next((each for each in known if each.name == state.preset), None)
    if state.preset and (preset is None or preset.why_not):
        reason = "no recipe of the run is called so" if preset is None else preset.why_not
        raise BadOption(f"{state.preset!r} cannot be switched on: {reason}")
    base = Recipe() if preset is None else preset.recipe
    steps = tuple(replace(step, strength=state.strength * step.strength) for step in base.projections)
    return replace(
        base,
        gates=_switched(base.gates, state.strength, state.gates),
        neurons=_switched(base.neurons, state.strength, state.neurons),
        projections=tuple(step for step in steps if step.strength),
        steering=state.strength * base.steering + state.steering,
        symmetrize=words if state.symmetrized else base.symmetrize,
        file=None,
    )


def _switched(base: Mapping[C, float], strength: float, by_hand: Mapping[C, float]) -> dict[C, float]:
    """Gates that are not 1: those of a recipe at a strength, and those that were set by hand."""
    scaled = {name: 1 + strength * (value - 1) for name, value in base.items()}
    return {name: value for name, value in sorted({**scaled, **by_hand}.items()) if value != 1}


def changes_nothing(recipe: Recipe) -> bool:
    """Whether a recipe leaves the model as it is."""
    return not any(
        (recipe.gates, recipe.neurons, recipe.projections, recipe.steering, recipe.symmetrize),
    )
