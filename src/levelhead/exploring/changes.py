"""What a page changes in a model: recipes of a run by one click, switches by hand, what must be fitted first,
and the change in forms that can be taken along.

A fit does not depend on its strength, so a slider fits nothing anew. Projections that are fitted one after
the other, each with those before it on, are the exception.
"""

from __future__ import annotations

import shlex
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from torch import Tensor

from levelhead.edits.sites import Head, Neuron, Variant
from levelhead.edits.subspace import AffineErasure, Projection
from levelhead.errors import BadOption, LevelheadError
from levelhead.exploring.background import Advance, Background
from levelhead.exploring.sentences import Question
from levelhead.exploring.state import PageState
from levelhead.mitigation.fitting import steering_vector
from levelhead.mitigation.mitigate import Fitted, fitted
from levelhead.mitigation.recipe import Recipe, parse_recipe, recipe_text, typed_gates
from levelhead.models.model import Model
from levelhead.runs.records import Record
from levelhead.runs.study import RECIPES, AnyRun
from levelhead.studies.audit import Audit
from levelhead.studies.heads import Heads
from levelhead.studies.mitigate import Mitigate

C = TypeVar("C", Head, Neuron)
FITTING = "fitting"  # the kind of job
_KEPT = 16  # fits
_TOP = 3  # heads of a heads run that one click removes
_FILE, _FOLDER = "recipe.toml", "changed"


# ---- recipes of a run


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
    found: list[Preset] = []
    for path, text in run.recipe_texts.items():
        recipe = parse_recipe(text, path)
        found.append(Preset(recipe.title or path.stem, recipe))
    tried = run if isinstance(run, Mitigate) else run.mitigate if isinstance(run, Audit) else None
    for each in () if tried is None else tried.candidates:
        if each.recipe:
            recipe = parse_recipe(each.recipe, run.folder / RECIPES / each.name)
            found.append(Preset(each.name, recipe, each.certificate.certified, each.certificate.verdict))
    heads = run if isinstance(run, Heads) else run.heads if isinstance(run, Audit) else None
    if heads is not None and any(score.biased for score in heads.scores):
        closed = heads.biased_heads(_TOP)
        name = f"without {', '.join(map(str, closed))} (highest scores)"
        gates = dict.fromkeys(closed, 0.0)
        found.append(Preset(name, Recipe(gates=gates, fingerprint=heads.weights)))
    usable = []
    for preset in {preset.name: preset for preset in found}.values():
        # A recipe that names no weights was made for those of the run.
        stated = replace(preset.recipe, fingerprint=preset.recipe.fingerprint or run.weights)
        try:
            stated.check_model(model)
            usable.append(preset)
        except LevelheadError as error:
            usable.append(replace(preset, why_not=str(error)))
    return tuple(sorted(usable, key=lambda preset: not preset.certified))


# ---- what a state changes


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

    def switched(of_recipe: Mapping[C, float], by_hand: Mapping[C, float]) -> dict[C, float]:
        # a gate of 1 changes nothing, so it is left out
        scaled = {name: 1 + state.strength * (value - 1) for name, value in of_recipe.items()}
        return {name: value for name, value in sorted({**scaled, **by_hand}.items()) if value != 1}

    steps = tuple(replace(step, strength=state.strength * step.strength) for step in base.projections)
    return replace(
        base,
        gates=switched(base.gates, state.gates),
        neurons=switched(base.neurons, state.neurons),
        projections=tuple(step for step in steps if step.strength),
        steering=state.strength * base.steering + state.steering,
        symmetrize=words if state.symmetrized else base.symmetrize,
        file=None,
    )


def changes_nothing(recipe: Recipe) -> bool:
    """Whether a recipe leaves the model as it is."""
    return not any(
        (recipe.gates, recipe.neurons, recipe.projections, recipe.steering, recipe.symmetrize),
    )


# ---- what must be fitted, in the background, before it can be asked about


