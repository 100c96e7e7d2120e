"""Records of a run of mitigations: what each candidate bought and cost, and which is certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from levelhead.measures.certificate import Certificate
from levelhead.runs.common import SizeGrown
from levelhead.runs.records import Record


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
    why_not: str = ""  # why nothing could be certified whatever the model shows
    # the smallest size, in the unit, that would have been detected; None: none would have been, or no null
    # models were evaluated
    detectable: float | None = None


@dataclass(frozen=True)
class BudgetPlan(Record):
    """What fits into a budget of time."""

    every: int  # one of so many items is evaluated
    null: int  # null models; 0: whether there is a bias cannot be tested
    methods: Mapping[str, float]  # that are tried, the cheapest first -> seconds that each takes
    skipped: Mapping[str, float]  # what does not fit -> seconds that it would take
    seconds: float  # that the plan takes
    whole: float  # seconds without a budget
    null_seconds: float  # of one null model
    reserved: float  # seconds behind the null models, for the cheapest mitigation and its certificate


@dataclass(frozen=True)
class CandidateTested(Record):
    """One candidate, in the order of the tests."""

    name: str
    method: str
    strength: float
    recipe: str  # TOML; "" where it has none
    gain_when_ordered: float | None  # on part B; None: it was alone, and needed no order
    certificate: Certificate
    passes: int = 1  # of the model, for one answer


@dataclass(frozen=True)
class TextOutside(Record):
    """Which text certificates are evaluated on too, or why none is."""

    source: str  # "shipped", or the user's; "" where nothing is measured outside
    sentences: int  # that the swap exchanges exactly
    passages: int  # of running text
    pronouns: int  # whose gender the text states
    why_not: str = ""


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
    effect_before: float  # the same as an effect size: divided by its own spread over items
    effect_after: float


@dataclass(frozen=True)
class NotCompared(Record):
    """A candidate without a number of what it writes, and why."""

    candidate: str
    bias: str
    unit: str
    reason: str


@dataclass(frozen=True)
class OddsMoved(Record):
    """How much likelier words of an occupation's own group are than the other's, on part C's prompts."""

    candidate: str
    occupation: str
    group: str  # that the occupation is stereotyped as
    before: float  # nats
    after: float


@dataclass(frozen=True)
class BiasSpilled(SizeGrown):
    """What a candidate does to a bias that it was not fitted on: by how much its size grows."""

    candidate: str
    bias: str


@dataclass(frozen=True)
class ModelWritten(Record):
    """The certified model as a folder, or why there is none."""

    candidate: str  # "" where none was written
    load_with: str  # the line of Python that loads it
    reason: str  # why none was written, else ""


@dataclass(frozen=True)
class MethodTimed(Record):
    """What it took to fit and ask the candidates of a mitigation."""

    method: str
    seconds: float
    memory: int | None  # MiB, the most that was in use meanwhile; None where that is not known
    # wall time of the folder that was written, relative to the unmodified model; None: not measured
    per_answer: float | None = None
    per_token: float | None = None  # that it generates


@dataclass(frozen=True)
class MethodLeftOut(Record):
    """A mitigation that was not tried, and why."""

    method: str
    reason: str
