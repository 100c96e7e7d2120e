"""Records of an atlas: the head map of every objective, what of it holds, and how far maps agree."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.measures.certificate import LEVEL
from levelhead.measures.measurement import Measurement
from levelhead.runs.common import SizeGrown
from levelhead.runs.records import Record, StoredHead

Grid = tuple[tuple[float, ...], ...]  # [layer][head]


@dataclass(frozen=True)
class ObjectiveMap(Record):
    """The scores of all heads for one objective, in the model or in one of its null models."""

    objective: str
    null_model: int | None  # its number; None: the model itself
    value: float  # of the objective on all items
    scores: Grid
    stderr: tuple[tuple[float | None, ...], ...]  # None where it is not known
    halves: tuple[tuple[Grid, Grid], ...]  # [split]: scores on two halves of the items


@dataclass(frozen=True)
class MappedObjective(Record):
    """An objective in the model: its value, and how far its map holds on other items."""

    objective: str
    unit: str
    value: float
    items: int
    halves: Measurement  # rank correlation of the maps of two halves, in the mean over splits
    largest: Measurement  # the largest |score| that holds on both halves


@dataclass(frozen=True)
class MappedHead(Record):
    """One head in one map."""

    objective: str
    head: StoredHead
    score: float
    stderr: float | None
    held: float  # what two halves of the items both say
    p: float | None  # of |held| against null models, corrected for the heads of this map
    rank: int  # 1: adds most to the objective

    @property
    def significant(self) -> bool:
        """Whether the score holds on other items, farther than any head's does in null models."""
        return self.p is not None and self.p <= LEVEL


@dataclass(frozen=True)
class MapAgreement(Record):
    """How far the maps of two objectives rank heads alike."""

    one: str
    other: str
    measurement: Measurement  # Spearman's rho, against the same two maps in null models
    p: float | None  # corrected for the number of pairs; None: no null models

    @property
    def agree(self) -> bool:
        """Whether the maps agree more than those of null models do."""
        excess = self.measurement.excess
        return self.p is not None and self.p <= LEVEL and excess is not None and excess > 0


@dataclass(frozen=True)
class TopOfAll(Record):
    """The heads among the k highest of every map."""

    k: int
    heads: tuple[StoredHead, ...]
    by_chance: float  # heads that as many unrelated maps would share
    in_null_models: float | None  # heads that the maps of a null model share, on average
    p: float | None  # of as many in null models, exact


@dataclass(frozen=True)
class TransferCell(SizeGrown):
    """What ablating the highest heads of one objective does to one measure, on items that they were not
    chosen on."""

    optimized: str  # the objective that chose the heads
    heads: tuple[StoredHead, ...]
    measured: str  # a bias or, where `cost`, what a model gets worse in as it grows
    cost: bool
    own: bool  # whether the measure is what was optimized
    p_bias: float | None  # of the bias before, against null models, corrected for all biases; None: not known

    @property
    def detected(self) -> bool:
        """Whether the unmodified model shows this bias beyond its null models."""
        return self.p_bias is not None and self.p_bias <= LEVEL


@dataclass(frozen=True)
class ObjectiveLeftOut(Record):
    """An objective that the model cannot be mapped for, and why."""

    objective: str
    reason: str


@dataclass(frozen=True)
class MapLine(Record):
    """A line of maps.csv; layer and head count from 1."""

    objective: str
    layer: int
    head: int
    score: float
    stderr: float | None
    held: float
    p: float | None
    significant: bool
