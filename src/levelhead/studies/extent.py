"""How much an audit asks: its settings, the presets, and the data that follow from them for a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from levelhead.errors import BadOption
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.nli import ability_pairs, nli_probe
from levelhead.probes.sentences import fluency_sentences, fluency_text
from levelhead.probes.triples import load_triples
from levelhead.probes.words import Words, load_words
from levelhead.results.presets import BENCHMARK_ITEMS, AuditSizes, audit_preset, check_null
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.questions import BenchmarkFiles, benchmark_questions
from levelhead.scoring.changes import main_bias
from levelhead.scoring.registry import Question
from levelhead.scoring.word_table import word_table
from levelhead.studies.counteracts import CounteractsSettings
from levelhead.studies.glue import GlueSettings
from levelhead.studies.halves import Halves, halves, one_of
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings

HUGE_PARAMETERS = 200_000_000
MANY_PARAMETERS = 50_000_000  # an audit of a larger model asks less, and says so


@dataclass(frozen=True)
class AuditSettings:
    """What is asked of a model, and how much of it.

    bias: a word list by its name or path, or in memory
    nli: an NLI classifier fine-tuned from the model, or its name
    top: how many of the most biased heads are removed
    full: ask everything: hours instead of minutes
    null: null models (vocabulary-permuted twins); None: as the sizes say; 0: none
    text: for fluency: a .txt or .jsonl file, a folder, hub:NAME; None: ours
    seed: of every draw
    glue: which GLUE tasks are trained, to see what every mitigation costs; None: none
    sizes: how much each study asks; None: a preset, by full, quick and the model's size
    quick: a first look alone: few contexts and null models, wide intervals, no change is tried
    per_word: contexts per word, for SEAT; None: as the sizes say
    benchmarks: published benchmarks that are asked too: the file of each, by its name
    """

    bias: Words = "gender"
    nli: str | Model | None = None
    top: int = 3
    full: bool = False
    null: int | None = None
    text: str | None = None
    seed: int = 0
    glue: GlueSettings | None = None
    sizes: AuditSizes | None = None
    quick: bool = False
    per_word: int | None = None
    benchmarks: BenchmarkFiles = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.full and self.quick:
            raise BadOption("full and quick came; an audit asks everything or little. Leave one of them out.")
        if self.null is not None:
            check_null(self.null)
        if self.top < 1:
            raise BadOption(f"top={self.top} came; at least 1 head is closed.")
        if self.glue is not None:
            self.glue.chosen()  # a task that is not there is said before anything is asked
        sizes = self.sizes
        if sizes is not None and min(sizes.triples, sizes.sentences, sizes.screen_every) < 1:
            given = f"triples={sizes.triples}, sentences={sizes.sentences}, screen_every={sizes.screen_every}"
            raise BadOption(f"{given} came; one of so many is asked, so each needs at least 1.")


@dataclass(frozen=True)
class Extent:
    """What an audit of one model asks, in its sizes."""

    settings: AuditSettings
    model: Model

    @cached_property
    def _parameters(self) -> int:
        return int(sum(p.numel() for p in self.model.hf.parameters()))

    @property
    def large(self) -> bool:
        """Whether the model is so large that an audit asks less, unless it is a full one."""
        return self._parameters > MANY_PARAMETERS

    @property
    def huge(self) -> bool:
        """Whether it is so large that a CPU needs still less to end in about half an hour."""
        return self._parameters > HUGE_PARAMETERS and self.model.device.type == "cpu"

    @property
    def first_look(self) -> AuditSettings | None:
        """What is asked first, for an answer within a minute; None where the whole is soon there.

        On a card the whole audit takes about as long; sizes of one's own are asked as they are.
        """
        settings = self.settings
        if settings.quick or settings.sizes is not None or self.model.device.type != "cpu":
            return None
        most = audit_preset(full=False, quick=True, large=self.large).null
        null = None if settings.null is None else min(settings.null, most)
        small = replace(settings, full=False, quick=True, glue=None, per_word=None, null=null)
        return replace(small, benchmarks={})

    @cached_property
    def benchmarks(self) -> tuple[Question, ...]:
        """Published benchmarks that are asked too."""
        settings = self.settings
        return benchmark_questions(settings.benchmarks, None if settings.full else BENCHMARK_ITEMS)

    @property
    def sizes(self) -> AuditSizes:
        """The sizes that are asked: given ones, else a preset."""
        settings = self.settings
        sizes = settings.sizes or audit_preset(settings.full, settings.quick, self.large, self.huge)
        if settings.per_word is not None:
            sizes = replace(sizes, contexts=settings.per_word)
        return sizes if settings.null is None else sizes.with_null(settings.null)

    @property
    def heads(self) -> HeadsSettings:
        """The heads study; removing every head alone, the longest part, is left to the full audit."""
        few, own = self.sizes.score_contexts, HeadsSettings(self.settings.bias, per_word=self.sizes.contexts)
        if few is not None:
            few = max(few, own.score_contexts_per_word(load_words(self.settings.bias)))
        return replace(
            own,
            experiments=self.sizes.experiments,
            score_contexts=few,
            n_sentences=self.sizes.counter_sentences,
            text=self.settings.text,
            resamples=self.sizes.resamples,
            null=self.sizes.null,
            scored_twins=self.sizes.scored_heads,
            splits=self.sizes.splits,
            seed=self.settings.seed,
        )

    @property
    def prompts(self) -> CounteractsSettings:
        """CounterActs."""
        return CounteractsSettings(
            seed=self.settings.seed,
            per_background=self.sizes.backgrounds,
            null=self.sizes.asked_prompts,
        )

    def battery(self) -> Battery:
        """The data of all built-in questions."""
        words = prepare(self.model, self.heads)
        return Battery(
            words.test,
            tuple(words.table.contexts),
            triples=load_triples().every(self.sizes.triples),
            probe=nli_probe(limit=self.sizes.occupations),
            ability=ability_pairs(limit=self.sizes.abilities),
            sentences=fluency_text(self.settings.text, len(fluency_sentences()))[:: self.sizes.sentences],
            resampling=Resampling(self.sizes.resamples, self.settings.seed, items=True),
            null=self.sizes.asked_triples,
        )

    def halves(self, battery: Battery) -> Halves:
        """What projections are chosen on, and what ways out are verified on: no item is in both.

        Where changes are judged by SEAT itself, they are verified on all contexts.
        """
        parts = halves(battery, self.settings.seed, self.sizes.screen)
        by_seat = main_bias(self.model, battery.test) == "seat"
        looked_at = one_of(parts.choose, self.sizes.screen_every)
        return replace(
            parts,
            choose=_in_few_contexts(looked_at, self.sizes.screen_contexts),
            report=_in_few_contexts(parts.report, None if by_seat else self.sizes.verify_contexts),
        )

    def starts(self, model: Model) -> int:
        """From how many layers token projections are tried beside the paper's settings."""
        if self.sizes.starts is None:
            return model.layers
        by_strength = main_bias(model, load_words(self.settings.bias)) == "strength"
        return 0 if by_strength else min(self.sizes.starts, model.layers)


def _in_few_contexts(battery: Battery, most: int | None) -> Battery:
    """A battery with at most so many contexts of each word; None: with all of them."""
    if most is None:
        return battery
    return replace(battery, contexts=word_table(battery.test, battery.contexts).first_contexts(most).contexts)
