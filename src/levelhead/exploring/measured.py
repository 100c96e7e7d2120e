"""Numbers that do not rest on one sentence: a benchmark before and after a change, and scores of all heads.

Both ask the model in portions (background.py), which give the numbers of one pass: preferences are means over
items, and the gradient of |SEAT| is a sum over texts once its cotangent is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.gradients import Doubles, gate_gradients
from levelhead.engine.readings import StaticVectors
from levelhead.engine.run import read_one
from levelhead.exploring.background import Advance
from levelhead.measures.certified import mean_interval
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.triples import load_triples
from levelhead.probes.words import WordTest
from levelhead.results.codec import Record
from levelhead.scoring.battery import Battery
from levelhead.scoring.natural import PREFERENCE, ItemValues, NaturalItems, cosine_values, natural_bias
from levelhead.scoring.objectives import absolute_seat
from levelhead.scoring.word_table import WordTable
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings

_CONTEXTS, _TEXTS = 4, 8  # triples and texts of one portion
_TEMPLATES = 2  # contexts of each word


@dataclass(frozen=True)
class Compared(Record):
    """A bias of the unmodified and of the changed model on the same items, with 95 % intervals."""

    name: str
    unit: str
    items: int
    before: float
    before_interval: tuple[float, float] | None
    after: float
    after_interval: tuple[float, float] | None
    change: float
    change_interval: tuple[float, float] | None


def benchmark_name(model: Model, test: WordTest) -> str:
    """The benchmark that a page asks: preference on the shipped triples, else SEAT's numerator."""
    asks_triples = about_gender(test) and bool(model.abilities & {"nsp", "causal"})
    return "preference on the shipped triples" if asks_triples else "cosine gap (the numerator of SEAT)"


def compared(model: Model, test: WordTest, variant: Variant, advance: Advance) -> Compared:
    """The benchmark before and after a change, paired item by item."""
    asks_triples = about_gender(test) and bool(model.abilities & {"nsp", "causal"})
    ask = _preferences if asks_triples else _cosines
    found = ask(model, test, [(), variant], advance)
    items = found.paired(1)
    before, after = items.before, items.after
    return Compared(
        benchmark_name(model, test),
        found.unit,
        len(before),
        items.mean(before),
        mean_interval(before, items),
        items.mean(after),
        mean_interval(after, items),
        items.change,
        mean_interval(after - before, items),
    )


def _preferences(model: Model, test: WordTest, variants: Sequence[Variant], advance: Advance) -> ItemValues:
    triples = load_triples()
    contexts = list(dict.fromkeys(pair.original.context for pair in triples.pairs))
    whole = Battery(test, (), triples)
    parts = []
    for start in range(0, len(contexts), _CONTEXTS):
        some = triples.about(contexts[start : start + _CONTEXTS])
        if any(pair.swapped is not None for pair in some.pairs):
            items = NaturalItems(replace(whole, triples=some))
            parts.append(natural_bias(model, items, PREFERENCE, variants))
        advance(min(start + _CONTEXTS, len(contexts)), len(contexts))
    values = np.concatenate([part.values for part in parts], axis=1)
    return replace(parts[0], values=values, clusters=np.concatenate([part.clusters for part in parts]))


def _cosines(model: Model, test: WordTest, variants: Sequence[Variant], advance: Advance) -> ItemValues:
    table = _table(model, test)
    return cosine_values(_static(model, table, variants, advance, 1), table)


# ---- scores of all heads


@dataclass(frozen=True)
class Scores(Record):
    """d|SEAT| / d gate of every head, as the heads study scores them, on two contexts for each word."""

    seat: float
    scores: tuple[tuple[float, ...], ...]  # [layer][head]
    source: str


def scored_heads(model: Model, test: WordTest, advance: Advance) -> Scores:
    """The score of every head in portions.

    dJ/dm = Σ over portions of d<dJ/dy, y_portion> / dm       y: the words' vectors, J = |SEAT|
    """
    table = _table(model, test)
    vectors = torch.from_numpy(_static(model, table, UNTOUCHED, advance, 2)[0]).requires_grad_()
    value = absolute_seat(table.sets)(vectors)
    (cotangent,) = torch.autograd.grad(value, vectors)
    total = np.zeros((model.layers, model.heads))
    portions = list(_portions(table))
    for number, (words, reading) in enumerate(portions, start=1):
        total += _pulled(model, reading, cotangent[words])
        advance(len(portions) + number, 2 * len(portions))
    scores = tuple(tuple(map(float, row)) for row in total)
    return Scores(float(value.detach()), scores, f"|SEAT| of {test.name}, {_TEMPLATES} contexts per word")


def _pulled(model: Model, reading: StaticVectors, cotangent: Tensor) -> Doubles:
    """d<cotangent, vectors> / d gate."""
    return gate_gradients(model, reading, lambda y: (y * cotangent).sum(), label="Head scores").scores


def _table(model: Model, test: WordTest) -> WordTable:
    return prepare(model, HeadsSettings(test, per_word=_TEMPLATES)).table


def _static(
    model: Model, table: WordTable, variants: Sequence[Variant], advance: Advance, passes: int
) -> Doubles:
    """Vectors of all words in every variant, [variant, word, hidden]; passes: how many the job has."""
    portions, vectors = list(_portions(table)), []
    for number, (_, reading) in enumerate(portions, start=1):
        vectors.append(read_one(model, reading, variants, label="Words"))
        advance(number, passes * len(portions))
    return np.concatenate(vectors, axis=1)


def _portions(table: WordTable) -> Iterator[tuple[list[int], StaticVectors]]:
    """A few words at a time, with all of their contexts, in the order of the words."""
    of_word: dict[int, list[int]] = {}
    for context, word in enumerate(table.word):
        of_word.setdefault(word, []).append(context)
    words = list(range(len(table.words)))
    for start in range(0, len(words), _TEXTS):
        some = words[start : start + _TEXTS]
        chosen = [(table.contexts[i], n) for n, word in enumerate(some) for i in of_word[word]]
        texts = [context.text for context, _ in chosen]
        spans = [(context.start, context.end) for context, _ in chosen]
        yield some, StaticVectors(texts, spans, [n for _, n in chosen])
