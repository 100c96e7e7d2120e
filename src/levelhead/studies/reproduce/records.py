"""Records of a reproduction: what a paper prints beside what was measured, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from levelhead.runs.files import CsvFile, JsonFile
from levelhead.runs.records import Record

Agreement = Literal[
    "within",  # the published value lies in the interval of ours
    "outside",
    "equal",  # a number without an interval that is the paper's
    "no interval",  # both are numbers, but ours has no interval
    "as printed",  # what the paper says in words holds here
    "not as printed",
    "no number",  # the paper prints none
    "not measured",
]


@dataclass(frozen=True)
class ReproducedCell(Record):
    """A number of a table, a figure or a sentence of a paper, and ours beside it: a line of reproduce.csv."""

    table: str  # "Table 1", "Figure 4", "Section 5.1"
    cell: str
    printed: str  # as the paper prints it; "": a figure without numbers
    published: float | None  # the same as a number
    measured: float | None
    low: float | None  # the 95 % interval of ours
    high: float | None
    agreement: str  # an Agreement
    note: str  # why it was not measured, or what else a reader must know


@dataclass(frozen=True)
class SetUpDifference(Record):
    """A part of the set-up in which the run and the paper differ."""

    part: str  # weights, words, contexts ...
    paper: str
    here: str


@dataclass(frozen=True)
class Reproduction(Record):
    """A run beside the paper that it follows."""

    paper: str  # heads, projections, counteracts
    title: str
    run: str
    model: str
    same_model: bool  # whether the paper's own weights, by their name, were evaluated
    differences: tuple[SetUpDifference, ...]
    cells: tuple[ReproducedCell, ...]


REPRODUCED_CELLS = CsvFile("reproduce.csv", ReproducedCell)
REPRODUCTION = JsonFile("reproduce.json", Reproduction)
