"""A run of fine-tunings: what a model can still learn."""

from __future__ import annotations

from levelhead.results import layout
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.glue import GlueCell, GlueCost, GlueRecipe, GlueTaskUsed, GlueUnit
from levelhead.results.runs.study import StudyRun
from levelhead.results.settings import GlueRunSettings


class GlueRun(StudyRun[GlueRunSettings]):
    """What the model, and what recipes make of it, can still learn."""

    LAYOUT = layout.GLUE

    @property
    def model(self) -> str:
        """The model that was fine-tuned."""
        return self.settings.model

    @property
    def recipes(self) -> tuple[GlueRecipe, ...]:
        """What was done to the model before and while it was trained."""
        return self.data.records(layout.GLUE_RECIPES)

    @property
    def tasks(self) -> tuple[GlueTaskUsed, ...]:
        """The tasks: how many examples, and the right answers."""
        return self.data.records(layout.GLUE_TASKS)

    @property
    def first_metrics(self) -> frozenset[tuple[str, str]]:
        """(task, metric) of the metric that GLUE names first for each task."""
        return frozenset((task.task, metric) for task in self.tasks for metric in task.metrics[:1])

    @property
    def units(self) -> tuple[GlueUnit, ...]:
        """Every training, in the order in which they were done."""
        return tuple(unit for part in self.data.family(layout.GLUE_UNITS).values() for unit in part)

    @property
    def cells(self) -> tuple[GlueCell, ...]:
        """The table: every metric of every task for every recipe, the unmodified model first."""
        return self.data.records(layout.GLUE_CELLS)

    @property
    def costs(self) -> tuple[GlueCost, ...]:
        """Every recipe against the unmodified model."""
        return self.data.records(layout.GLUE_COSTS)

    def measured(self, recipe: str = BASE) -> list[MeasuredVariant]:
        """The scores of one recipe, then its paired changes from the unmodified model."""
        scores = [cell.measurement for cell in self.cells if cell.recipe == recipe]
        changes = [cost.measurement for cost in self.costs if cost.recipe == recipe]
        return [MeasuredVariant(recipe, self.model, each) for each in (*scores, *changes)]
