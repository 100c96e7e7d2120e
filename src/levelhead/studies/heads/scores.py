"""The bias score of every head: how |SEAT| grows with the head's gate (docs/method/heads.md, Head scores)."""

from __future__ import annotations

from itertools import starmap

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from levelhead.edits.sites import Head
from levelhead.engine.gradient_sums import GateGradients
from levelhead.measures.crossed import word_means
from levelhead.models.model import Model
from levelhead.scoring.objective import several_gradients
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import WordTable, context_vectors
from levelhead.studies.heads.records import HeadScore

Doubles = NDArray[np.float64]


def head_scores(model: Model, table: WordTable) -> GateGradients:
    """The gradient of |SEAT| in every gate, exact over all contexts.

        b[layer, head] = d|SEAT| / d m[layer, head]  at m = 1

    Above 0 the head adds to the bias. Reference: 'Bias A-head?', equation 4, which averages over batches.
    """
    vectors = word_means(context_vectors(model, table, "Head scores"), np.asarray(table.word))
    return several_gradients(model, [word_objective(table)], answer=vectors)[0]


def score_records(
    gradients: GateGradients, held: Doubles | None = None, p_value: Doubles | None = None
) -> list[HeadScore]:
    """Every head's score with its standard error and rank; and what of it holds on other words, with its p.

    The standard error says how far the contexts leave b open; the cotangents of the words are held fixed.
    """
    rank = stats.rankdata(-gradients.scores, method="ordinal").reshape(gradients.scores.shape)
    return [
        HeadScore(
            head=head,
            score=float(gradients.scores[head]),
            stderr=finite(gradients.stderr[head]),
            held=None if held is None else float(held[head]),
            p=None if p_value is None else float(p_value[head]),
            rank=int(rank[head]),
            objective=gradients.objective,
        )
        for head in starmap(Head, np.ndindex(gradients.scores.shape))
    ]


def finite(value: float) -> float | None:
    """The number as a record keeps it; None for NaN and infinity."""
    return float(value) if np.isfinite(value) else None
