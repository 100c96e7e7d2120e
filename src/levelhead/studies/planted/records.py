"""Records of the benchmark with planted bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from levelhead.measures.measurement import Measurement
from levelhead.runs.records import Record, StoredHead

PRECISION, MEAN_RANK, ABS_SEAT = "precision", "mean rank", "abs seat"  # names of the summary's measurements


@dataclass(frozen=True)
class PlantedBase(Record):
    """The unmodified model: its SEAT, and how strongly each localizer suspects each head."""

    seat: float
    abs_seat: float
    suspicion: Mapping[str, tuple[tuple[float, ...], ...]]  # localizer -> [layer][head]


@dataclass(frozen=True)
class PlantTrial(Record):
    """One localizer on one planted copy."""

    kind: str
    seed: int
    heads: tuple[StoredHead, ...]  # planted
    strengths: tuple[float, ...]  # [planted head]
    refused: tuple[StoredHead, ...]  # drawn, but they cannot carry a plant
    abs_seat_before: float
    abs_seat: float
    localizer: str
    way: str  # alone, or compared with the model before
    precision: float
    ranks: tuple[float, ...]  # [planted head]
    mean_rank: float


@dataclass(frozen=True)
class PlantSummary(Record):
    """A figure over seeds: precision or mean rank of a localizer, or |SEAT| of the planted copies."""

    kind: str
    localizer: str  # "" for |SEAT|
    way: str  # "" for |SEAT|
    measurement: Measurement
    abs_seat_before: float | None  # for |SEAT|
