"""Records of a survey: one task a model and bias, and the tables of all of them."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.measures.measurement import Measurement
from levelhead.runs.records import Record


@dataclass(frozen=True)
class SurveyTask(Record):
    """All measures of one model for one bias, or the reason why there are none."""

    model: str
    bias: str
    weights: str = ""  # fingerprint of the model
    parameters: int = 0
    abilities: tuple[str, ...] = ()
    measured: tuple[Measurement, ...] = ()
    reason: str = ""  # why the model could not be asked
    opening: str = ""  # what every text began with
    doubt: str = ""  # why no verdict may rest on the numbers; empty where there is no doubt

    @property
    def failed(self) -> bool:
        """Whether there is a reason instead of measures."""
        return bool(self.reason)


@dataclass(frozen=True)
class SurveyLine(Record):
    """A line of the table: one measure of one model for one bias, or why there is none."""

    bias: str
    measure: str  # empty where the model could not be asked at all
    model: str
    run: str  # the training that the model is a checkpoint of; empty for others
    step: int | None
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    neutral: float | None
    size: float | None  # how far from neutral, in the direction of bias
    rank: int | None  # 1 is nearest to neutral; equal sizes share a rank
    reason: str


@dataclass(frozen=True)
class SurveyDifference(Record):
    """Two models on one measure: by how much the second lies farther from neutral than the first."""

    bias: str
    measure: str
    first: str
    second: str
    value: float
    low: float | None
    high: float | None
    p: float | None  # that there is no difference
    corrected: float | None  # p after Holm's correction for all differences of the survey
    real: bool  # corrected p below 0.05
    paired: bool
    how: str
