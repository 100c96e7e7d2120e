"""What a page is told: before anything is asked, about one state, and about what runs in the background."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.exploring.answers import Band, References, TextAnswer
from levelhead.exploring.background import Progress
from levelhead.exploring.benchmarks import BenchmarkShown
from levelhead.exploring.measured import Compared, Scores
from levelhead.exploring.presets import PresetShown
from levelhead.exploring.sentences import Pair, Stated, Twin
from levelhead.exploring.state import PageState
from levelhead.exploring.taken import Taken
from levelhead.exploring.why import Look, NeuronsWhy, Why
from levelhead.results.codec import Record


@dataclass(frozen=True)
class Facts(Record):
    """What a page says about the model before anything is asked."""

    model: str
    second: str
    layers: int
    heads: int
    bias: str
    pairs: tuple[Pair, ...]
    presets: tuple[PresetShown, ...]
    run: str
    benchmarks: tuple[BenchmarkShown, ...]
    no_neurons: str  # why neurons cannot be switched; empty where they can
    no_steering: str  # likewise
    fills_blanks: bool  # at a blank; else it says the next word
    symmetrizes: str  # why it cannot; empty where it can
    start: str  # the sentence of an empty page
    names: bool  # whether first names can be exchanged


@dataclass(frozen=True)
class Answer(Record):
    """What a page shows at once: both texts on every side, and what can be taken along."""

    state: PageState
    fragment: str
    sides: tuple[str, ...]
    changed: bool  # whether the second side is the changed model
    pair: Pair
    twin: Twin
    texts: tuple[TextAnswer, TextAnswer]
    stated: tuple[Stated | None, Stated | None]  # where a text states a group, its odds are agreement
    taken: Taken
    key: str  # of the change on the chosen benchmark, which its comparison carries too


@dataclass(frozen=True)
class Jobs(Record):
    """What is computed in the background: how far it is, and what it gave."""

    heads: Progress | None
    scores: Scores | None
    fitting: Progress | None
    benchmark: Progress | None
    compared: Compared | None


@dataclass(frozen=True)
class Bands(Record):
    """Null bands of the sentence, of the counterfactual, and of the first less the second; None where a text
    states a group: null models, in which no word has a meaning, agree with nothing."""

    bands: tuple[Band | None, Band | None, Band | None]


@dataclass(frozen=True)
class Beside(Record):
    """Other texts beside the sentence and its counterfactual; None where a text states a group, or names no
    occupation."""

    references: tuple[References | None, References | None]


@dataclass(frozen=True)
class Saved(Record):
    """All that a static page holds."""

    facts: Facts
    answer: Answer
    bands: Bands
    beside: Beside
    why: Why
    neurons: NeuronsWhy
    look: Look
    jobs: Jobs
