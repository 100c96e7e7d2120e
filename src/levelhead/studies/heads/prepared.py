"""The words of a heads run with their contexts: what the model can be asked, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelhead.errors import BadOption
from levelhead.models.model import Model
from levelhead.probes.bias import declared
from levelhead.probes.contexts import TEMPLATES, Context, corpus_contexts, template_contexts
from levelhead.probes.words import WordTest, load_words
from levelhead.scoring.seat import WordTable, fitting, unknown_words, word_table
from levelhead.studies.heads.records import WordList, WordsUsed
from levelhead.studies.heads.settings import FROM_TEMPLATES, HeadsSettings


@dataclass(frozen=True)
class Prepared:
    """Words and contexts of a run."""

    test: WordTest
    table: WordTable
    scored: WordTable  # the contexts of it that gradients, removals and debiasing take
    skipped: Mapping[str, int]  # reason -> sentences or contexts that are not used

    @property
    def given(self) -> tuple[WordTest, tuple[Context, ...]]:
        """The words, and all of their contexts."""
        return self.test, self.table.contexts

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
