"""Records that several studies share, and which models are checkpoints of one training."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from levelhead.measures.measurement import Measurement
from levelhead.runs.files import CsvFile
from levelhead.runs.records import Record

BASE = "base"  # the name of the unmodified model among the variants of a run
SAME_ITEMS = "base, same items"  # the unmodified model on the items that changed models are verified on
_STEP = re.compile(
    r"(?P<before>.*?)(?:global[-_]?)?(?:checkpoint|ckpt|step|iter|epoch)s?[-_=]?(?P<step>\d{1,15})(?P<after>\D*)",
    re.I,
)


@dataclass(frozen=True)
class PlacedModel(Record):
    """Where a model lay while it answered, and how many tokens a batch had, padding included."""

    model: str
    dtype: str
    device: str  # where texts were sent
    device_map: str | None  # auto, balanced, own
    batch_tokens: int | None  # None: nothing was read
    gradient_tokens: int | None  # None: nothing was differentiated


@dataclass(frozen=True)
class WordAssociation(Record):
    """How much nearer a target word lies to A than to B: s(w) of SEAT (docs/method/words.md, SEAT)."""

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


@dataclass(frozen=True)
class Scenario(Record):
    """A way in which the model could treat a group unfairly, and what is done about it."""

    group: str
    hazard: str
    measure: str = ""
    threshold: str = ""
    mitigation: str = ""
    review_date: str = ""


@dataclass(frozen=True)
class About(Record):
    """The fields of a documentation; an empty one was not filled in."""

    intended_purpose: str
    groups_covered: str
    groups_not_covered: str
    data_provenance: str
    date: str
    responsible: str
    residual_risk: str
    scenarios: tuple[Scenario, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class NullScore(Record):
    """A score of one null model, relative to the scale of its own differences; None: it has none."""

    name: str
    relative: float | None


@dataclass(frozen=True)
class NullModelSeat(Record):
    """SEAT of some of a list's words in one null model."""

    row: str  # the name of a SeatRow
    value: float
    influences: tuple[tuple[float, ...], ...]  # of attribute pairs, X, Y


@dataclass(frozen=True)
class TripleLine(Record):
    """The probabilities of one triple and of its counterfactual, GS (the paper's Tables 1, 3 and 4)."""

    id: str
    context: str
    stereotype: str
    anti: str
    unrelated: str
    p_stereo: float
    p_anti: float
    p_unrelated: float
    context_gs: str | None = None  # None: the triple has no null model
    p_stereo_gs: float | None = None
    p_anti_gs: float | None = None
    p_unrelated_gs: float | None = None
    s: float | None = None  # p_stereo - p_anti - p_anti_gs + p_stereo_gs, what Strength is a mean of
    d: float | None = None  # |p_unrelated - p_unrelated_gs|, what Distance is a mean of


ASSOCIATIONS_TABLE = CsvFile("associations.csv", WordAssociation)  # where `levelhead seat --csv` says
TRIPLES_TABLE = CsvFile("triples.csv", TripleLine)  # where `levelhead nsp --csv` is told to write it


@dataclass(frozen=True)
class TrainingStep:
    """A checkpoint of a training."""

    run: str  # what the names of its checkpoints have in common
    step: int


def training_step(name: str) -> TrainingStep | None:
    """The training and the step that a name names; None for the name of no checkpoint.

    runs/a/checkpoint-100: step 100 of runs/a. org/pythia-step_2000: step 2000 of org/pythia.
    """
    folder, slash, last = name.rstrip("/").rpartition("/")
    match = _STEP.fullmatch(last)
    if match is None:
        return None
    own = f"{match['before']}{match['after']}".strip("-_. ")
    return TrainingStep(f"{folder}{slash if own else ''}{own}" or ".", int(match["step"]))


def training_steps(names: Iterable[str]) -> dict[str, TrainingStep]:
    """The checkpoints among models, of trainings that two or more of them belong to."""
    known = {name: step for name in names if (step := training_step(name)) is not None}
    sizes = Counter(step.run for step in known.values())
    return {name: step for name, step in known.items() if sizes[step.run] > 1}
