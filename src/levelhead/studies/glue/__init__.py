"""GLUE: what can a debiased model still learn?"""

from __future__ import annotations

from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.study import Many, Parts, Study
from levelhead.studies.glue.records import GlueCell, GlueCost, GlueRecipe, GlueTaskUsed, GlueUnit
from levelhead.studies.glue.settings import GlueSettings, GlueStored

CHECKPOINTS = "checkpoints"  # a folder of unfinished trainings; none is left when the run is whole


class Glue(Study[GlueStored]):
    """What a model can still learn: `cells`, `costs`, `units`, `measured(recipe)`."""

    name = "glue"
    title = "Fine-tuning on GLUE"
    question = "What can the model still learn, unmodified and changed?"
    about = (
        "Fine-tune a model on GLUE, unmodified and with heads ablated or other edits on: what do they cost?"
    )
    settings_type = GlueSettings
    stored = GlueStored
    order = 75
    document = "glue.md"
    unserved = "it fine-tunes the network"
    says = ("settings", "cells", "costs")
    rows = ("cells",)

    recipes = Many(GlueRecipe, "What was done to the model before and while it was trained.")
    tasks = Many(GlueTaskUsed, "The tasks: how many examples, and the right answers.")
    units = Parts(GlueUnit, "Every training, in the order in which they were done; labels: task/recipe/seed.")
    cells = Many(GlueCell, "Every metric of every task for every recipe, the unmodified model first.")
    costs = Many(GlueCost, "Every recipe against the unmodified model.")

    @property
    def first_metrics(self) -> frozenset[tuple[str, str]]:
        """(task, metric) of the metric that GLUE names first for each task."""
        return frozenset((task.task, metric) for task in self.tasks for metric in task.metrics[:1])

    def measured(self, recipe: str = BASE) -> list[MeasuredVariant]:
        """The scores of one recipe, then its paired changes from the unmodified model."""
        scores = [cell.measurement for cell in self.cells if cell.recipe == recipe]
        changes = [cost.measurement for cost in self.costs if cost.recipe == recipe]
        return [MeasuredVariant(recipe, self.model, each) for each in (*scores, *changes)]
