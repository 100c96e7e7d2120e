"""Records of targeted debiasing: what gating heads buys and costs."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.measures.measurement import Measurement
from levelhead.results.codec import Record, StoredHead


@dataclass(frozen=True)
class StrategyMeasured(Record):
    """One measure of a model under one strategy."""

    strategy: str  # "base", "top-3", "all" ...
    heads: tuple[StoredHead, ...]
    measurement: Measurement


@dataclass(frozen=True)
class RandomMeasured(Record):
    """One measure of random heads removed: mean and spread over seeds."""

    strategy: str
    masked: int  # heads removed at a time
    measurement: Measurement  # of the mean
    values: tuple[float | None, ...]  # [seed]
    mean_abs: float | None  # of SEAT's absolute values; None for other measures


@dataclass(frozen=True)
class DebiasVerdict(Record):
    """The paper's claim, true or not: removing the top k lowers |SEAT| more than k random heads do."""

    claim: str
    base: float | None
    top: float | None
    random_mean: float | None
    seeds: int
    holds: bool | None
    random_lower: int | None  # draws that do better than the top k


@dataclass(frozen=True)
class LearnedOn(Record):
    """What learned gates reach on the data that they were learned on."""

    seat: float
    ratio: float  # of perplexities
    seat_at_start: float


@dataclass(frozen=True)
class LearnedGatesFound(Record):
    """Gates that were learned under one bound."""

    strategy: str
    bound: float
    gates: tuple[tuple[float, ...], ...]  # [layer][head]
    steps: int
    learned_on: LearnedOn


@dataclass(frozen=True)
class LearnedMeasured(Record):
    """One measure of learned gates, or of a strategy beside them."""

    strategy: str
    heads: tuple[StoredHead, ...]
    learned: bool  # whether the contexts include those that gates were learned on
    measurement: Measurement


@dataclass(frozen=True)
class Rival(Record):
    """The best top-k whose fluency loss is no larger than that of the learned gates."""

    strategy: str
    abs_seat: float
    ratio: float


@dataclass(frozen=True)
class Tradeoff(Record):
    """Learned gates against their rival."""

    strategy: str
    abs_seat: float
    ratio: float
    rival: Rival | None

    @property
    def beats(self) -> bool | None:
        """Whether the learned gates reach a smaller |SEAT|; None without a rival."""
        return None if self.rival is None else self.abs_seat < self.rival.abs_seat
