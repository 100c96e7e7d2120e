"""The words of a bias in a few contexts each, asked some at a time (background.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.readings import StaticVectors
from levelhead.exploring.background import Advance
from levelhead.models.model import Model
from levelhead.probes.words import WordTest
from levelhead.scoring.word_table import WordTable
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings

Doubles = NDArray[np.float64]
TEMPLATES = 2  # contexts of each word
_WORDS = 8  # of one portion


def table_of(model: Model, test: WordTest) -> WordTable:
    """The words of a bias as the heads study asks for them, in fewer contexts."""
    return prepare(model, HeadsSettings(test, per_word=TEMPLATES)).table


def word_portions(
    table: WordTable, ask: Callable[[StaticVectors], Doubles], advance: Advance, passes: int
) -> Doubles:
    """Vectors of all words in every variant, [variant, word, hidden]; passes: how many the job has."""
    some, vectors = list(portions(table)), []
    for number, (_, reading) in enumerate(some, start=1):
        vectors.append(ask(reading))
        advance(number, passes * len(some))
    return np.concatenate(vectors, axis=1)


def portions(table: WordTable) -> Iterator[tuple[list[int], StaticVectors]]:
    """A few words at a time, with all of their contexts, in the order of the words."""
    of_word: dict[int, list[int]] = {}
    for context, word in enumerate(table.word):
        of_word.setdefault(word, []).append(context)
    words = list(range(len(table.words)))
    for start in range(0, len(words), _WORDS):
        some = words[start : start + _WORDS]
        chosen = [(table.contexts[i], n) for n, word in enumerate(some) for i in of_word[word]]
        texts = [context.text for context, _ in chosen]
        spans = [(context.start, context.end) for context, _ in chosen]
        yield some, StaticVectors(texts, spans, [n for _, n in chosen])
