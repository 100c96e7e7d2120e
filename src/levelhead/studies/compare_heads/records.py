"""Records of the comparison of several models' heads."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.measures.measurement import Measurement
from levelhead.runs.records import Record, StoredHead


@dataclass(frozen=True)
class ScoredModelSummary(Record):
    """One model of the comparison."""

    model: str
    layers: int
    heads: int
    biased: int
    anti_biased: int
    most_biased: StoredHead
    most_biased_score: float
    most_anti_biased: StoredHead
    most_anti_biased_score: float
    seat: Measurement


@dataclass(frozen=True)
class ModelHeadScore(Record):
    """The score of one head of one model of the comparison."""

    number: int  # of the model, from 1
    model: str
    head: StoredHead
    score: float


@dataclass(frozen=True)
class HeadAgreement(Record):
    """How the heads of two models of one shape relate."""

    spearman: Measurement
    anti_biased_in_base: int
    flips: int  # anti-biased in the base, biased in the other
    clear_flips: int  # of heads that are clear in both runs
    flips_back: int
    followed: tuple[StoredHead, ...]  # the base's most anti-biased heads
    followed_flips: int


@dataclass(frozen=True)
class ModelPair(Record):
    """A model against the base of the comparison."""

    base: str
    model: str
    abs_seat_base: float | None
    abs_seat: float | None
    same_contexts: bool
    agreement: HeadAgreement | None
    reason: str  # why there is no agreement


@dataclass(frozen=True)
class Flip(Record):
    """An anti-biased head of the base that is biased in the other model."""

    base: str
    model: str
    head: StoredHead
    score_base: float
    score: float
    clear: bool  # in both runs: the scores hold on other words, beyond those of null models
