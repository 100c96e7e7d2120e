"""A classifier trained from a model, as an ordinary folder: what `--nli` asks for (docs/method/sentences.md,
GLUE).

The projective paper fine-tunes its models on SNLI; whoever has a model with a next-sentence head needs no
second download. Edits, where there are some, are on in training and folded into what is written.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from levelhead.edits.sites import Variant
from levelhead.engine.effort import speed_of
from levelhead.engine.finetuning import finetune
from levelhead.errors import BadOption
from levelhead.measures.glue import glue_score, majority_score
from levelhead.mitigation.export import ExportReport, write_model
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model
from levelhead.probes.glue import SNLI, TASKS
from levelhead.progress import announce
from levelhead.runs.folder import text_hash
from levelhead.safe_files import check_tree
from levelhead.studies.glue.run import Exam
from levelhead.studies.glue.settings import FinetuneSettings as FinetuneSettings


@dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier in its folder, and what it scores on examples that it was not trained on."""

    task: str
    trained_on: str
    evaluated_on: str
    train: int  # examples
    dev: int
    scores: Mapping[str, float]  # metric -> score
    majority: Mapping[str, float]  # metric -> what always answering the most frequent class scores
    export: ExportReport

    def to_json(self) -> dict[str, object]:
        """Plain data, which `--json` prints."""
        return {**vars(self), "export": self.export.to_json()}


def train_classifier(
    model: Model, settings: FinetuneSettings, folder: str | Path, recipe: Recipe | None = None
) -> TrainedClassifier:
    """Fine-tune the model, with a recipe's edits on if one is given, and write the classifier.

    Checkpoints lie beside the folder until it is there: the same command goes on with a killed training.
    """
    tasks = {SNLI.name: SNLI, **TASKS}
    if settings.task not in tasks:
        raise BadOption(f"There is no task {settings.task[:40]!r}. Known are {', '.join(tasks)}.")
    task = tasks[settings.task]
    exam = Exam.of(task, settings.data, settings.train_rows)
    train, dev = exam.train, exam.dev
    edits: Variant = ()
    if recipe is not None:
        recipe.check_model(model)
        edits = edits_of(model, recipe)
        recipe = replace(recipe, model=model.name, fingerprint=model.fingerprint)
    tokens = exam.tokens(settings.training, len(train.items))
    announce(lambda: speed_of(model).plan(estimated=tokens, shorter="fewer --train-rows take less"))
    data = exam.tokenized(model, settings.training.max_length)
    checkpoints = Path(folder).expanduser().absolute()
    checkpoints = checkpoints.with_name(f"{checkpoints.name}.checkpoints")
    check_tree(checkpoints)  # another library opens what is in it
    # a name that differs with everything that the training depends on
    made = "" if recipe is None else recipe_text(recipe)
    name = text_hash([repr(settings), model.fingerprint, made, train.fingerprint, dev.fingerprint])[:16]
    tuned = finetune(model, edits, data, settings.training, settings.seed, checkpoints / name)
    tuned.model.name = f"{model.name} fine-tuned on {task.name}"
    report = write_model(tuned.model, edits, folder, recipe)
    shutil.rmtree(checkpoints, ignore_errors=True)
    gold = [label for _, label in data.dev]
    return TrainedClassifier(
        task=task.name,
        trained_on=train.source,
        evaluated_on=dev.source,
        train=len(train.items),
        dev=len(dev.items),
        scores={metric: glue_score(metric, gold, tuned.predictions) for metric in task.metrics},
        majority={metric: majority_score(metric, gold) for metric in task.metrics},
        export=report,
    )
