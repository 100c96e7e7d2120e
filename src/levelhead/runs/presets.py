"""How much is evaluated by default: sizes of audits and surveys, and of studies that follow a paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from levelhead.measures.measurement import ENOUGH_PLANNED
from levelhead.runs.records import Record

EXPERIMENTS = ("scores", "ablation", "counter", "debias")  # of the heads study
ASSOCIATION = "association"  # in their place: SEAT alone, no head is scored
GLUE_ROWS = 1000  # of each GLUE task, to train on inside an audit


@dataclass(frozen=True)
class AuditSizes(Record):
    """How much an audit evaluates; by default as of a small model.

    experiments: of the heads study
    contexts: per word, for SEAT; None: all templates
    score_contexts: at least so many for scores of heads; None: as many as the heads study takes
    splits: how often the words are split into halves, to choose heads on one and judge them on the other
    counter_sentences: at most so many sentences of the counter experiment
    triples: one of so many is evaluated
    occupations: occupations and contexts of inferences; None: all
    abilities: ordinary inferences; None: all
    sentences: of the text for fluency, one of so many is evaluated
    backgrounds: per CounterActs occupation; None: as the prompts say; 0: no knowledge at all
    null: how many null models (vocabulary-permuted copies)
    head_nulls: the heads of so many of them are scored and cross-fitted, at most; 0: heads are not tested,
        since fewer than 9 null models could not answer
    triple_nulls: so many of them answer all triples, at most: Student's p needs no more
    prompt_nulls: so many of them answer CounterActs' prompts, at most
    resamples: of every interval: so many that its bounds do not hang on the seed
    """

    experiments: tuple[str, ...] = ("scores", "counter")
    contexts: int | None = 6
    score_contexts: int | None = 3
    splits: int = 1
    counter_sentences: int = 500
    triples: int = 1
    occupations: tuple[int, int] | None = (41, 8)
    abilities: int | None = None
    sentences: int = 3
    backgrounds: int | None = 3
    null: int = 19
    head_nulls: int = 0
    triple_nulls: int = 9
    prompt_nulls: int = 9
    resamples: int = 10_000

    def with_null(self, number: int) -> AuditSizes:
        """So many null models for the association, and for every other measure that is compared with any; for
        heads where so many can answer."""
        return replace(
            self,
            null=number,
            head_nulls=number if number >= ENOUGH_PLANNED else 0,
            triple_nulls=number if self.triple_nulls else 0,
            prompt_nulls=number if self.prompt_nulls else 0,
        )

    @property
    def scored_heads(self) -> int:
        """Null models whose heads are scored, at most."""
        return min(self.head_nulls, self.null)


SMALL = AuditSizes()
LARGE = AuditSizes(score_contexts=None, counter_sentences=100, triples=2, backgrounds=1, null=9)
HUGE = replace(  # on a CPU: LARGE with its heads tested took an hour and a half, this a third of its tokens
    LARGE,
    contexts=3,
    splits=0,  # heads are scored, but none is claimed: that takes a pass back over every null model
    triples=6,
    backgrounds=0,
).with_null(5)
FULL = AuditSizes(
    experiments=EXPERIMENTS,
    contexts=None,
    score_contexts=8,
    splits=2,
    occupations=None,
    sentences=1,
    backgrounds=None,
    null=199,
    head_nulls=199,
    triple_nulls=39,
)
QUICK = AuditSizes(  # the first look
    experiments=(ASSOCIATION,),
    contexts=2,
    score_contexts=None,
    splits=0,
    counter_sentences=1,
    triples=4,
    occupations=(12, 4),
    abilities=100,
    sentences=15,  # of the whole audit's: every fifth
    backgrounds=0,
    prompt_nulls=0,
    resamples=2_000,
).with_null(5)
QUICK_LARGE = replace(QUICK, contexts=1, triples=24, triple_nulls=0).with_null(3)  # 8 triples show nothing
SURVEY = AuditSizes(  # a survey can get more models later, so its sizes stay as they are
    contexts=None,
    score_contexts=None,
    splits=2,
    sentences=2,
    backgrounds=None,
    null=0,
    head_nulls=5,
    triple_nulls=39,
)
QUICK_SURVEY = replace(
    SURVEY, contexts=2, triples=4, occupations=(12, 4), abilities=100, sentences=8, resamples=2_000
)
QUICK_CONTEXTS = 2  # per word, of a quick SEAT
QUICK_TRIPLES = 40  # of quick next sentences


def audit_preset(full: bool, quick: bool, large: bool, huge: bool = False) -> AuditSizes:
    """The sizes of an audit. quick: a first look alone; large: of a large model, which is evaluated on less;
    huge: on still less, so that a CPU ends in about half an hour."""
    if quick:
        return QUICK_LARGE if large else QUICK
    return FULL if full else HUGE if huge else LARGE if large else SMALL


# ---- studies that follow a paper: the papers have no null models and no cross-fitting

_PAPER = ("scores", "counter", "debias")
PAPER_HEADS: Mapping[str, object] = {"experiments": _PAPER, "null": 0, "splits": 0}
QUICK_PAPER_HEADS: Mapping[str, object] = {**PAPER_HEADS, "per_word": 1, "n_sentences": 60, "resamples": 300}
QUICK_PAPER_PROBE = (41, 8)  # occupations and contexts

BENCHMARK_ITEMS = 300  # of each benchmark, in audits that are not full and in surveys
BENCHMARK_NULLS = 5  # at most, where nobody says how many; Student's p needs no more than a few
