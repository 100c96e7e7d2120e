"""Records of GLUE: what a model, and what recipes make of it, can still learn."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelhead.measures.catalog import GLUE
from levelhead.measures.measurement import GlueVerdict, Measurement
from levelhead.runs.records import Record, StoredHead

_DIGITS = 7  # of a score that is stored: those of a float32


@dataclass(frozen=True)
class Answers(Record):
    """One answer for each item: one character a class, or one number a score."""

    classes: str
    scores: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float], regression: bool) -> Answers:
        """Answers from numbers."""
        if regression:
            return cls("", tuple(float(f"{value:.{_DIGITS}g}") for value in values))
        return cls("".join(str(int(value)) for value in values), ())

    @property
    def values(self) -> list[float]:
        """The answers as numbers."""
        return [float(each) for each in self.classes] or list(self.scores)


@dataclass(frozen=True)
class GlueRecipe(Record):
    """What was done to the model, in training and in evaluation."""

    name: str
    closed: tuple[StoredHead, ...]  # heads whose gate is 0
    recipe: str  # TOML; "" for the unmodified model


@dataclass(frozen=True)
class GlueTaskUsed(Record):
    """What a task was trained on and evaluated on."""

    task: str
    metrics: tuple[str, ...]  # the first counts
    train: int  # examples
    dev: int
    unusable: Mapping[str, int]  # reason -> lines, of both parts
    gold: Answers

    def measure(self, metric: str) -> str:
        """How a score is called among the measures: glue/mrpc, and glue/mrpc accuracy for a second metric."""
        return f"{GLUE}/{self.task}" + ("" if metric == self.metrics[0] else f" {metric}")

    @property
    def data_hash(self) -> str:
        """By which two runs know that they answered the same items after as many examples."""
        known = f"{self.task} {self.train} {self.gold.classes} {self.gold.scores}"
        return hashlib.sha256(known.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class LearningPoint(Record):
    """A point of a learning curve: the mean training loss since the last one, or the score on dev."""

    step: int
    epoch: float
    loss: float | None
    score: float | None


@dataclass(frozen=True)
class GlueUnit(Record):
    """One training: a task, a recipe, a seed."""

    task: str
    recipe: str
    seed: int
    scores: Mapping[str, float]  # metric -> score on dev
    predictions: Answers
    curve: tuple[LearningPoint, ...]


@dataclass(frozen=True)
class GlueCell(Record):
    """A cell of the table: one metric of one task for one recipe, the mean over seeds."""

    task: str
    recipe: str
    metric: str
    measurement: Measurement  # its interval draws items
    seeds: tuple[float, ...]  # [seed]
    majority: float  # what always answering the most frequent class scores
    random: float  # what answers drawn with the classes' frequencies score

    @property
    def learned(self) -> bool:
        """Whether the whole interval lies above both baselines; else the task shows nothing here."""
        interval = self.measurement.interval
        return interval is not None and interval[0] > max(self.majority, self.random)


@dataclass(frozen=True)
class GlueCost(Record):
    """A recipe against the unmodified model, paired by seed and by item."""

    task: str
    recipe: str
    metric: str
    measurement: Measurement  # of the metric, which has 100 points; below 0 it costs
    verdict: GlueVerdict
    margin: float
    learned: bool  # whether the unmodified model itself lies above both baselines
    sentence: str
