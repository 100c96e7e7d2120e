"""Mitigations that a page offers by one click: the recipes of a run, the certified ones marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from levelhead.errors import BadOption, LevelheadError
from levelhead.exploring.state import PageState
from levelhead.mitigation.recipe import Recipe, parse_recipe
from levelhead.models.model import Model
from levelhead.results import layout
from levelhead.results.codec import Record
from levelhead.results.runs import AnyRun, AuditRun, HeadsRun, MitigateRun

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
    """A preset as the page shows it. scales: whether its strength can be chosen, as that of gates can."""

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
    usable = [_checked(preset, model) for preset in found.values()]
    return tuple(sorted(usable, key=lambda preset: not preset.certified))


def _found(run: AnyRun) -> Iterator[Preset]:
    for path, text in run.recipe_texts.items():
        recipe = parse_recipe(text, path)
        yield Preset(recipe.title or path.stem, recipe)
    if isinstance(run, MitigateRun):
        for each in run.candidates:
            if each.recipe:
                recipe = parse_recipe(each.recipe, run.folder / layout.RECIPES / each.name)
                yield Preset(each.name, recipe, each.certificate.certified, each.certificate.verdict)
    heads = run if isinstance(run, HeadsRun) else run.heads if isinstance(run, AuditRun) else None
    if heads is not None and any(score.biased for score in heads.scores):
        closed = heads.biased_heads(_TOP)
        name = f"without {', '.join(map(str, closed))} (highest scores)"
        yield Preset(name, Recipe(gates=dict.fromkeys(closed, 0.0), fingerprint=heads.weights))


def _checked(preset: Preset, model: Model) -> Preset:
    try:
        preset.recipe.check_model(model)
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
        bool(recipe.gates),
        tuple(map(str, recipe.gates)),
        tuple(recipe.gates.values()),
    )


def recipe_of(state: PageState, known: tuple[Preset, ...], words: str) -> Recipe:
    """What a state changes, as one recipe: the preset at its strength, then what was switched by hand.

        gate = 1 + strength · (gate of the recipe − 1)

    words: the list whose groups are exchanged where the state is symmetrized.
    """
    preset = next((each for each in known if each.name == state.preset), None)
    if state.preset and (preset is None or preset.why_not):
        reason = "no recipe of the run is called so" if preset is None else preset.why_not
        raise BadOption(f"{state.preset!r} cannot be switched on: {reason}")
    base = Recipe() if preset is None else preset.recipe
    scaled = {head: 1 + state.strength * (value - 1) for head, value in base.gates.items()}
    gates = {head: value for head, value in sorted({**scaled, **state.gates}.items()) if value != 1}
    symmetrize = words if state.symmetrized else base.symmetrize
    return replace(base, gates=gates, symmetrize=symmetrize, file=None)


def changes_nothing(recipe: Recipe) -> bool:
    """Whether a recipe leaves the model as it is."""
    return not (recipe.gates or recipe.projections or recipe.symmetrize)
