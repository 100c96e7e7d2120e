"""Settings of the heads study, of its debias experiment, and of the search for gates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from levelhead.errors import BadOption
from levelhead.options import (
    Settings,
    bias,
    fluency_text,
    null_models,
    option,
    options,
    per_word,
    resamples,
    seed,
    stereotype_sentences,
)
from levelhead.probes.contexts import TEMPLATES
from levelhead.probes.words import Words, WordTest
from levelhead.runs.presets import ASSOCIATION, EXPERIMENTS
from levelhead.runs.study import Stored

FROM_TEMPLATES = "templates"  # the source of contexts that needs no corpus
CORPUS_PER_WORD = 20
TEMPLATE_CONTEXTS = 1_300  # of scores, in all: what keeps every experiment on a small model within minutes
# what a map of one objective takes
_OF_AN_OBJECTIVE = ("objective", "data", "localizer", "bias", "null", "seed")


@dataclass(frozen=True)
class HeadsSettings(Settings):
    """What a model is evaluated on: the study of |SEAT|, or the map of one objective."""

    bias: Words = bias()
    contexts: str = option(
        FROM_TEMPLATES, "templates, a .txt or .jsonl file, a folder, or hub:NAME.", kind="corpus"
    )
    experiments: tuple[str, ...] = option(
        ("scores", "ablation", "counter"),
        "Of scores, ablation, counter, debias; or association, which scores no head; separated by commas.",
        choices=(*EXPERIMENTS, ASSOCIATION),
    )
    per_word: int | None = per_word()
    sentences: str | None = stereotype_sentences(needs="experiments=counter")
    n_sentences: int = option(
        500, "How many of them are taken at most.", least=1, needs="experiments=counter"
    )
    top: int = option(
        3, "How many of the most biased heads are ablated.", least=1, needs="experiments=debias"
    )
    text: str | None = fluency_text(needs="experiments=debias")
    trim: bool = option(False, "Cut X and Y to equal size.")
    resamples: int = resamples()
    null: int = null_models(19)
    splits: int = option(
        2,
        "How often the words are split into halves, to choose heads on one and test them on the other.",
        least=0,
    )
    seed: int = seed()
    score_contexts: int | None = option(
        None,
        "Contexts per word for scores and ablation. Default: 2 to 16 templates, all of a corpus.",
        least=1,
    )
    scored_nulls: int | None = option(
        None, "Null models whose heads are scored, at most. Default: all.", null_models="0 or at least 2"
    )
    objective: str | None = option(
        None,
        "Map the heads behind this instead: log-odds, crows-pairs, one of your own ... (atlas).",
        kind="objective",
    )
    data: str | None = option(
        None, "The benchmark's published file.", needs="objective", metavar="FILE", kind="file"
    )
    localizer: str | None = option(
        None, "gradient, ablation, or one of your own.", needs="objective", kind="localizer"
    )

    def check(self) -> None:
        if not self.experiments:
            raise BadOption(f"experiments must be of {', '.join((*EXPERIMENTS, ASSOCIATION))} (got none)")
        if self.objective is not None:
            usual = {name: each.default for name, each in options(type(self)).items()}
            idle = [
                n for n, value in usual.items() if n not in _OF_AN_OBJECTIVE and getattr(self, n) != value
            ]
            if idle:
                raise BadOption(
                    f"{', '.join(idle)} would change nothing with objective: that maps heads for one "
                    "objective. Leave one of them out."
                )

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


@dataclass(frozen=True, kw_only=True)
class HeadsStored(Stored, HeadsSettings):
    """The settings as a run stores them."""

    bias: str = "gender"
    layers: int
    heads: int
    all_score_contexts: int | None = None  # per word, that scores were taken on


@dataclass(frozen=True)
class LearnSettings(Settings):
    """How gates are learned."""

    bounds: tuple[float, ...] = option(
        (1.02, 1.05, 1.1, 1.2), "Factors that perplexity may grow by.", least=1
    )
    steps: int = option(3, "For each bound.", least=1)
    words: int = option(250, "At most, of each of A, B, X, Y.", least=2)
    contexts: int = option(1, "Of each word.", least=1)
    blanks: int = option(120, "Tokens that stand for fluency.", least=1)
    radius: float = option(0.5, "How far a step may go.", above=0)
    seed: int = seed()

    def check(self) -> None:
        if not self.bounds or list(self.bounds) != sorted(self.bounds):
            raise BadOption(f"bounds must be factors of 1 or more, in rising order (got {self.bounds})")


@dataclass(frozen=True)
class DebiasSettings(Settings):
    """What is tried, and how carefully it is measured."""

    k: int = option(3, "How many of the most biased heads are ablated.", least=0)
    ks: tuple[int, ...] | None = option(None, "Of the sweep. Default: up to every head with b > 0.", least=0)
    seeds: int = option(20, "Random triples of heads whose SEAT is measured.", least=1)
    costly_seeds: int = option(5, "Of them: random-all, and the LPBS and fluency of both.", least=1)
    amplify: float = option(2.0, "The gate of amplify-bottom-k; 2 doubles a head.", least=0)
    text: str | None = option(None, "For fluency.")
    sentences: int | None = option(60, "Sentences of it. None: all.", least=2)
    learn: LearnSettings | None = field(default_factory=LearnSettings)  # None: nothing is learned
    resamples: int = resamples()
    seed: int = seed()

    def check(self) -> None:
        if not math.isfinite(self.amplify):
            raise BadOption(f"amplify must be a number (got {self.amplify})")
