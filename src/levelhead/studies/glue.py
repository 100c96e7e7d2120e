"""What a debiased model can still do: fine-tuning on GLUE with the edits on ('Bias A-head?', Table 2).

One training is one unit: a task, a recipe, a seed. The unmodified model and every recipe are trained on the
same examples with the same seeds, so that differences are paired by seed and by item (docs/method.md, GLUE).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from levelhead.edits.sites import Variant
from levelhead.engine.closed_heads import closed_heads
from levelhead.engine.finetuning import FineTuned, Hyperparameters, TaskData, finetune
from levelhead.engine.helped import crew_of
from levelhead.errors import BadOption
from levelhead.inference.glue_costs import glue_cells, glue_costs
from levelhead.measures.glue import glue_score
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.named import typed_recipes
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model
from levelhead.ordinary import check_tree
from levelhead.probes.glue import TASKS, GlueSplit, GlueTask, glue_task, load_task, tasks_at_hand
from levelhead.progress import steps
from levelhead.results import layout
from levelhead.results.folder import Run, text_hash
from levelhead.results.keys import file_label
from levelhead.results.records.common import BASE
from levelhead.results.records.glue import (
    Answers,
    GlueRecipe,
    GlueTaskUsed,
    GlueUnit,
    LearningPoint,
)
from levelhead.results.runs import GlueRun
from levelhead.results.settings import GlueRunSettings
from levelhead.scoring.glue import task_data
from levelhead.scoring.placed import loaded_as

Open = Run[GlueRunSettings]


@dataclass(frozen=True)
class GlueSettings:
    """Which tasks, how often, and how they are trained.

    data: a folder as published, or hub:glue
    tasks: none: those that the folder has
    seeds: how often, each time with another seed
    train_rows: evenly spread over the file; None: all
    margin: points that a change may cost and still count as not inferior
    training: how classifiers are trained
    seed: of every draw
    """

    data: str
    tasks: tuple[str, ...] = ()
    seeds: int = 3
    train_rows: int | None = None
    margin: float = 1.0
    training: Hyperparameters = field(default_factory=Hyperparameters)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.seed < 0 or self.margin < 0:
            raise BadOption(
                f"seeds={self.seeds}, seed={self.seed}, margin={self.margin:g} came; allowed are at least 1, "
                "0 and 0."
            )

    @property
    def all_seeds(self) -> range:
        """The seeds themselves."""
        return range(self.seed, self.seed + self.seeds)

    def chosen(self) -> list[GlueTask]:
        """The tasks, each once."""
        hub = self.data.startswith("hub:")
        names = self.tasks or (tuple(TASKS) if hub else tuple(tasks_at_hand(self.data)))
        if not names:
            raise BadOption(f"{self.data} has no GLUE task with train.tsv and dev.tsv. Give another folder.")
        return list(dict.fromkeys(glue_task(name) for name in names))

    def exams(self) -> list[Exam]:
        """The tasks with their examples, as many as are trained on."""
        return [exam_of(task, self) for task in self.chosen()]

    def stored(self, seed: int, margin: float = 1.0) -> dict[str, Any]:
        """What was asked, as a run of another study stores it; seed and margin are that study's."""
        usual = GlueSettings(self.data, self.tasks, train_rows=self.train_rows, margin=margin, seed=seed)
        return {
            "glue": self.data,
            "glue_tasks": tuple(task.name for task in self.chosen()),
            "glue_rows": self.train_rows,
            "glue_in_python": self != usual,
        }


@dataclass(frozen=True, eq=False)
class _Treatment:
    """A recipe made ready for a model."""

    name: str
    edits: Variant
    recipe: str  # TOML

    def record(self, model: Model) -> GlueRecipe:
        return GlueRecipe(self.name, tuple(closed_heads(model, self.edits)), self.recipe)


@dataclass(frozen=True, eq=False)
class Exam:
    """A task's examples."""

    task: GlueTask
    train: GlueSplit
    dev: GlueSplit

    def used(self) -> GlueTaskUsed:
        """The exam as it is stored."""
        parts = {"train": self.train, "dev": self.dev}
        return GlueTaskUsed(
            task=self.task.name,
            metrics=tuple(self.task.metrics),
            train=len(self.train.items),
            dev=len(self.dev.items),
            unusable={
                f"{name}: {why}": n for name, part in parts.items() for why, n in part.unusable.items()
            },
            gold=Answers.of([item.label for item in self.dev.items], self.task.regression),
        )


def glue(
    model: Model, settings: GlueSettings, folder: str | Path, recipes: Mapping[str, Recipe] | None = None
) -> GlueRun:
    """Fine-tune the model, and what each recipe makes of it, on every task with every seed; compare.

    recipes: by name, beside the unmodified model. A folder of a killed run with the same settings is
    finished; the training that was killed goes on from its last checkpoint.
    """
    treatments = _treatments(model, recipes or {})
    exams = settings.exams()
    run_settings = _run_settings(model, settings, exams, recipes or {})
    with Run.open(folder, layout.GLUE, run_settings, hashes=_hashes(model, exams, treatments)) as run:
        run.results(layout.GLUE_RECIPES, lambda: [each.record(model) for each in treatments])
        used = run.results(layout.GLUE_TASKS, lambda: [exam.used() for exam in exams])
        checkpoints = run.folder.absolute() / layout.CHECKPOINTS
        check_tree(checkpoints)  # another library opens what is in it
        lessons = [  # seed by seed, so that what a killed run has can be compared
            _Lesson(exam.task.name, treatment, seed, checkpoints)
            for exam in exams
            for seed in settings.all_seeds
            for treatment in treatments
        ]
        units: list[GlueUnit] = []
        with steps("GLUE", len(lessons)) as advance:
            for unit in _units(model, exams, lessons, settings.training, run):
                units.append(unit)
                advance(1)
        shutil.rmtree(run.folder / layout.CHECKPOINTS, ignore_errors=True)
        cells = run.results(layout.GLUE_CELLS, lambda: glue_cells(used, units))
        run.results(layout.GLUE_COSTS, lambda: glue_costs(used, units, cells, settings.margin))
        return GlueRun(run.data())


