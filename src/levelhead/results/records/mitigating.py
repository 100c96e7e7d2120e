"""Records of a run of mitigations: what each candidate bought and cost, and which is certified."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.measures.certified import Certificate
from levelhead.results.codec import Record


@dataclass(frozen=True)
class BiasDetected(Record):
    """Whether the unmodified model shows a bias at all, beyond its null models."""

    bias: str
    unit: str
    value: float  # weighted mean over items
    relative: float  # to the root mean square of the items
    null_models: int
    p: float | None  # None: too few null models to tell
    detected: bool


@dataclass(frozen=True)
class CandidateTested(Record):
    """One candidate, in the order of the tests."""

    name: str
    method: str
    strength: float
    recipe: str  # TOML; "" where it has none
    gain_when_ordered: float  # on part B
    certificate: Certificate


@dataclass(frozen=True)
class BiasMoved(Record):
    """What a candidate does to a bias on part C: the one that it is judged by, and all others."""

    candidate: str
    bias: str
    unit: str
    before: float
    after: float
    change: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class MethodLeftOut(Record):
    """A mitigation that cannot run, and why."""

    method: str
    reason: str
