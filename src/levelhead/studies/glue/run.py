"""What a debiased model can still do: fine-tuning on GLUE with the edits on ('Bias A-head?', Table 2).

One training is one unit: a task, a recipe, a seed. The unmodified model and every recipe are trained on the
same examples with the same seeds, so that differences are paired by seed and by item; every metric stands
beside chance (docs/method/sentences.md, GLUE).
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from levelhead.edits.sites import Head, Variant
from levelhead.engine.effort import speed_of
from levelhead.engine.finetuning import FineTuned, TaskData, closed_heads, finetune, labeled
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.engine.shards import crew_of
from levelhead.engine.training import is_large
from levelhead.errors import BadOption
from levelhead.measures.glue import glue_difference, glue_score, majority_score, random_score, scored
from levelhead.measures.measurement import CHANGE, Measurement
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe, named_recipes, recipe_text, typed_recipes
from levelhead.models.model import Model
from levelhead.probes.glue import GlueSplit, GlueTask, load_task
from levelhead.progress import Plan, announce, duration, steps, tokens_in
from levelhead.runs.common import BASE
from levelhead.runs.files import file_label
from levelhead.runs.folder import Run, text_hash
from levelhead.runs.presets import GLUE_ROWS
from levelhead.runs.study import stored_as
from levelhead.safe_files import check_tree
from levelhead.scoring.placed import loaded_as
from levelhead.studies.glue import CHECKPOINTS, Glue
from levelhead.studies.glue.records import (
    Answers,
    GlueCell,
    GlueCost,
    GlueRecipe,
    GlueTaskUsed,
    GlueUnit,
    LearningPoint,
)
from levelhead.studies.glue.settings import GlueSettings, GlueStored

Open = Run[GlueStored]
_TRAINED = 3.0  # times as long as asking: forward, and back through states and weights
_NOISE = "; noise: the unmodified model itself is not above chance here, so this task shows nothing"


@dataclass(frozen=True, eq=False)
class _Treatment:
    """A recipe made ready for a model."""

    name: str
    edits: Variant
    recipe: str  # TOML


@dataclass(frozen=True, eq=False)
class Exam:
    """A task's examples."""

    task: GlueTask
    train: GlueSplit
    dev: GlueSplit

    @classmethod
    def of(cls, task: GlueTask, data: str, train_rows: int | None = None) -> Exam:
        """The published examples; train_rows: train on so many of them, evenly spread."""
        return cls(task, load_task(task, "train", data).spread(train_rows), load_task(task, "dev", data))

    def tokenized(self, model: Model, max_length: int) -> TaskData:
        """What a model is trained and evaluated on; the first metric is shown along the learning curve."""
        return TaskData(
            self.task.labels,
            labeled(model, self.train.items, max_length),
            labeled(model, self.dev.items, max_length),
            partial(glue_score, self.task.metrics[0]),
        )

    def tokens(self, training: Hyperparameters, rows: int) -> float:
        """Tokens that a training on so many examples passes through all blocks, about: a pass back counts as
        two forward."""
        train, dev = (
            sum(
                min(tokens_in([f"{item.first} {item.second or ''}"]), training.max_length)
                for item in part.items
            )
            for part in (self.train, self.dev)
        )
        share = min(1.0, rows / len(self.train.items))
        return training.epochs * (_TRAINED * share * train + dev)

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
) -> Glue:
    """Fine-tune the model, and what each recipe makes of it, on every task with every seed; compare.

    recipes: by name, beside the unmodified model. A folder of a killed run with the same settings is
    finished; the training that was killed goes on from its last checkpoint.
    """
    in_memory = settings.recipes if isinstance(settings.recipes, Mapping) else {}
    files = () if isinstance(settings.recipes, Mapping) else settings.recipes
    recipes = {**named_recipes(parsed_gates(settings.heads), files), **in_memory, **(recipes or {})}
    if BASE in recipes:
        raise BadOption(f"A recipe is called {BASE!r}, which is the unmodified model's name. Rename it.")
    treatments = [_Treatment(BASE, (), "")]
    for name, recipe in recipes.items():
        recipe.check_model(model)
        treatments.append(_Treatment(name, edits_of(model, recipe), recipe_text(recipe)))
    exams, typed = exams_of(settings), typed_recipes(recipes)
    stored = stored_as(
        GlueStored,
        settings,
        study=Glue.name,
        models=(model.name,),
        tasks=tuple(exam.task.name for exam in exams),
        heads=typed.heads,
        recipes=typed.files,
        names=tuple(recipes),
        in_memory=("recipes",) if typed.in_memory else (),
        training=replace(settings.training, learning_rate=settings.training.rate(is_large(model))),
        loading=loaded_as([model]),
    )
    hashes = {"weights": model.fingerprint, **model.facts(), **exam_hashes(exams)}
    hashes |= {f"recipe {each.name}": text_hash(each.recipe) for each in treatments[1:]}
    with Run.open(folder, Glue, stored, hashes=hashes) as run:
        run.results(
            Glue.recipes,
            lambda: [
                GlueRecipe(each.name, tuple(closed_heads(model, each.edits)), each.recipe)
                for each in treatments
            ],
        )
        used = run.results(Glue.tasks, lambda: [exam.used() for exam in exams])
        checkpoints = run.folder.absolute() / CHECKPOINTS
        check_tree(checkpoints)  # another library opens what is in it
        lessons = [  # seed by seed, so that what a killed run has can be compared
            _Lesson(exam.task.name, treatment, seed, checkpoints)
            for exam in exams
            for seed in range(settings.seed, settings.seed + settings.seeds)
            for treatment in treatments
        ]
        missing = [lesson for lesson in lessons if Glue.units.of(lesson.label) not in run]
        by_task = {exam.task.name: exam for exam in exams}
        if missing:
            announce(lambda: _times(model, by_task, missing, settings))
        trained = _trained(model, by_task, missing, settings.training)
        units: list[GlueUnit] = []
        with steps("GLUE", len(lessons)) as advance:
            for lesson in lessons:
                units.append(run.result(Glue.units.of(lesson.label), partial(next, trained)))
                shutil.rmtree(lesson.checkpoints, ignore_errors=True)
                advance(1)
        shutil.rmtree(run.folder / CHECKPOINTS, ignore_errors=True)
        cells = run.results(Glue.cells, lambda: glue_cells(used, units))
        run.results(Glue.costs, lambda: glue_costs(used, units, cells, settings.margin))
        return Glue(run.data())