def _treatments(model: Model, recipes: Mapping[str, Recipe]) -> list[_Treatment]:
    """The unmodified model first."""
    if BASE in recipes:
        raise BadOption(f"A recipe is called {BASE!r}, which is the unmodified model's name. Rename it.")
    treatments = [_Treatment(BASE, (), "")]
    for name, recipe in recipes.items():
        recipe.check_model(model)
        treatments.append(_Treatment(name, edits_of(model, recipe), recipe_text(recipe)))
    return treatments


def exam_of(task: GlueTask, settings: GlueSettings) -> Exam:
    """The examples of a task, as many as the settings train on."""
    train = load_task(task, "train", settings.data).spread(settings.train_rows)
    return Exam(task, train, load_task(task, "dev", settings.data))


def _run_settings(
    model: Model, settings: GlueSettings, exams: Sequence[Exam], recipes: Mapping[str, Recipe]
) -> GlueRunSettings:
    typed = typed_recipes(recipes)
    training = asdict(settings.training) | {"learning_rate": settings.training.rate(model)}
    return GlueRunSettings(
        study=layout.GLUE.study,
        seed=settings.seed,
        model=model.name,
        published=settings.data,
        tasks=tuple(exam.task.name for exam in exams),
        recipes=tuple(recipes),
        seeds=settings.seeds,
        train_rows=settings.train_rows,
        margin=settings.margin,
        gated_heads=typed.heads,
        recipe_files=typed.files,
        recipes_in_memory=typed.in_memory,
        loading=loaded_as([model]),
        **training,
    )


def _hashes(model: Model, exams: Sequence[Exam], treatments: Sequence[_Treatment]) -> dict[str, str]:
    hashes = {"weights": model.fingerprint, **model.facts(), **exam_hashes(exams)}
    return hashes | {f"recipe {each.name}": text_hash(each.recipe) for each in treatments[1:]}


def exam_hashes(exams: Sequence[Exam]) -> dict[str, str]:
    """Hashes of the examples."""
    return {
        f"{exam.task.name} {name}": part.fingerprint
        for exam in exams
        for name, part in (("train", exam.train), ("dev", exam.dev))
    }


# ---- units


@dataclass(frozen=True, eq=False)
class _Lesson:
    """One training: a task, a treatment of the model, a seed."""

    task: str
    treatment: _Treatment
    seed: int
    folder: Path  # of all checkpoints

    @property
    def label(self) -> str:
        return f"{self.task}/{self.treatment.name}/{self.seed}"

    @property
    def checkpoints(self) -> Path:
        return self.folder / file_label(self.label)

    def unit(self, model: Model, exam: Exam, data: TaskData, training: Hyperparameters) -> GlueUnit:
        """Train, and answer the exam."""
        tuned = finetune(model, self.treatment.edits, data, training, self.seed, self.checkpoints)
        return glue_unit(exam, tuned, self.treatment.name, self.seed)


def glue_unit(exam: Exam, tuned: FineTuned, recipe: str, seed: int) -> GlueUnit:
    """One training as it is stored: its scores are those of the stored answers."""
    task = exam.task
    predictions = Answers.of(tuned.predictions.tolist(), task.regression)
    gold = [item.label for item in exam.dev.items]
    scores = {str(metric): glue_score(metric, gold, predictions.values) for metric in task.metrics}
    curve = tuple(LearningPoint(**asdict(point)) for point in tuned.curve)
    return GlueUnit(task.name, recipe, seed, scores, predictions, curve)


def _units(
    model: Model, exams: Sequence[Exam], lessons: Sequence[_Lesson], training: Hyperparameters, run: Open
) -> Iterator[GlueUnit]:
    """Every training, in order; those that are there already are not trained again."""
    missing = [lesson for lesson in lessons if layout.GLUE_UNITS.of(lesson.label) not in run]
    trained = _trained(model, {exam.task.name: exam for exam in exams}, missing, training)
    for lesson in lessons:
        yield run.result(layout.GLUE_UNITS.of(lesson.label), partial(next, trained))
        shutil.rmtree(lesson.checkpoints, ignore_errors=True)


def _trained(
    model: Model, exams: Mapping[str, Exam], lessons: Sequence[_Lesson], training: Hyperparameters
) -> Iterator[GlueUnit]:
    """The trainings one after the other, or each by one of the model's workers."""
    if (crew := crew_of(model)) is not None:
        shared = {name: crew.crew.share(exam) for name, exam in exams.items()}
        yield from crew.call(_train, [(shared[lesson.task], lesson, training) for lesson in lessons])
        return
    tokenized: dict[str, TaskData] = {}
    for lesson in lessons:
        exam = exams[lesson.task]
        if lesson.task not in tokenized:
            tokenized = {lesson.task: task_data(model, exam.train, exam.dev, training.max_length)}
        yield lesson.unit(model, exam, tokenized[lesson.task], training)


def _train(model: Model, exam: Exam, lesson: _Lesson, training: Hyperparameters) -> GlueUnit:
    data = task_data(model, exam.train, exam.dev, training.max_length)
    return lesson.unit(model, exam, data, training)
