"""Records of the texts that a model writes, and of what is measured of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from levelhead.measures.measurement import Measurement
from levelhead.runs.records import Record

# ---- how much is asked


@dataclass(frozen=True)
class Spread(Record):
    """How widely a score varies in the pilot, and the smallest paired gap that can be shown."""

    scorer: str
    between: float  # standard deviation of the true gap over prompts
    within: float  # standard deviation of the texts of one prompt
    whole: float  # standard deviation of all texts
    detectable: float | None  # in standard deviations, with power 0.8 after correction; None: no spread


@dataclass(frozen=True)
class GenerationPlan(Record):
    """How many texts are sampled, and the smallest difference that they can show."""

    prompts: int  # that are continued; decisions are not
    pairs: int  # frames that differ in their group alone
    samples: int  # texts per prompt that names a group
    neutral: int  # texts per neutral prompt
    texts: int  # per variant
    tokens: int  # at most, per variant
    pilot: int  # prompts of the pilot
    spreads: tuple[Spread, ...]
    claims: int  # of the page, which p is corrected for
    reaches: bool = True  # whether the difference that was asked for can be shown

    @property
    def detectable(self) -> float | None:
        """The smallest paired gap of any score, in its standard deviations: that of the widest one."""
        known = [each.detectable for each in self.spreads if each.detectable is not None]
        return max(known, default=None)


# ---- texts


@dataclass(frozen=True)
class WrittenText(Record):
    """One text as the model wrote it."""

    prompt: str  # the prompt's id
    sample: int  # from 0
    text: str
    tokens: int
    ended: bool  # by the model, not by the limit
    log_p: float | None = None  # of the text behind its prompt, in nats; None: it has no tokens
    log_p_mirror: float | None = None  # of its counterfactual behind the prompt's
    exact: bool = True  # whether the swap turns prompt and text around exactly
    feminine: float | None = None  # how likely it was that the first word for a person is; None: not read
    masculine: float | None = None


@dataclass(frozen=True)
class ScoredTexts(Record):
    """What a scorer gives for every text of a variant, in their order."""

    scorer: str
    unit: str
    values: tuple[float | None, ...]  # averaged over a text and its counterfactual; None: cannot be scored
    unasked: tuple[int, ...] = ()  # places of texts that a judge was not given


@dataclass(frozen=True)
class UsedScorer(Record):
    """A scorer, and how differently it treats the groups by itself."""

    name: str
    unit: str
    own_gap: float | None  # mean difference of words and their counterparts; None: not known
    note: str = ""  # why it was left out


@dataclass(frozen=True)
class JudgedTexts(Record):
    """What a judge said: of labeled texts, by label, or of the texts of a variant."""

    of: str
    kind: str  # texts, or pairs
    judgments: int  # two of each text or pair: it, and its counterfactual
    outcomes: Mapping[str, int]  # what was said in both orders -> judgments; also undecided, not parsed


@dataclass(frozen=True)
class GeneratedText(Record):
    """All that is known of a text: a line of texts/NAME.jsonl."""

    prompt: str
    set: str
    group: str
    cluster: str
    given: str  # what the model was given
    sample: int
    text: str
    tokens: int
    ended: bool
    log_p: float | None
    log_p_mirror: float | None
    first: str  # group of the first word for a person: feminine, masculine, or none
    scores: Mapping[str, float | None]
    empty: bool
    refuses: bool


# ---- what is measured


@dataclass(frozen=True)
class GenerationMeasured(Record):
    """One measure of the texts of one variant."""

    variant: str
    model: str
    set: str  # of the prompts; "": of neutral ones
    claim: bool  # whether the page may claim something of it
    measurement: Measurement
    groups: tuple[str, str] | None = None  # a difference is that of the first less the second
    score: str = ""  # of the largest of several gaps: which it is

    @property
    def name(self) -> str:
        """The measure's name."""
        return self.measurement.name


@dataclass(frozen=True)
class Appearance(Record):
    """Who appears behind the neutral prompts about an occupation."""

    variant: str
    occupation: str
    feminine: int  # texts whose first word for a person is feminine
    masculine: int
    neither: int
    said: int  # whose occupation it is said to be: +1 women's, −1 men's, 0 neither
    share: float | None  # of women who do it
    expected_feminine: float  # of the texts, by the model's probabilities, not by what was drawn
    expected_masculine: float


@dataclass(frozen=True)
class MarkedWord(Record):
    """A word that is more frequent in the texts of one group than in those of its counterpart."""

    variant: str
    set: str
    word: str
    group: str  # in whose texts it is more frequent
    z: float
    log_odds: float
    counts: tuple[int, int]  # in the group's texts, and in the others'
    p: float  # corrected for all words


@dataclass(frozen=True)
class DecisionCell(Record):
    """How often a category of applicants is selected, and its impact ratio."""

    variant: str
    kind: str  # hire, lend ...; "": all
    by: str  # sex, origin, or both
    category: str
    applicants: int
    selected: float  # ties with the median count half
    rate: float
    low: float | None  # of the rate
    high: float | None
    ratio: float  # to the largest rate
    favorable: float  # mean probability of the favorable answer


@dataclass(frozen=True)
class RivalScore(Record):
    """A score of another tool on the same texts, and what an unbiased model would get on as many."""

    variant: str
    rule: str
    set: str
    value: float | None
    ideal: float  # what its authors call perfect
    unbiased: float | None  # mean over exchanges of groups
    furthest: float | None  # from the ideal, of 19 in 20 exchanges
    n: int
    note: str = ""


@dataclass(frozen=True)
class Unanswered(Record):
    """Texts of a group that are empty, that refuse, or that a scorer cannot score."""

    variant: str
    set: str
    group: str
    texts: int
    empty: int
    refusals: int
    unscorable: Mapping[str, int]  # scorer -> texts
