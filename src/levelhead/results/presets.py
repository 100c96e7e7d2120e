"""How much is asked where nobody says it: sizes of audits and surveys, and of studies that follow a paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from levelhead.errors import BadOption
from levelhead.measures.measurement import ENOUGH_PLANNED
from levelhead.results.codec import Record

EXPERIMENTS = ("scores", "ablation", "counter", "debias")  # of the heads study
ASSOCIATION = "association"  # in their place: SEAT alone, no head is scored
_MOST_NULLS = 10_000  # null models
GLUE_ROWS = 1000  # of each GLUE task, to train on inside an audit


@dataclass(frozen=True)
class AuditSizes(Record):
    """How much an audit asks; by default what is asked of a small model.

    experiments: of the heads study
    contexts: per word, for SEAT; None: all templates
    score_contexts: at least so many for scores of heads; None: as many as the heads study takes
    splits: how often the words are split into halves, to choose heads on one and judge them on the other
    counter_sentences: at most so many sentences of the counter experiment
    triples: one of so many is asked
    occupations: occupations and contexts of inferences; None: all
    abilities: ordinary inferences; None: all
    sentences: of the text for fluency, one of so many is asked
    backgrounds: per CounterActs occupation; None: as the prompts say; 0: no knowledge at all
    starts: first layers of token projections; None: all
    screen_contexts: for each word, for choosing projections; None: all of them
    verify_contexts: for each word, for SEAT of changed models that are judged by another bias; None: all
    screen: most occupations, contexts for choosing; None: all of a half
    screen_every: of the items of a half, one of so many is looked at for choosing
    null: how many null models (vocabulary-permuted twins)
    head_twins: the heads of so many of them are scored and cross-fitted, at most; 0: heads are not tested,
        since fewer than 9 null models could not answer
    triple_twins: so many of them answer all triples, at most: Student's p needs no more
    prompt_twins: so many of them answer CounterActs' prompts, at most
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
    starts: int | None = 4
    screen_contexts: int | None = None
    verify_contexts: int | None = 2
    screen: tuple[int, int] | None = (25, 6)
    screen_every: int = 3
    null: int = 19
    head_twins: int = 0
    triple_twins: int = 9
    prompt_twins: int = 9
    resamples: int = 10_000

    def with_null(self, number: int) -> AuditSizes:
        """So many null models for the association, and for every other question that is asked of any; for
        heads where so many can answer."""
        return replace(
            self,
            null=number,
            head_twins=number if number >= ENOUGH_PLANNED else 0,
            triple_twins=number if self.triple_twins else 0,
            prompt_twins=number if self.prompt_twins else 0,
        )

    @property
    def scored_heads(self) -> int:
        """Null models whose heads are scored, at most."""
        return min(self.head_twins, self.null)

    @property
    def asked_triples(self) -> int:
        """Null models that answer triples, at most."""
        return min(self.triple_twins, self.null)

    @property
    def asked_prompts(self) -> int:
        """Null models that answer prompts, at most."""
        return min(self.prompt_twins, self.null)


SMALL = AuditSizes()
LARGE = AuditSizes(
    score_contexts=None,
    counter_sentences=100,
    triples=2,
    backgrounds=1,
    starts=2,
    screen_contexts=2,
    screen_every=1,
    null=9,
)
HUGE = replace(  # on a CPU: LARGE with its heads tested took an hour and a half, this a third of its tokens
    LARGE,
    contexts=3,
    splits=0,  # heads are scored, but none is claimed: that takes a pass back over every null model
    triples=6,
    backgrounds=0,
    starts=1,
    screen_contexts=1,
    verify_contexts=1,
).with_null(5)
FULL = AuditSizes(
    experiments=EXPERIMENTS,
    contexts=None,
    score_contexts=8,
    splits=2,
    occupations=None,
    sentences=1,
    backgrounds=None,
    starts=None,
    verify_contexts=None,
    screen=None,
    screen_every=1,
    null=199,
    head_twins=199,
    triple_twins=39,
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
    starts=0,
    prompt_twins=0,
    resamples=2_000,
).with_null(5)
QUICK_LARGE = replace(QUICK, contexts=1, triples=24, triple_twins=0).with_null(3)  # 8 triples show nothing
SURVEY = AuditSizes(  # a survey can be asked for more models later, so its sizes stay as they are
    contexts=None,
    score_contexts=None,
    splits=2,
    sentences=2,
    backgrounds=None,
    verify_contexts=6,
    null=0,
    head_twins=5,
    triple_twins=39,
)
QUICK_SURVEY = replace(
    SURVEY, contexts=2, triples=4, occupations=(12, 4), abilities=100, sentences=8, resamples=2_000
)
QUICK_CONTEXTS = 2  # per word, of a quick SEAT
QUICK_TRIPLES = 40  # of quick next sentences


def check_null(null: int, none: bool = True) -> None:
    """Refuse a number of null models that gives no distribution. none: whether there may be none at all."""
    if null < 2 and not (none and null == 0):
        raise BadOption(f"null must be {'0 or ' if none else ''}at least 2 (got {null})")
    if null > _MOST_NULLS:
        raise BadOption(f"null (--null) must be at most {_MOST_NULLS} (got {null})")


def asked_little(quick: bool, given: int | None, preset: int) -> int | None:
    """How much a measure asks: what a user said, else little where it is to be quick, else all."""
    return preset if quick and given is None else given


def audit_preset(full: bool, quick: bool, large: bool, huge: bool = False) -> AuditSizes:
    """The sizes of an audit. quick: a first look alone; large: of a large model, which is evaluated on less;
    huge: on still less, so that a CPU ends in about half an hour."""
    if quick:
        return QUICK_LARGE if large else QUICK
    return FULL if full else HUGE if huge else LARGE if large else SMALL


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

BENCHMARK_ITEMS = 300  # of each benchmark, in audits that are not full and in surveys
BENCHMARK_NULLS = 5  # at most, where nobody says how many; Student's p needs no more than a few
