"""Log-odds of two groups of words at the blank of every prompt (docs/method.md, Cloze scores)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.measures.cloze.log_odds import log_odds
from levelhead.models.model import Model
from levelhead.models.twins import Twin, twinned
from levelhead.probes.cloze import ClozeSet
from levelhead.scoring.cloze import blank_after_space, cloze_texts, prompt_form, verbalized_tokens

Doubles = NDArray[np.float64]
PRONOUNS = ("she", "her", "hers", "herself", "he", "him", "his", "himself")
PERSONS = ("woman", "man", "girl", "boy", "female", "male", "lady", "gentleman")
CORE = frozenset((*PRONOUNS, *PERSONS))


def ask_log_odds(
    model: Model,
    cloze_set: ClozeSet,
    variants: Sequence[Variant] = UNTOUCHED,
    words: Collection[str] | None = None,
) -> Doubles:
    """Log-odds of the verbalizer's first group against its second: [variant, prompt]

    words: count these words of the verbalizer only, for example CORE; by default all that are one token.
    """
    form = prompt_form(model)
    keys, codes, _ = verbalized_tokens(model, cloze_set, form)
    if words is not None:
        codes = np.where(np.isin(keys, list(words)), codes, 0)
    spaced = np.array([blank_after_space(prompt, form) for prompt in cloze_set.prompts])
    tokens = np.flatnonzero((codes != 0).any(axis=0))
    for after_space in np.unique(spaced):
        if not {1, -1} <= set(codes[int(after_space)].tolist()):
            raise CannotDo(
                f"{model.name} has no single token for a word of each group, so there are no log-odds."
            )
    reading = TokenLogProbs(cloze_texts(model, cloze_set), tokens.tolist())
    log_probs = read_one(model, reading, variants, label=f"Prompts to {model.name}")
    values = np.zeros(log_probs.shape[:2])
    for after_space in np.unique(spaced):
        own = spaced == after_space
        for variant, answers in enumerate(log_probs):
            values[variant, own] = log_odds(answers[own], codes[int(after_space), tokens])
    return values


def twin_log_odds(
    model: Model, cloze_set: ClozeSet, twins: Sequence[Twin], words: Collection[str] | None = None
) -> Doubles:
    """The same of null twins of the model: [twin, prompt]"""
    values = []
    for twin in twins:
        with twinned(model, twin):
            values.append(ask_log_odds(model, cloze_set, words=words)[0])
    return np.array(values)
