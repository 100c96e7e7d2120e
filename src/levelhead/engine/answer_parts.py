"""Readings that are answered text by text, and their answers: parts of them, and parts as one.

What such a reading gives for a text and a variant stands in one place of its answer, [variant, text, ...], so
that an answer can be taken apart and put together by texts and by variants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from levelhead.engine.collectors import TokenScores, TopK
from levelhead.engine.readings import (
    Pooled,
    SentenceVectors,
    TokenLikelihoods,
    TokenLogProbs,
    WordVectors,
)
from levelhead.models.encoding import Span, Text

ByText = Pooled | WordVectors | SentenceVectors | TokenLogProbs | TokenLikelihoods
Item = tuple[Text, Span | None]  # a text, and the word of it that is asked about


def items_of(reading: ByText) -> list[Item]:
    """What is asked, one by one."""
    spans = reading.spans if isinstance(reading, WordVectors) else [None] * len(reading.texts)
    return [(Text.of(text), span) for text, span in zip(reading.texts, spans, strict=True)]


def about(reading: ByText, places: Sequence[int]) -> ByText:
    """The same question about the items at these places."""
    texts = [reading.texts[i] for i in places]
    if isinstance(reading, WordVectors):
        return replace(reading, texts=texts, spans=[reading.spans[i] for i in places])
    return replace(reading, texts=texts)


def of_texts(answer: Any, places: Sequence[int]) -> Any:
    """An answer about the items at these places."""
    if isinstance(answer, TokenScores):
        return TokenScores(
            [[of_variant[i] for i in places] for of_variant in answer.values],
            [answer.rows[i] for i in places],
            [answer.positions[i] for i in places],
        )
    return answer[:, list(places)]


def joined_texts(parts: Sequence[Any], places: Sequence[Sequence[int]]) -> Any:
    """Answers about some items each as one answer; places: where the items of each part belong."""
    order = np.argsort(np.concatenate([np.asarray(some, np.int64) for some in places])).tolist()
    if len(parts) == 1 and order == list(range(len(order))):
        return parts[0]
    if not isinstance(parts[0], TokenScores):
        return of_texts(np.concatenate(parts, axis=1), order)
    whole = TokenScores(
        [[v for part in parts for v in part.values[variant]] for variant in range(len(parts[0].values))],
        [row for part in parts for row in part.rows],
        [positions for part in parts for positions in part.positions],
    )
    return of_texts(whole, order)


def of_variant(answer: Any, number: int) -> Any:
    """An answer of one of its variants alone."""
    if isinstance(answer, TokenScores):
        return replace(answer, values=[answer.values[number]])
    return answer[number : number + 1]


def joined_variants(answers: Sequence[Any], order: Sequence[int]) -> Any:
    """Answers of groups of variants as one answer; order: the place of each variant, group by group."""
    if len(answers) == 1 and list(order) == list(range(len(order))):
        return answers[0]
    first, place = answers[0], np.argsort(order)
    if isinstance(first, TokenScores):
        every = [of_variant for answer in answers for of_variant in answer.values]
        return replace(first, values=[every[i] for i in place])
    if isinstance(first, TopK):
        ids, logs = (
            np.concatenate(side) for side in zip(*((a.ids, a.log_probs) for a in answers), strict=True)
        )
        return TopK(ids[place], logs[place])
    if isinstance(first, list):
        flat = [of_variant for answer in answers for of_variant in answer]
        return [flat[i] for i in place]
    return np.concatenate(answers)[place]


def sealed(answer: Any) -> Any:
    """An answer that is kept: whoever asks again is given the same array, so nobody may write to it."""
    if isinstance(answer, np.ndarray):
        answer.flags.writeable = False
    return answer


def bytes_of(answer: Any) -> int:
    """How much memory the numbers of an answer take."""
    if isinstance(answer, TokenScores):
        return sum(values.nbytes for of_variant in answer.values for values in of_variant)
    return int(answer.nbytes)
