"""A task's examples, made ready for training a model and for scoring it."""

from __future__ import annotations

from levelhead.engine.finetuning import TaskData, labeled
from levelhead.measures.glue import glue_score
from levelhead.models.model import Model
from levelhead.probes.glue import GlueSplit


def task_data(model: Model, train: GlueSplit, dev: GlueSplit, max_length: int) -> TaskData:
    """A task's examples, tokenized; its first metric is shown along the learning curve."""
    metric = train.task.metrics[0]
    return TaskData(
        train.task.labels,
        labeled(model, train.items, max_length),
        labeled(model, dev.items, max_length),
        lambda gold, predicted: glue_score(metric, gold, predicted),
    )
