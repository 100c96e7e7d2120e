"""What is asked about items that are choices: candidate texts, and which of their tokens are scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.spans import SpanLikelihoods, scored_positions
from levelhead.errors import BadProbe
from levelhead.measures.choices import ChoiceLogs
from levelhead.measures.statistics import FloatArray
from levelhead.models.chat import chat_texts, require_chat
from levelhead.models.encoding import Span, Text, TokenRow, encode
from levelhead.models.model import Model
from levelhead.scoring.benchmarks.protocol import Items

TOO_LONG = "too long for the model, or without a token"
_RENDERED = 1000  # chats that are rendered in one process
NOTHING_SCORED = "a candidate has no token that is scored"


@dataclass(frozen=True)
class Part:
    """A text of a candidate, and which of its tokens are scored: those that touch a span, those at these
    positions, or all."""

    text: Text
    span: Span | None = None
    positions: tuple[int, ...] | None = None
    instead: tuple[int, ...] | None = None  # tokens that are asked for there in place of the text's own


Candidates = Sequence[Sequence[Part]]  # [choice][part]


@dataclass(frozen=True, eq=False)
class ChoiceTable:
    """Everything that is asked about some items: texts side by side, and whose they are."""

    items: tuple[Any, ...]  # those that can be asked
    choices: int
    reading: SpanLikelihoods
    owner: NDArray[np.int64]  # [text] item · choices + choice
    tokens: FloatArray  # [text] scored tokens
    unscored: Mapping[str, int]

    def logs(self, answer: FloatArray) -> ChoiceLogs:
        """What a model answers, by candidate."""
        return ChoiceLogs(answer, self.owner, self.tokens, (len(self.items), self.choices))

    def weights(self, contrast: FloatArray, per_token: bool) -> FloatArray:
        """By how much each text counts in the contrast of its item: [text]."""
        weights = contrast.ravel()[self.owner]
        if not per_token:
            return weights
        behind = np.bincount(self.owner, weights=self.tokens, minlength=contrast.size)
        return np.asarray(weights / np.maximum(behind[self.owner], 1.0))


def choice_table(
    model: Model, items: Items, candidates: Callable[[Any], Candidates | str], choices: int
) -> ChoiceTable:
    """The texts of all items that a model can be asked about; candidates: of an item, or why it has none."""
    kept: list[Any] = []
    parts: list[tuple[Part, tuple[int, ...], int]] = []  # a part, its scored positions, its candidate
    unscored = Counter(items.unscored)
    for item in items.items:
        given = candidates(item)
        placed = given if isinstance(given, str) else _placed(model, given, len(kept) * choices)
        if isinstance(placed, str):
            unscored[placed] += 1
            continue
        parts += placed
        kept.append(item)
    instead = [part.instead for part, _, _ in parts]
    reading = SpanLikelihoods(
        [part.text for part, _, _ in parts],
        [positions for _, positions, _ in parts],
        [owner // choices for _, _, owner in parts],
        instead if any(tokens is not None for tokens in instead) else None,
    )
    owner = np.asarray([owner for _, _, owner in parts], np.int64)
    tokens = np.asarray([len(positions) for _, positions, _ in parts], np.float64)
    return ChoiceTable(tuple(kept), choices, reading, owner, tokens, dict(unscored))


def _placed(
    model: Model, candidates: Candidates, first: int
) -> list[tuple[Part, tuple[int, ...], int]] | str:
    """The parts of one item with their scored positions, or why it cannot be asked."""
    placed = []
    for choice, parts in enumerate(candidates):
        for part in parts:
            row = row_of(model, part.text)
            if row is None:
                return TOO_LONG
            positions = part.positions if part.span is None else [int(p) for p in row.tokens_of(part.span)]
            scored = tuple(int(p) for p in scored_positions(model, row, positions))
            if not scored:
                return NOTHING_SCORED
            placed.append((part, scored, first + choice))
    return placed


def row_of(model: Model, text: Text) -> TokenRow | None:
    """The tokens of a text; None where it does not fit into the model."""
    try:
        return next(encode(model, [text]))
    except BadProbe:
        return None


def continuations(
    model: Model, items: Items, turns: Callable[[Any], tuple[str, Sequence[str]]], between: str
) -> Callable[[Any], Candidates]:
    """Candidates that continue a text; turns: of an item what a model is told, and what it may say.

    Through the chat template of the model's tokenizer where the items are asked so, else after `between`.
    """
    chats: dict[tuple[str, str], Text] = {}
    if items.chat:
        require_chat(model)
        pairs = [(told, said) for told, several in map(turns, items.items) for said in several]
        for start in range(0, len(pairs), _RENDERED):
            some = pairs[start : start + _RENDERED]
            chats.update(zip(some, chat_texts(model, some), strict=True))

    def of(item: Any) -> Candidates:
        told, several = turns(item)
        texts = [chats[told, said] if chats else Text(f"{told}{between}{said}") for said in several]
        ends = [
            (len(text.first) - len(said), len(text.first)) for text, said in zip(texts, several, strict=True)
        ]
        return [[Part(text, span)] for text, span in zip(texts, ends, strict=True)]

    return of
