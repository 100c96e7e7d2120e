"""Why a model answers so: which heads move the odds of this sentence, and where they look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from levelhead.edits.head import Head
from levelhead.edits.sites import Variant, inside
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import Attention, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.exploring.sentences import Pair, Words, question
from levelhead.models.model import Model
from levelhead.results.codec import Record

_DIGITS = 4


@dataclass(frozen=True)
class Why(Record):
    """d log-odds / d gate of every head at the gates that are on: exact, for this sentence alone."""

    log_odds: float
    scores: tuple[tuple[float, ...], ...]  # [layer][head]


def why(model: Model, sentence: str, pair: Pair, gates: Mapping[Head, float]) -> Why:
    """How the log-odds of a pair in one sentence change with every head's gate."""
    asked = question(model, sentence, pair)
    at = np.ones((model.layers, model.heads))
    for head, value in gates.items():
        at[head] = value

    def log_odds(answer: Tensor) -> Tensor:
        return answer[0, 0] - answer[0, 1]

    reading = TokenLogProbs([asked.text], asked.tokens)
    found = gate_gradients(model, reading, log_odds, label="Why", at=at)
    return Why(found.objective, tuple(tuple(map(float, row)) for row in found.scores))


@dataclass(frozen=True)
class Look(Record):
    """Attention from one word to all tokens, in every head: the mean over the word's subword tokens."""

    tokens: tuple[str, ...]
    source: tuple[int, ...]  # positions of the word's tokens
    weights: tuple[tuple[tuple[float, ...], ...], ...]  # [layer][head][token]
    words: tuple[tuple[int, int], ...]  # that can be looked from, by their characters
    word: tuple[int, int]
    text: str


def look(model: Model, sentence: str, pair: Pair, variant: Variant, character: int | None) -> Look:
    """Where each head looks from the word at a character; by default from the blank."""
    asked = question(model, sentence, pair)
    words = Words.of(asked.text, model.tokenizer.mask_token)
    span = words.at(character, asked.blank)
    reading = Attention([asked.text], [span], [span])
    (row,) = read_one(model, reading, [inside(variant)], label="Attention")[0]
    weights = row.weights.astype(np.float64).mean(axis=2).round(_DIGITS)
    return Look(
        tuple(token or "·" for token in row.tokens),
        tuple(map(int, row.target)),
        tuple(tuple(tuple(map(float, head)) for head in layer) for layer in weights),
        words.spans,
        span,
        asked.text,
    )
