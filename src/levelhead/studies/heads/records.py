"""Records of the heads study: words, scores, removals, the counter-stereotype experiment, attention arcs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from levelhead.measures.certificate import LEVEL
from levelhead.measures.measurement import ContrastPart, HeadSet, Measurement
from levelhead.runs.records import Record, StoredHead

HeadGroup = Literal["biased", "regular"]  # b > 0, and the others
Version = Literal["original", "counter"]
HEAD_AGREEMENT = "agreement of heads"  # measurements of cross-fitting
CHANGE_ON_OTHER_WORDS = "change on other words"
LARGEST_HELD = "largest held score"
IN_COMMON, OF_HIGHEST = "highest in common", "of so many"  # heads, by two sources of contexts
CROSS_FITTED = (HEAD_AGREEMENT, CHANGE_ON_OTHER_WORDS, LARGEST_HELD)


@dataclass(frozen=True)
class WordsUsed(Record):
    """What a heads run was measured on."""

    test: str  # the word list's name
    labels: tuple[str, str, str, str]  # of A, B, X, Y
    sizes: Mapping[str, int]  # of A, B, X, Y
    words: int  # that have contexts
    contexts: int
    missing: tuple[str, ...]  # listed words without a context
    skipped: Mapping[str, int]  # reason -> sentences or contexts that are not used


@dataclass(frozen=True)
class SeatRow(Record):
    """SEAT of some of a list's words, with what null models show of the same words."""

    name: str  # "all words", "matched by tokens", "one token", or a kind of targets
    kind: Literal["tokens", "part"]
    words: int  # distinct words that have contexts
    sizes: Mapping[str, int]  # entries of A, B, X, Y
    sound: bool  # the first by tokens that null models have around 0: it can be read as it is
    why: str  # this row is sound; "" for the others
    measurement: Measurement


@dataclass(frozen=True)
class HeadScore(Record):
    """The bias score b of one head, what of it holds on other words, and its place among all heads."""

    head: StoredHead
    score: float
    stderr: float | None  # over the contexts of these words: other words move a score farther
    held: float | None  # what two halves of the words both say; None where there are no halves
    p: float | None  # of |held| against null models, corrected for the number of heads, or of exchanged words
    rank: int  # 1: the most biased
    objective: float  # |SEAT| at which the slope was taken

    @property
    def clear(self) -> bool:
        """Whether the score holds on other words, farther than any head's does in null models."""
        return self.p is not None and self.p <= LEVEL

    @property
    def biased(self) -> bool:
        """Whether the head adds to the bias."""
        return self.score > 0


@dataclass(frozen=True)
class CrossFit(Record):
    """Heads chosen on one half of the words and judged on the other, both ways round."""

    null_model: int | None  # the number of a null model; None: the model itself
    split: int
    rho: float  # of the scores of the two halves
    # change of |SEAT| on the half that the heads were chosen on; not measured of null models
    chosen: float | None
    # change of |SEAT| on the other half; not measured of null models once its verdict is closed
    other: float | None
    halves: tuple[tuple[tuple[float, ...], ...], ...]  # scores, [half][layer][head]


@dataclass(frozen=True)
class Removal(Record):
    """What |SEAT| does when one head is removed."""

    head: StoredHead
    abs_seat: float
    change: float


@dataclass(frozen=True)
class CounterTest(Record):
    """The counter-stereotype test of one group of heads, over all sentences or over one side's originals."""

    group: HeadGroup
    side: Literal["", "A", "B"]  # "": all sentences
    measurement: Measurement


@dataclass(frozen=True)
class CounterContrast(Record):
    """What a set of heads shows in the counter-stereotype experiment, tested by cluster.

    The whole of biased − regular heads is the experiment's main number.
    """

    heads: HeadSet
    part: ContrastPart  # the whole change, what the stereotype does, or looking at one group's words
    measurement: Measurement


@dataclass(frozen=True)
class CounterHead(Record):
    """The counter-stereotype test of one head."""

    head: StoredHead
    difference: float | None
    t: float | None
    p: float | None
    q: float | None
    n: int


@dataclass(frozen=True)
class AttentionExample(Record):
    """Normalized attention from the target word in one head and one version of the running example."""

    group: HeadGroup
    version: Version
    head: StoredHead
    attention: float | None  # to the attribute word
    tokens: tuple[str, ...]
    weights: tuple[float | None, ...]  # [token]; None: not counted
    target: tuple[int, ...]  # positions
    attribute: tuple[int, ...]


@dataclass(frozen=True)
class ArcVersion(Record):
    """One sentence with every head's attention from its target word."""

    tokens: tuple[str, ...]
    target: tuple[int, ...]
    attribute: tuple[int, ...]
    # [layer][head][token]; None: not counted
    attention: tuple[tuple[tuple[float | None, ...] | None, ...], ...]


@dataclass(frozen=True)
class ArcPair(Record):
    """A stereotype, and its counter-stereotype."""

    text: str
    counter_text: str
    original: ArcVersion
    counter: ArcVersion


@dataclass(frozen=True)
class ArcSheet(Record):
    """The sentence pairs whose attention a report shows."""

    pairs: tuple[ArcPair, ...]


# ---- files


@dataclass(frozen=True)
class ScoreLine(Record):
    """A line of head_scores.csv; layer and head count from 1."""

    layer: int
    head: int
    score: float
    stderr: float | None  # over the contexts of these words
    held: float | None
    p: float | None  # corrected for the number of heads
    clear: bool


@dataclass(frozen=True)
class WordList(Record):
    """The word list of a run, as words.json keeps it."""

    name: str
    labels: Mapping[str, str]  # A, B, X, Y -> what the set is
    A: tuple[str, ...]
    B: tuple[str, ...]
    X: tuple[str, ...]
    Y: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # kinds of targets
    axis: str = ""  # what A and B differ in, as declared or by the words
    not_covered: str = ""  # who and what the list says nothing about, in its author's words


@dataclass(frozen=True)
class SentenceLine(Record):
    """A line of sentences.jsonl: a stereotype and its counter-stereotype."""

    text: str
    counter: str
    target: str
    attribute: str
    group: str


# ---- targeted debiasing


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
