"""Records that several studies share."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.measures.measurement import Measurement
from levelhead.results.codec import Record

BASE = "base"  # the name of the unmodified model among the variants of a run
SAME_ITEMS = "base, same items"  # the unmodified model on the items that changed models are verified on


@dataclass(frozen=True)
class PlacedModel(Record):
    """Where a model lay while it was asked, and how many tokens a batch had, padding included."""

    model: str
    dtype: str
    device: str  # where texts were sent
    device_map: str | None  # auto, balanced, own
    batch_tokens: int | None  # None: nothing was read
    gradient_tokens: int | None  # None: nothing was differentiated


@dataclass(frozen=True)
class WordAssociation(Record):
    """How much nearer a target word lies to A than to B: s(w) of SEAT (docs/method.md, SEAT)."""

    word: str
    group: str  # X or Y
    association: float


@dataclass(frozen=True)
class MeasuredVariant(Record):
    """One measure of one variant of a model."""

    variant: str  # "base": the unmodified model
    model: str
    measurement: Measurement

    @property
    def name(self) -> str:
        """The measure's name."""
        return self.measurement.name


@dataclass(frozen=True, kw_only=True)
class SizeGrown(Record):
    """By how much the size of a bias, or a cost, grows: one cell of a matrix of changes and measures."""

    unit: str
    before: float
    after: float
    grown: float  # |after| − |before|
    low: float | None  # the interval holds for all cells of the matrix together (Bonferroni)
    high: float | None
    cells: int

    @property
    def lowered(self) -> bool:
        """Whether it is surely smaller than before."""
        return self.high is not None and self.high < 0

    @property
    def raised(self) -> bool:
        """Whether it is surely larger than before."""
        return self.low is not None and self.low > 0
