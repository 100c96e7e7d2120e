"""How much work a study of heads is, before it begins: tokens through all blocks, by stage (work.py)."""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.measures.rounds import looks
from levelhead.probes.contexts import Context
from levelhead.probes.words import WordTest
from levelhead.results.presets import ASSOCIATION
from levelhead.scoring.seat import SINGLY
from levelhead.scoring.word_table import word_table
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.work import BACK, Stage, tokens_in

_SENTENCE = 32.0  # tokens of a sentence and its counter-stereotype


def heads_plan(settings: HeadsSettings, test: WordTest, contexts: Sequence[Context]) -> dict[Stage, float]:
    """The association, its null models, and heads."""
    table = word_table(test, contexts)
    first = tokens_in(context.text for context in table.first_contexts(1).contexts)
    each = len(table.contexts) / len(table.words)
    fit = (1 + BACK * settings.splits + settings.splits) * first if settings.splits else 0.0
    twin = min(2.0, max(1.0, each // 2)) * first
    scores = settings.score_contexts_per_word(test)
    scored = table.first_contexts(scores).contexts
    most = settings.null if settings.scored_twins is None else min(settings.scored_twins, settings.null)
    plan = {
        Stage.WORDS: tokens_in(context.text for context in table.contexts),
        Stage.NULLS: likely(settings.null) * twin + (likely(most) + 1) * fit,
    }
    if settings.experiments != (ASSOCIATION,):
        asked_again = max(0.0, 1 - SINGLY / scores)  # the vectors of first contexts are there already
        plan[Stage.HEADS] = (1 + asked_again + BACK) * tokens_in(context.text for context in scored)
    if "counter" in settings.experiments:
        plan[Stage.ATTENTION] = _SENTENCE * settings.n_sentences
    return plan


def ablation_tokens(
    settings: HeadsSettings, test: WordTest, contexts: Sequence[Context], heads: int
) -> float:
    """Removing every head alone, where that is asked for: half of the blocks each time, in the mean."""
    if "ablation" not in settings.experiments:
        return 0.0
    scored = word_table(test, contexts).first_contexts(settings.score_contexts_per_word(test)).contexts
    return heads / 2 * tokens_in(context.text for context in scored)


def likely(null: int) -> int:
    """How many of so many null models are asked, most likely: up to the last look but one."""
    return looks(null)[-2] if len(looks(null)) > 1 else null
