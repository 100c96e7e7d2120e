"""The words of a heads run with their contexts: what the model can be asked, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelhead.errors import BadOption
from levelhead.measures.null import likely
from levelhead.models.model import Model
from levelhead.probes.bias import declared
from levelhead.probes.contexts import TEMPLATES, Context, corpus_contexts, template_contexts
from levelhead.probes.words import WordTest, load_words
from levelhead.progress import BACK, Stage, tokens_in
from levelhead.runs.presets import ASSOCIATION
from levelhead.scoring.seat import SINGLY, WordTable, fitting, unknown_words, word_table
from levelhead.studies.heads.records import WordList, WordsUsed
from levelhead.studies.heads.settings import FROM_TEMPLATES, HeadsSettings


@dataclass(frozen=True)
class Prepared:
    """Words and contexts of a run."""

    test: WordTest
    table: WordTable
    scored: WordTable  # the contexts of it that gradients, removals and debiasing take
    skipped: Mapping[str, int]  # reason -> sentences or contexts that are not used

    def used(self) -> WordsUsed:
        """What a reader must know about them."""
        return WordsUsed(
            test=self.test.name,
            labels=self.test.labels,
            sizes={group: len(words) for group, words in self.test.groups().items()},
            words=len(self.table.words),
            contexts=len(self.table.contexts),
            missing=self.table.missing,
            skipped=dict(self.skipped),
        )

    def word_list(self) -> WordList:
        """The words themselves, as words.json keeps them."""
        return WordList(
            name=self.test.name,
            labels=dict(zip("ABXY", self.test.labels, strict=True)),
            A=self.test.A,
            B=self.test.B,
            X=self.test.X,
            Y=self.test.Y,
            pairs=self.test.pairs,
            missing=self.table.missing,
            parts=dict(self.test.parts),
            axis=self.test.axis,
            not_covered=self.test.not_covered,
        )


def prepare(model: Model, settings: HeadsSettings) -> Prepared:
    """The words with their contexts; contexts that the model cannot be asked are left out, and counted."""
    test = declared(load_words(settings.bias, settings.trim))
    n = settings.contexts_per_word
    skipped: dict[str, int] = {}
    if settings.contexts == FROM_TEMPLATES:
        if n > len(TEMPLATES):
            raise BadOption(
                f"per_word must be at most {len(TEMPLATES)}, as many as there are templates (got {n}). "
                "Give a corpus for more."
            )
        contexts: Sequence[Context] = template_contexts(test, n)
    else:
        index = corpus_contexts(test, settings.contexts, n, settings.seed)
        contexts, skipped = index.contexts, dict(index.skipped)
    fits = fitting(model, [context.text for context in contexts])
    if lost := len(fits) - sum(fits):
        skipped["context longer than the model's positions"] = lost
    kept = [context for context, ok in zip(contexts, fits, strict=True) if ok]
    unknown = unknown_words(model, (context.word for context in kept))
    if lost := sum(context.word in unknown for context in kept):
        skipped["context of a word that the tokenizer does not know"] = lost
        kept = [context for context in kept if context.word not in unknown]
    table = word_table(test, kept)
    return Prepared(test, table, table.first_contexts(settings.score_contexts_per_word(test)), skipped)


_SENTENCE = 32.0  # tokens of a sentence and its counter-stereotype


def heads_plan(settings: HeadsSettings, test: WordTest, contexts: Sequence[Context]) -> dict[Stage, float]:
    """The association, its null models, and heads."""
    table = word_table(test, contexts)
    first = tokens_in(context.text for context in table.first_contexts(1).contexts)
    each = len(table.contexts) / len(table.words)
    fit = (1 + BACK * settings.splits + settings.splits) * first if settings.splits else 0.0
    null_model = min(2.0, max(1.0, each // 2)) * first
    scores = settings.score_contexts_per_word(test)
    scored = table.first_contexts(scores).contexts
    most = settings.null if settings.scored_nulls is None else min(settings.scored_nulls, settings.null)
    plan = {
        Stage.WORDS: tokens_in(context.text for context in table.contexts),
        Stage.NULLS: likely(settings.null) * null_model + (likely(most) + 1) * fit,
    }
    if settings.experiments != (ASSOCIATION,):
        repeated = max(0.0, 1 - SINGLY / scores)  # the vectors of first contexts are there already
        plan[Stage.HEADS] = (1 + repeated + BACK) * tokens_in(context.text for context in scored)
    if "counter" in settings.experiments:
        plan[Stage.ATTENTION] = _SENTENCE * settings.n_sentences
    return plan
