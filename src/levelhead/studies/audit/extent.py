"""How much an audit evaluates: its settings, the presets, and the data that follow from them for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.nli import ability_pairs, nli_probe
from levelhead.probes.sentences import fluency_sentences, fluency_text
from levelhead.probes.triples import load_triples
from levelhead.probes.words import WordTest, load_words
from levelhead.runs.presets import BENCHMARK_ITEMS, AuditSizes, audit_preset
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.questions import benchmark_questions
from levelhead.scoring.registry import Question
from levelhead.scoring.writing import SHORT
from levelhead.studies.audit.settings import AuditSettings
from levelhead.studies.counteracts.settings import CounteractsSettings
from levelhead.studies.generate.settings import GenerateSettings
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings

HUGE_PARAMETERS = 200_000_000
_WRITTEN = ("occupations", "situations", "gender")  # prompts that a model continues
_CLUSTERS = 24  # of each set
MANY_PARAMETERS = 50_000_000  # an audit of a larger model asks less, and says so


@dataclass(frozen=True)
class Extent:
    """What an audit of one model evaluates, in its sizes."""

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
        """What is evaluated first, for an answer within a minute; None where the whole is soon there.

        On a card the whole audit takes about as long; sizes of one's own are taken as they are.
        """
        settings = self.settings
        if settings.quick or settings.sizes is not None or self.model.device.type != "cpu":
            return None
        most = audit_preset(full=False, quick=True, large=self.large).null
        null = None if settings.null is None else min(settings.null, most)
        small = replace(settings, full=False, quick=True, glue=None, per_word=None, null=null, generate=False)
        return replace(small, benchmarks={})

    @cached_property
    def benchmarks(self) -> tuple[Question, ...]:
        """Published benchmarks that are evaluated too."""
        settings = self.settings
        return benchmark_questions(settings.benchmarks, None if settings.full else BENCHMARK_ITEMS)

    @property
    def sizes(self) -> AuditSizes:
        """The sizes: given ones, else a preset."""
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
            scored_nulls=self.sizes.scored_heads,
            splits=self.sizes.splits,
            seed=self.settings.seed,
        )

    @property
    def counteracts(self) -> CounteractsSettings:
        """CounterActs."""
        return CounteractsSettings(
            seed=self.settings.seed,
            per_background=self.sizes.backgrounds,
            null=min(self.sizes.prompt_nulls, self.sizes.null),
        )

    @property
    def generate(self) -> GenerateSettings:
        """What the model is let write: a few short texts about occupations, situations, women and men."""
        full = GenerateSettings(resamples=self.sizes.resamples, rivals=False, seed=self.settings.seed)
        if self.settings.full:
            return full
        many = SHORT.samples
        return replace(full, sets=_WRITTEN, samples=many, neutral=many, tokens=SHORT.tokens, limit=_CLUSTERS)

    def battery(self) -> Battery:
        """The data of all built-in questions."""
        words = prepare(self.model, self.heads)
        return battery_of(words.test, words.table.contexts, self.settings, self.sizes)


def battery_of(
    test: WordTest, contexts: Sequence[Context], settings: AuditSettings, sizes: AuditSizes
) -> Battery:
    """The data of all built-in questions about a word list, in these sizes."""
    return Battery(
        test,
        tuple(contexts),
        triples=load_triples().every(sizes.triples),
        probe=nli_probe(limit=sizes.occupations),
        ability=ability_pairs(limit=sizes.abilities),
        sentences=fluency_text(settings.text, len(fluency_sentences()))[:: sizes.sentences],
        resampling=Resampling(sizes.resamples, settings.seed, items=True),
        null=min(sizes.triple_nulls, sizes.null),
    )
