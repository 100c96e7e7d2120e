"""What workers are asked in tests: readings of every stage, and gradients, of a tiny BERT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from levelhead.edits.gates import removed
from levelhead.edits.sites import Site, Variant
from levelhead.edits.subspace import Projection
from levelhead.engine import gradients, run
from levelhead.engine.readings import (
    Attention,
    Predictions,
    SentenceVectors,
    States,
    StaticVectors,
    TokenLikelihoods,
    TokenLogProbs,
)
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import word_table
from tests.word_lists import GENDER

TABLE = word_table(GENDER, template_contexts(GENDER, 2))
TEXTS = [Text(context.text) for context in TABLE.contexts[:12]]
BLANKS = [Text(f"The {word} is [MASK].") for word in ("nurse", "engineer", "book")]
SPANS = [(context.start, context.end) for context in TABLE.contexts[:2]]
BATCH = 256  # tokens: every pass has many batches


def answers(model: Model) -> list[Any]:
    """Readings of every stage, untouched and under edits; and the gradients of the gates."""
    readings: list[Any] = [
        StaticVectors(
            [Text(c.text) for c in TABLE.contexts], [(c.start, c.end) for c in TABLE.contexts], word()
        ),
        SentenceVectors(TEXTS),
        TokenLikelihoods(TEXTS[:4]),
        TokenLogProbs(BLANKS, [5, 6, 7]),
        Predictions(BLANKS, 3),
        States(TEXTS[:3], Site(1, "query")),
        Attention(TEXTS[:2], SPANS, SPANS),
    ]
    edits: Variant = (
        *removed(model, ["1-2"]),
        Projection(Site(1, "block"), torch.eye(32)[:1], torch.ones(1)),
    )
    collected = run.read(model, readings, [(), edits], batch_tokens=BATCH)
    slopes = gradients.gate_gradients(model, readings[0], word_objective(TABLE).number, batch_tokens=BATCH)
    top = collected[readings[4]]
    return [
        *(collected[readings[number]] for number in (0, 1, 3)),
        *(np.concatenate(each) for each in collected[readings[2]].values),
        *(top.ids, top.log_probs),
        *(np.concatenate(each) for each in collected[readings[5]]),
        *(text.weights for each in collected[readings[6]] for text in each),
        *(slopes.scores, slopes.stderr),
    ]


def word() -> list[int]:
    words = sorted({context.word for context in TABLE.contexts})
    return [words.index(context.word) for context in TABLE.contexts]


def same_bits(own: Sequence[Any], others: Sequence[Any]) -> bool:
    return [np.asarray(x).tobytes() for x in own] == [np.asarray(x).tobytes() for x in others]
