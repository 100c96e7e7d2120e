"""A survey: many models on the same questions, ranked, with the differences that are significant."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from levelhead.errors import CannotDo
from levelhead.measures.catalog import MeasureInfo
from levelhead.runs.files import CsvFile, JsonFile
from levelhead.runs.study import REPORT, Many, Study
from levelhead.studies.survey.records import SurveyDifference, SurveyLine, SurveyTask
from levelhead.studies.survey.settings import SurveySettings, SurveyStored

TASKS = JsonFile("tasks/{}.json", SurveyTask)  # labels: bias | model; in no order, so workers can write
TABLE = CsvFile("survey.csv", SurveyLine)
DIFFERENCES = CsvFile("differences.csv", SurveyDifference)
NO_PARQUET = (
    "no survey.parquet: it needs pandas and pyarrow (pip install pandas pyarrow); survey.csv has it all"
)
PARQUET = "survey.parquet"  # the table once more, where pandas and pyarrow are there


class Survey(Study[SurveyStored]):
    """Many models on the same questions: `table`, `differences`, `failures`, `tasks`."""

    name = "survey"
    title = "Models by bias"
    question = "Which of these models is the most biased, and which differences are significant?"
    about = "Measure many models, rank them, and say which of their differences are significant."
    settings_type = SurveySettings
    stored = SurveyStored
    takes = "models"
    order = 80
    grows = "models"
    writes_page = True
    loads = False
    document = "survey.md"
    unserved = ""
    rows = ("table",)
    default_folder = "runs/survey"

    measures = Many(MeasureInfo, "How the user's own measures are shown and judged.")

    @property
    def model(self) -> str:
        """The models that were evaluated; of many, how many they are."""
        models = self.settings.models
        return ", ".join(models) if len(models) <= 3 else f"{len(models)} models"

    @cached_property
    def tasks(self) -> tuple[SurveyTask, ...]:
        """Every model on every bias that was evaluated so far, in the order of the settings."""
        pairs = [(model, bias) for model in self.settings.models for bias in self.settings.biases]
        files = (TASKS.of(task_label(*pair)) for pair in pairs)
        return tuple(task for file in files if (task := file.read(self.folder)) is not None)

    @cached_property
    def table(self) -> list[SurveyLine]:
        """Every measure of every model, and models that could not be evaluated."""
        return TABLE.read(self.folder)

    @cached_property
    def differences(self) -> list[SurveyDifference]:
        """Models two by two, with p corrected for all of them."""
        return DIFFERENCES.read(self.folder)

    @property
    def openings(self) -> dict[str, str]:
        """What every text began with, for each model that was evaluated."""
        return {task.model: task.opening for task in self.tasks if task.opening}

    @property
    def doubts(self) -> dict[str, str]:
        """Why no verdict may rest on the numbers of a model, for each model of which that is so."""
        return {task.model: task.doubt for task in self.tasks if task.doubt}

    @property
    def failures(self) -> tuple[SurveyTask, ...]:
        """Models that could not be evaluated, with the reason."""
        return tuple(task for task in self.tasks if task.failed)

    @property
    def report(self) -> Path:
        """The page."""
        return self.folder / REPORT.name

    def notes(self) -> list[str]:
        """Where the tables are."""
        missing = [] if (self.folder / PARQUET).exists() else [NO_PARQUET]
        return [*missing, f"Table: {self.folder / TABLE.name}"]

    def check_measured(self) -> None:
        if all(task.failed for task in self.tasks):
            reasons = "; ".join(sorted({task.reason for task in self.tasks}))
            raise CannotDo(f"No model could be measured: {reasons}")

    def stated(self) -> dict[str, object]:
        return {"run": str(self.folder), "models": self.table, "differences": self.differences}


def task_label(model: str, bias: str) -> str:
    """The label of a model's task for one bias."""
    return f"{bias} | {model}"
