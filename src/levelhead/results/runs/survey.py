"""A run of a survey: many models, ranked."""

from __future__ import annotations

from functools import cached_property

from levelhead.measures.catalog import MeasureInfo
from levelhead.results import layout
from levelhead.results.records.survey import SurveyDifference, SurveyLine, SurveyTask
from levelhead.results.runs.study import StudyRun
from levelhead.results.settings import SurveyRunSettings


class SurveyRun(StudyRun[SurveyRunSettings]):
    """Many models on the same questions."""

    LAYOUT = layout.SURVEY

    @property
    def model(self) -> str:
        """The models that were asked; of many, how many they are."""
        models = self.settings.models
        return ", ".join(models) if len(models) <= 3 else f"{len(models)} models"

    @property
    def measures(self) -> tuple[MeasureInfo, ...]:
        """How the user's own measures are shown and judged; the built-in ones stand in the catalog."""
        return self.data.records(layout.SURVEY_MEASURES)

    @cached_property
    def tasks(self) -> tuple[SurveyTask, ...]:
        """Every model on every bias that was asked so far, in the order of the settings."""
        pairs = [(model, bias) for model in self.settings.models for bias in self.settings.biases]
        files = (layout.SURVEY_TASKS.of(survey_label(*pair)) for pair in pairs)
        return tuple(task for file in files if (task := file.read(self.folder)) is not None)

    @cached_property
    def table(self) -> list[SurveyLine]:
        """Every measure of every model, and models that could not be asked."""
        return layout.SURVEY_TABLE.read(self.folder)

    @cached_property
    def differences(self) -> list[SurveyDifference]:
        """Models two by two, with p corrected for all of them."""
        return layout.SURVEY_DIFFERENCES.read(self.folder)

    @property
    def openings(self) -> dict[str, str]:
        """What every text began with, for each model that was asked."""
        return {task.model: task.opening for task in self.tasks if task.opening}

    @property
    def doubts(self) -> dict[str, str]:
        """Why no verdict may rest on the numbers of a model, for each model of which that is so."""
        return {task.model: task.doubt for task in self.tasks if task.doubt}

    @property
    def failures(self) -> tuple[SurveyTask, ...]:
        """Models that could not be asked, with the reason."""
        return tuple(task for task in self.tasks if task.failed)


def survey_label(model: str, bias: str) -> str:
    """The label of a model's task for one bias."""
    return f"{bias} | {model}"
