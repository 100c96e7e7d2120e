"""How much is asked where nobody says it: sizes of audits and surveys, and of studies that follow a paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from levelhead.results.codec import Record

EXPERIMENTS = ("scores", "ablation", "counter", "debias")  # of the heads study
GLUE_ROWS = 1000  # of each GLUE task, to train on inside an audit


@dataclass(frozen=True)
class AuditSizes(Record):
    """How much an audit asks; by default what is asked of a small model."""

    experiments: tuple[str, ...] = ("scores", "counter")  # of the heads study
    contexts: int | None = None  # for each word, for SEAT; None: all templates
    score_contexts: int | None = None  # for scores of heads; None: as many as the heads study takes
    splits: int = 2  # of the words into halves, to choose heads on one and judge them on the other
    counter_sentences: int = 500
    triples: int = 1  # one of so many is asked
    occupations: tuple[int, int] | None = (41, 8)  # and contexts of inferences; None: all
    abilities: int | None = None  # ordinary inferences; None: all
    sentences: int = 2  # of the text for fluency, one of so many is asked
    backgrounds: int | None = None  # of a CounterActs occupation; None: as the prompts say
    starts: int | None = 4  # first layers of token projections; None: all
    screen_contexts: int | None = None  # for each word, for choosing projections; None: all of them
    screen: tuple[int, int] | None = (25, 6)  # most occupations, contexts for choosing; None: all of a half
    null: int = 19  # twins of the model without meaning
    triple_twins: int = 39  # of them answer all triples, at most: Student's p needs no more
    prompt_twins: int = 9  # of them answer CounterActs' prompts, at most
    resamples: int = 10_000  # of every interval: so many that its bounds do not hang on the seed


SMALL = AuditSizes()
LARGE = AuditSizes(
    contexts=6,
    splits=1,
    counter_sentences=100,
    triples=4,
    sentences=3,
    backgrounds=1,
    starts=2,
    screen_contexts=2,
    null=5,
)
FULL = AuditSizes(
    experiments=EXPERIMENTS,
    score_contexts=8,
    occupations=None,
    sentences=1,
    starts=None,
    screen=None,
    null=199,
)
SURVEY = AuditSizes(null=0)  # what is asked of a small model
QUICK_SURVEY = AuditSizes(
    contexts=2, triples=4, occupations=(12, 4), abilities=100, sentences=8, null=0, resamples=2_000
)


def audit_preset(full: bool, less: bool) -> AuditSizes:
    """The sizes of an audit. less: of a large model, or because a quick audit was asked for."""
    return FULL if full else LARGE if less else SMALL


def survey_preset(quick: bool) -> AuditSizes:
    """The sizes of a survey."""
    return QUICK_SURVEY if quick else SURVEY


# ---- studies that follow a paper: the papers have no null models and no cross-fitting

PAPER_HEADS: Mapping[str, object] = {
    "experiments": ("scores", "counter", "debias"),
    "null": 0,
    "splits": 0,
}
QUICK_PAPER_HEADS: Mapping[str, object] = {
    **PAPER_HEADS,
    "per_word": 1,
    "n_sentences": 60,
    "resamples": 300,
}
QUICK_PAPER_PROBE = (41, 8)  # occupations and contexts
QUICK_PAPER_SWEEP: Mapping[str, object] = {"limit": QUICK_PAPER_PROBE, "resamples": 300}
