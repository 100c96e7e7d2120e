"""Changed models: edits from heads, recipes or learning, to be tried, shown and written as a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import altair as alt

from levelhead.api.shown import Line, Shown
from levelhead.api.studies import AnyModel, Folder, loaded
from levelhead.edits.gates import all_heads
from levelhead.edits.sites import Head, Variant
from levelhead.errors import BadOption
from levelhead.mitigation.export import ExportReport, export
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.pages.charts.base import Chart, chart_of
from levelhead.pages.links import Document, Link, document_link
from levelhead.studies.heads.learning import LearnedGatesSettings, LearnedRecipe, learned_recipe

Gates = Mapping[Head, float] | Mapping[tuple[int, int], float] | Mapping[str, float]  # by head
_CELL = 22  # pixels of a head


@dataclass(frozen=True, repr=False)
class MitigatedModel(Shown):
    """A model with edits that are not in its weights yet: try them with `on()`, write them with `save`."""

    model: Model
    recipe: Recipe
    edits: Variant

    @property
    def caption(self) -> str:
        """The model and the recipe's title."""
        return f"{self.model.name}: {self.recipe.title or 'edited'}"

    @property
    def link(self) -> Link:
        """How a changed model is written and loaded."""
        return document_link(Document.EXPORT)

    def on(self) -> AbstractContextManager[Model]:
        """`with changed.on() as model: ...`: the model with its edits; afterwards it is what it was."""
        return self.model.edited(*self.edits)

    def export(self, folder: str | Path) -> ExportReport:
        """Write the changed model, reload it with plain transformers, and compare the two."""
        return export(self.model, self.edits, folder, self.recipe)

    def save(self, folder: str | Path) -> Path:
        """Write the changed model as a folder that transformers loads."""
        return self.export(folder).folder

    def lines(self) -> Sequence[Line]:
        """One line per gate, of heads and then of neurons, then one per projection."""
        gates: list[Line] = [
            {"what": "gate", "place": str(head), "value": value} for head, value in self.recipe.gates.items()
        ]
        gates += [
            {"what": "neuron", "place": str(neuron), "value": value}
            for neuron, value in self.recipe.neurons.items()
        ]
        return gates + [
            {
                "what": f"{'soft' if step.soft else 'hard'} projection, {step.method}",
                "place": f"{step.location}, layer {step.counted_layer}",
                "value": step.dimensions,
            }
            for step in self.recipe.projections
        ]

    def chart(self) -> Chart:
        """The gate of every head: 0 is removed, 1 as it was."""
        gates = {head: self.recipe.gates.get(head, 1.0) for head in all_heads(self.model)}
        points = [
            {"layer": head.layer + 1, "head": head.head + 1, "gate": gate} for head, gate in gates.items()
        ]
        colors = alt.Scale(domain=[0, 1, 2], range=["$biased", "$card", "$regular"], interpolate="rgb")
        cells = (
            chart_of(points)
            .mark_rect(stroke="$line", strokeWidth=1)
            .encode(
                x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
                y=alt.Y("layer:O", title="layer", sort="descending"),
                color=alt.Color("gate:Q", scale=colors),
                tooltip=["layer:O", "head:O", "gate:Q"],
            )
            .properties(width=_CELL * self.model.heads, height=_CELL * self.model.layers)
        )
        title = f"Gates of {self.model.name}"
        return Chart("gates", title, f"Gates of {len(gates)} heads by layer.", cells.to_dict())


@dataclass(frozen=True, repr=False)
class LearnedModel(MitigatedModel):
    """A model with learned gates, what they reach where they were learned, and what they cost elsewhere."""

    learned: LearnedRecipe

    @property
    def caption(self) -> str:
        """What the gates reach and cost."""
        return f"{self.model.name}: {self.learned.in_words}"


def debias(model: AnyModel, settings: Recipe | Gates | None = None, folder: Folder = None) -> MitigatedModel:
    """A model with edits: gates by head, {"8-6": 0.0}, or a recipe; with a folder it is written there."""
    if isinstance(settings, Recipe):
        recipe = settings
    else:
        recipe = Recipe(gates={Head.of(named): float(value) for named, value in (settings or {}).items()})
    if not recipe.gates and not recipe.neurons and not recipe.projections:
        raise BadOption('Nothing to change: give gates, {"8-6": 0.0}, or a recipe, load_recipe(FILE).')
    model = loaded(model)
    recipe.check_model(model)
    applied = replace(recipe, model=model.name, fingerprint=model.fingerprint)
    changed = MitigatedModel(model, applied, edits_of(model, applied))
    if folder is not None:
        changed.save(folder)
    return changed


def learn_gates(
    model: AnyModel, settings: LearnedGatesSettings | None = None, folder: Folder = None
) -> LearnedModel:
    """Learn gates that lower |SEAT| while perplexity grows by no more than a factor; with a folder the model
    is written there."""
    model = loaded(model)
    learned = learned_recipe(model, settings or LearnedGatesSettings())
    changed = LearnedModel(model, learned.recipe, learned.edits, learned)
    if folder is not None:
        changed.save(folder)
    return changed