def parsed_gates(text: str) -> dict[Head, float]:
    """`3-5,7-2=0.5` -> {Head(2, 4): 0.0, Head(6, 1): 0.5}: people count layers and heads from 1."""
    gates: dict[Head, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        written, has_gate, gate = part.partition("=")
        try:
            head, value = Head.parse(written), float(gate) if has_gate else 0.0
        except (BadOption, ValueError):
            head, value = None, math.nan
        if head is None or not math.isfinite(value):
            raise BadOption(
                f"heads must be LAYER-HEAD or LAYER-HEAD=GATE, counted from 1, as 3-5,7-2=0.5 (got {part!r})"
            )
        if head in gates:
            raise BadOption(f"heads must name each head once (got {head} twice)")
        gates[head] = value
    return gates


def exams_of(settings: GlueSettings) -> list[Exam]:
    """The tasks with their examples, as many as are trained on."""
    return [Exam.of(task, settings.data, settings.train_rows) for task in settings.chosen()]


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


def glue_unit(exam: Exam, tuned: FineTuned, recipe: str, seed: int) -> GlueUnit:
    """One training as it is stored: its scores are those of the stored answers."""
    task = exam.task
    predictions = Answers.of(tuned.predictions.tolist(), task.regression)
    gold = [item.label for item in exam.dev.items]
    scores = {str(metric): glue_score(metric, gold, predictions.values) for metric in task.metrics}
    curve = tuple(LearningPoint(**asdict(point)) for point in tuned.curve)
    return GlueUnit(task.name, recipe, seed, scores, predictions, curve)


def _times(
    model: Model, exams: Mapping[str, Exam], lessons: Sequence[_Lesson], settings: GlueSettings
) -> Plan:
    """What the trainings take on this machine, and what is shorter."""
    speed, most = speed_of(model), max(len(exam.train.items) for exam in exams.values())
    found = list[Plan]()
    for rows in (most, GLUE_ROWS):
        each = {name: exam.tokens(settings.training, rows) for name, exam in exams.items()}
        found.append(speed.plan(estimated=sum(each[lesson.task] for lesson in lessons)))
    shorter = f"--train-rows {GLUE_ROWS} takes about {duration(found[1].seconds)}"
    if most <= GLUE_ROWS:
        shorter = "fewer --train-rows, --tasks or --seeds take less"
    return replace(found[0], shorter=shorter)


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
            tokenized = {lesson.task: exam.tokenized(model, training.max_length)}
        yield _train(model, exam, lesson, training, tokenized[lesson.task])


def _train(
    model: Model, exam: Exam, lesson: _Lesson, training: Hyperparameters, data: TaskData | None = None
) -> GlueUnit:
    """Train, and answer the exam. data: its examples, where another training has tokenized them."""
    data, name = data or exam.tokenized(model, training.max_length), lesson.treatment.name
    tuned = finetune(model, lesson.treatment.edits, data, training, lesson.seed, lesson.checkpoints)
    return glue_unit(exam, tuned, name, lesson.seed)


def glue_cells(tasks: Sequence[GlueTaskUsed], units: Sequence[GlueUnit]) -> list[GlueCell]:
    """Table 2: every metric of every task, the mean over seeds, beside what needs no model at all."""
    cells = []
    for task in tasks:
        gold = task.gold.values
        for metric in task.metrics:
            chance = {"majority": majority_score(metric, gold), "random": random_score(metric, gold)}
            for recipe, predictions in _by_recipe(task, units).items():
                score = scored(metric, gold, predictions)
                known: dict[str, Any] = {
                    "n": len(gold),
                    "details": {"sd": score.sd},
                    "settings": {"data_hash": task.data_hash},
                }
                measurement = Measurement(task.measure(metric), score.value, score.interval, **known)
                cells.append(GlueCell(task.task, recipe, metric, measurement, score.seeds, **chance))
    return cells


def glue_costs(
    tasks: Sequence[GlueTaskUsed], units: Sequence[GlueUnit], cells: Sequence[GlueCell], margin: float
) -> list[GlueCost]:
    """Every recipe against the unmodified model, paired by seed and by item, with a verdict."""
    learned = {(cell.task, cell.metric): cell.learned for cell in cells if cell.recipe == BASE}
    costs = []
    for task in tasks:
        base, *changed = _by_recipe(task, units).items()
        for recipe, predictions in changed:
            for metric in task.metrics:
                found = glue_difference(metric, task.gold.values, base[1], predictions, margin)
                low, high = found.interval
                known: dict[str, Any] = {"n": task.dev, "neutral": 0.0, "settings": {"margin": found.margin}}
                name = f"{task.measure(metric)}{CHANGE}"
                measurement = Measurement(name, found.points / 100, (low / 100, high / 100), **known)
                shows = learned[task.task, metric]
                said = found.sentence() + ("" if shows else _NOISE)
                judged = (found.verdict, found.margin, shows, said)
                costs.append(GlueCost(task.task, recipe, metric, measurement, *judged))
    return costs


def _by_recipe(task: GlueTaskUsed, units: Sequence[GlueUnit]) -> dict[str, list[list[float]]]:
    """Predictions of a task, seed by seed, for every recipe; the unmodified model first."""
    by_recipe: dict[str, list[list[float]]] = {BASE: []}
    for unit in sorted((unit for unit in units if unit.task == task.task), key=lambda unit: unit.seed):
        by_recipe.setdefault(unit.recipe, []).append(unit.predictions.values)
    return by_recipe
