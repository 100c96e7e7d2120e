"""What can be asked of the heads study, of its debias experiment, and of the search for gates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from levelhead.errors import BadOption
from levelhead.measures.statistics import Resampling
from levelhead.probes.contexts import TEMPLATES
from levelhead.probes.words import Words, WordTest
from levelhead.results.presets import ASSOCIATION, EXPERIMENTS, check_null

FROM_TEMPLATES = "templates"  # the source of contexts that needs no corpus
CORPUS_PER_WORD = 20
TEMPLATE_CONTEXTS = (
    1_300  # of scores, in all, by default: what keeps every experiment on a small model within minutes
)


@dataclass(frozen=True)
class HeadsSettings:
    """What is asked of a model.

    bias: a shipped word list, a file, a folder of published lists, or lists in memory
    contexts: templates, a text file, a folder, hub:NAME
    experiments: of scores, ablation, counter, debias; or association, which scores no head
    per_word: contexts per word; by default all 16 templates, or 20 sentences of a corpus
    sentences: of the counter experiment: "shipped", a text file, a folder, hub:NAME
    n_sentences: how many sentences the counter experiment asks at most
    top: of the debias experiment: how many of the most biased heads are removed
    text: for fluency: a .txt or .jsonl file, a folder, hub:NAME; None: ours
    trim: cut X and Y to equal size
    resamples: bootstrap samples of every interval
    null: how many null models (vocabulary-permuted twins) are asked; 0: none
    scored_twins: the heads of so many of them are scored, at most; None: of all
    splits: how often the words are split into halves, to choose heads on one and judge them on the other
    seed: of every draw
    score_contexts: contexts per word, for scores and removals; by default 2 to 16 templates, or all
    """

    bias: Words = "gender"
    contexts: str = FROM_TEMPLATES
    experiments: tuple[str, ...] = ("scores", "ablation", "counter")
    per_word: int | None = None
    sentences: str | None = None
    n_sentences: int = 500
    top: int = 3
    text: str | None = None
    trim: bool = False
    resamples: int = 2_000
    null: int = 19
    splits: int = 2
    seed: int = 0
    score_contexts: int | None = None
    scored_twins: int | None = None

    def __post_init__(self) -> None:
        allowed = (*EXPERIMENTS, ASSOCIATION)
        unknown = [name for name in self.experiments if name not in allowed]
        if unknown or not self.experiments:
            raise BadOption(
                f"Experiments {', '.join(unknown) or 'none'} came; allowed are {', '.join(allowed)}."
            )
        contexts = [n for n in (self.per_word, self.score_contexts) if n is not None]
        if min(*contexts, self.n_sentences, self.top) < 1:
            values = f"per_word={self.per_word}, score_contexts={self.score_contexts}, "
            values += f"n_sentences={self.n_sentences}, top={self.top}"
            raise BadOption(f"{values} came; each needs at least 1.")
        check_null(self.null)
        if self.splits < 0:
            raise BadOption(f"splits={self.splits} came; give 0 or more.")
        if self.scored_twins is not None and (self.scored_twins < 0 or self.scored_twins == 1):
            raise BadOption(f"scored_twins={self.scored_twins} came; give 0, or at least 2 twins.")

    @property
    def contexts_per_word(self) -> int:
        """The largest number of contexts for each word, which SEAT is measured on."""
        if self.per_word is not None:
            return self.per_word
        return len(TEMPLATES) if self.contexts == FROM_TEMPLATES else CORPUS_PER_WORD

    def score_contexts_per_word(self, test: WordTest) -> int:
        """How many of them gradients, removals and debiasing take: short lists get more than long ones."""
        if self.score_contexts is not None or self.contexts != FROM_TEMPLATES:
            return min(self.score_contexts or self.contexts_per_word, self.contexts_per_word)
        words = len({word for words in test.groups().values() for word in words})
        return min(self.contexts_per_word, max(2, TEMPLATE_CONTEXTS // words))

    @property
    def resampling(self) -> Resampling:
        """How intervals are drawn."""
        return Resampling(self.resamples, self.seed)

    @property
    def debias(self) -> DebiasSettings:
        """The settings of the debias experiment that follow from these."""
        return DebiasSettings(k=self.top, text=self.text, resamples=self.resamples, seed=self.seed)


@dataclass(frozen=True)
class LearnSettings:
    """How gates are learned."""

    bounds: tuple[float, ...] = (1.02, 1.05, 1.1, 1.2)  # perplexity may grow by these factors
    steps: int = 3  # for each bound
    words: int = 250  # at most, of each of A, B, X, Y: all that ship
    contexts: int = 1  # of each word
    blanks: int = 120  # tokens that stand for fluency
    radius: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.bounds or list(self.bounds) != sorted(self.bounds) or self.bounds[0] < 1:
            raise BadOption(
                f"bounds {self.bounds} came; allowed are factors of 1 or more, in rising order: 1.02, 1.05."
            )
        if min(self.steps, self.words - 1, self.contexts, self.blanks) < 1 or self.radius <= 0:
            raise BadOption(
                f"steps={self.steps}, words={self.words}, contexts={self.contexts}, blanks={self.blanks}, "
                f"radius={self.radius} came; all must be above 0, and words at least 2."
            )


@dataclass(frozen=True)
class DebiasSettings:
    """What is tried, and how carefully it is measured."""

    k: int = 3
    ks: tuple[int, ...] | None = None  # of the sweep; by default up to every head with b > 0
    seeds: int = 20  # random triples whose SEAT is measured
    costly_seeds: int = 5  # of them: random-all, and the LPBS and fluency of both
    amplify: float = 2.0  # the gate of amplify-bottom-k
    text: str | None = None  # for fluency, as in HeadsSettings
    sentences: int | None = 60  # of it; None: all
    learn: LearnSettings | None = field(default_factory=LearnSettings)  # None: nothing is learned
    resamples: int = 2_000
    seed: int = 0

    def __post_init__(self) -> None:
        few_sentences = self.sentences is not None and self.sentences < 2
        if min(self.k, *(self.ks or ()), 0) < 0 or min(self.seeds, self.costly_seeds) < 1 or few_sentences:
            raise BadOption(
                f"k={self.k}, ks={self.ks}, seeds={self.seeds}, costly_seeds={self.costly_seeds}, "
                f"sentences={self.sentences} came; k needs 0 or more, seeds 1, sentences 2."
            )
        if not math.isfinite(self.amplify) or self.amplify < 0:
            raise BadOption(
                f"amplify={self.amplify} came; it is a gate: 1 changes nothing, 2 doubles a head."
            )

    @property
    def resampling(self) -> Resampling:
        """How intervals are drawn."""
        return Resampling(self.resamples, self.seed)
