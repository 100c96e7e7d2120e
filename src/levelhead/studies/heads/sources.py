"""Do heads that a corpus' sentences point at come out of our templates too? (docs/method.md, Head scores)

A score that hangs on the texts around a word says more about them than about the head. Where the contexts
come from a corpus, every head is scored in our templates as well, for the same words.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import spearman
from levelhead.models.model import Model
from levelhead.results.records.heads import IN_COMMON, OF_HIGHEST
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.heads.prepared import Prepared, prepare
from levelhead.studies.heads.scores import head_scores
from levelhead.studies.heads.settings import FROM_TEMPLATES, HeadsSettings

Doubles = NDArray[np.float64]


def template_agreement(
    model: Model, prepared: Prepared, scores: Doubles, settings: HeadsSettings
) -> Measurement:
    """Rank correlation of scores in a corpus with those in templates, and how many of the highest agree."""
    ours = replace(settings, contexts=FROM_TEMPLATES, per_word=None, score_contexts=None)
    table = prepare(model, ours).scored.part(prepared.table.words)
    return source_agreement(scores, head_scores(model, table).scores, settings.top)


def source_agreement(scores: Doubles, others: Doubles, top: int) -> Measurement:
    """Spearman's rho between scores from two sources of contexts; details: how many of the highest agree."""
    common = {*highest(scores, top)} & {*highest(others, top)}
    rho = spearman(scores.ravel(), others.ravel())
    return replace(rho, details={**rho.details, IN_COMMON: len(common), OF_HIGHEST: min(top, scores.size)})
