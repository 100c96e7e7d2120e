"""Records of projective debiasing: fits, settings with their measures, observations, the paper's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from levelhead.measures.measurement import Measurement
from levelhead.runs.records import Record


@dataclass(frozen=True)
class SubspaceFit(Record):
    """What the subspace of one location was fitted on, and the share that each direction carries."""

    model: str
    location: str
    form: str  # of the inputs: single or pairs
    pairs: int
    vectors: int
    skipped: Mapping[str, int]
    explained: tuple[float, ...]  # the first directions' shares


@dataclass(frozen=True)
class SettingMeasured(Record):
    """One measure of one setting."""

    variant: str
    level: str
    code: str  # the paper's tuple
    model: str
    measurement: Measurement
    viable: bool | None = None  # keeps the classifier's ability; None: not judged here


@dataclass(frozen=True)
class PredictedLabels(Record):
    """A variant's answers to some inferences, one digit each: 0 entailment, 1 neutral, 2 contradiction."""

    labels: str


@dataclass(frozen=True)
class Observation(Record):
    """One of the paper's observations, counted on these models."""

    observation: str
    holds: bool | None  # None: no case
    agree: int
    cases: int
    paper: str  # the same count in the paper's own table


# ---- tables: lines of CSV files


@dataclass(frozen=True)
class Table5Line(Record):
    """The best setting of a level by each measure."""

    level: str
    strength: float | None
    strength_setting: str | None
    strength_code: str | None
    distance: float | None
    distance_setting: str | None
    distance_code: str | None
    fairness: float | None
    fairness_setting: str | None
    fairness_code: str | None
    ability: float | None
    viable: str  # "3 of 8"


@dataclass(frozen=True)
class Table6Line(Record):
    """Mean ability without and with weighting at SENT."""

    level: str
    pairs: int
    ability_hard: float
    ability_soft: float
    increase: float
    sd: float | None


BASE_LEVEL, BASELINE_LEVEL, DEPTH_LEVEL = "base", "sent-debias", "depth"  # beside the paper's 74 settings
SETTING_MEASURES = (  # of a setting, on the next-sentence model and on the classifier
    *("strength", "distance", "ss", "ss_swapped", "lms", "icat"),
    *("parity", "strict_parity", "accuracy", "fairness", "ability"),
)


@dataclass(frozen=True)
class Table7Line(Record):
    """Every measure of one setting; None: not measured."""

    level: str
    setting: str
    code: str
    strength: float | None
    distance: float | None
    ss: float | None
    ss_swapped: float | None
    lms: float | None
    icat: float | None
    parity: float | None
    strict_parity: float | None
    accuracy: float | None
    fairness: float | None
    ability: float | None
    viable: bool | None


def fairest_viable(lines: Iterable[Table7Line]) -> Table7Line | None:
    """The viable setting with the highest fairness; the unmodified model and the baseline do not count."""
    changed = [each for each in lines if each.level not in (BASE_LEVEL, BASELINE_LEVEL)]
    fair = [each for each in changed if each.viable and each.fairness is not None]
    return max(fair, key=lambda each: each.fairness or 0.0, default=None)


@dataclass(frozen=True)
class ProjectionsSummary(Record):
    """What a run of projections says in all: `levelhead projections --json`."""

    run: str
    settings: tuple[Table7Line, ...]
    correlation: Measurement  # of Strength with fairness over the settings
    observations: tuple[Observation, ...]
    fairest_viable: Table7Line | None  # of the paper's 74
    depth: tuple[Table7Line, ...]  # finalists of the depth search
    fairest_viable_overall: Table7Line | None


@dataclass(frozen=True)
class FrontierLine(Record):
    """Bias against ability of one setting on both tasks."""

    level: str
    setting: str
    strength: float | None
    lms: float | None
    nsp_frontier: bool
    fairness: float | None
    ability: float | None
    nli_frontier: bool


@dataclass(frozen=True)
class DepthLine(Record):
    """One setting of the depth search on the part of the probe that screens it."""

    setting: str
    first_layer: int  # from 1
    dimensions: int
    soft: bool
    parity: float | None
    strict_parity: float | None
    accuracy: float | None
    fairness: float | None
    ability: float | None
    viable: bool | None
