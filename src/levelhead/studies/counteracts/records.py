"""Records of CounterActs: what knowledge before a question does."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.measures.measurement import Measurement
from levelhead.runs.records import Record


@dataclass(frozen=True)
class ClozeForm(Record):
    """How a model was asked in one variant."""

    model: str
    variant: str
    form: str  # "sentence pair", "one text", "continuation" or "chat"
    absent: tuple[str, ...]  # words that no single token spells: they cannot be predicted


@dataclass(frozen=True)
class ClozeCell(Record):
    """One measure of one kind of knowledge, over all occupations or over one group of them."""

    model: str
    variant: str
    k: int  # how many of the likeliest tokens count; 0: all words do
    kind: str  # of knowledge; "base": none
    group: str  # of occupations; "": all
    measurement: Measurement
    verdict: str | None = None  # of a change
    expected: str | None = None  # what the kind is designed to do

    @property
    def name(self) -> str:
        """The measure's name."""
        return self.measurement.name


# ---- files


@dataclass(frozen=True)
class OccupationLine(Record):
    """One measure of one kind of knowledge for one occupation: a line of occupations/NAME.csv."""

    k: int
    kind: str
    group: str
    occupation: str
    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None


@dataclass(frozen=True)
class AnswerWord(Record):
    """A word among a prompt's likeliest tokens."""

    word: str
    group: str | None
    p: float


@dataclass(frozen=True)
class PromptAnswers(Record):
    """What a model filled in for one prompt: a line of answers/NAME.jsonl."""

    id: str
    answers: tuple[AnswerWord, ...]
