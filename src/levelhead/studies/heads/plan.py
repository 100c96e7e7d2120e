"""How much work a heads study is, before it begins: tokens through all blocks, stage by stage.

Null models are planned up to the last interim look but one (measures/null.py), where most runs stop.
"""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.engine.effort import askable_tokens
from levelhead.measures.null import likely
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.words import WordTest
from levelhead.progress import BACK, Stage
from levelhead.runs.presets import ASSOCIATION
from levelhead.scoring.seat import SINGLY, word_table
from levelhead.studies.heads.counter import attention_reading, find_sentences
from levelhead.studies.heads.null_models import NULL_MODEL_CONTEXTS
from levelhead.studies.heads.settings import HeadsSettings


def heads_plan(
    model: Model, settings: HeadsSettings, test: WordTest, contexts: Sequence[Context]
) -> dict[Stage, float]:
    """The association, its null models, and heads."""
    table = word_table(test, contexts)
    each = len(table.contexts) // len(table.words)
    few = table.first_contexts(min(NULL_MODEL_CONTEXTS, max(1, each // 2)))
    first = askable_tokens(model, table.first_contexts(1).each())
    fit = (1 + BACK * settings.splits + settings.splits) * first if settings.splits else 0.0
    most = settings.null if settings.scored_nulls is None else min(settings.scored_nulls, settings.null)
    plan = {
        Stage.WORDS: askable_tokens(model, table.each()),
        Stage.NULLS: likely(settings.null) * askable_tokens(model, few.each()) + (likely(most) + 1) * fit,
    }
    if settings.experiments != (ASSOCIATION,):
        scores = settings.score_contexts_per_word(test)
        scored = askable_tokens(model, table.first_contexts(scores).each())
        repeated = max(0.0, 1 - SINGLY / scores)  # the vectors of first contexts are there already
        plan[Stage.HEADS] = (1 + repeated + BACK) * scored
        if "ablation" in settings.experiments:
            # each head alone: what lies below it is shared; and the unmodified model
            plan[Stage.HEADS] += (1 + model.heads * (model.layers + 1) / 2) * scored
    if "counter" in settings.experiments:
        sentences = find_sentences(model, test, settings).sentences
        plan[Stage.ATTENTION] = askable_tokens(model, attention_reading(sentences)) if sentences else 0.0
    return plan