class BeingFitted(Exception):
    """A change that has been begun to be fitted: ask again when that is done."""


@dataclass(frozen=True, eq=False)
class Fits:
    """What was fitted for recipes of one model."""

    _model: Model
    _background: Background
    _kept: OrderedDict[str, object] = field(default_factory=OrderedDict)

    def of(self, recipe: Recipe) -> Fitted:
        """What a recipe needs; BeingFitted where it is not there yet."""
        model = self._model
        projections, direction = cast(Variant, ()), None
        if recipe.projections:
            unit, strength = replace(recipe, title="", steering=0.0, symmetrize=""), 1.0
            if recipe.fit != "sequential":  # at full strength: what the steps have in common is applied below
                strength = max((step.strength for step in recipe.projections), key=abs)
                steps = tuple(replace(s, strength=s.strength / strength) for s in recipe.projections)
                unit = replace(unit, gates={}, neurons={}, projections=steps)
            made = self._get(
                recipe_text(unit), "Fitting projections", lambda _: fitted(model, unit).projections
            )
            projections = tuple(cast(Projection | AffineErasure, edit).scaled(strength) for edit in made)
        if recipe.steering:
            made = self._get("steering", "Fitting steering", lambda advance: steering_vector(model, advance))
            direction = cast(Tensor, made)
        return Fitted(projections, direction)

    def _get(self, key: str, label: str, fit: Callable[[Advance], object]) -> Any:
        """What was fitted; else it is begun."""
        progress = self._background.progress(FITTING)  # before what is kept: it may end in between
        if key in self._kept:
            return self._kept[key]
        if progress is not None and progress.key == key and progress.finished:
            raise BadOption(progress.line or f"{label} did not end as it should.")

        def work(advance: Advance) -> object:
            self._kept[key] = made = fit(advance)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return made

        self._background.start(FITTING, key, label, work)
        raise BeingFitted


# ---- what can be taken along


@dataclass(frozen=True)
class Taken(Record):
    """One change in three forms that give the same numbers; without a change, how to ask the model."""

    recipe: str
    python: str
    command: str


def taken(model: Model, recipe: Recipe, about: Question, pair: tuple[str, str]) -> Taken:
    """The change of a page as a recipe, as Python that prints the log-odds of the page before and after it,
    and as a command."""
    name = shlex.quote(model.name)
    needs_file = bool(recipe.neurons or recipe.projections or recipe.steering or recipe.symmetrize)
    lines, edits = ["import levelhead as lh"], []
    if needs_file:
        lines += [
            "from levelhead.mitigation.mitigate import edits_of",
            "from levelhead.mitigation.recipe import parse_recipe",
        ]
        edits = [f"changed = edits_of(model, parse_recipe({recipe_text(recipe)!r}, {_FILE!r}))"]
    elif recipe.gates:
        named = {str(head): value for head, value in recipe.gates.items()}
        edits = [f"changed = lh.gates(model, {named!r})"]
    variants = "[(), changed]" if edits else "[()]"
    lines += [
        "",
        f"model = lh.load({model.name!r})",
        *edits,
        f"tokens = {list(about.tokens)}  # {' '.join(map(repr, pair))}",
        f"reading = lh.readings.TokenLogProbs([{about.text!r}], tokens)",
        f"answers = lh.read_one(model, reading, {variants})  # [variant, text, word]",
        "print(answers[:, 0, 0] - answers[:, 0, 1])  # log-odds",
        "",
    ]
    python = "\n".join(lines)
    if changes_nothing(recipe):
        return Taken("", python, f"levelhead explore {name}")
    stated = replace(recipe, model=model.name, fingerprint=model.fingerprint)
    way = f"--recipe {_FILE}" if needs_file else f"--heads {typed_gates(recipe.gates)}"
    does = "prompts" if recipe.symmetrize else "debias"  # prompts takes any recipe
    return Taken(recipe_text(stated), python, f"levelhead {does} {name} {way} -o {_FOLDER}")
