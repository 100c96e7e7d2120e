"""Numbers that do not rest on one sentence: a benchmark before and after a change, and scores of all heads.

Both ask the model in portions (background.py), which give the numbers of one pass: benchmarks are means over
items, and the gradient of |SEAT| is a sum over texts once its cotangent is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.gradients import Doubles, gate_gradients
from levelhead.engine.readings import StaticVectors
from levelhead.engine.run import read_one
from levelhead.exploring.background import Advance
from levelhead.exploring.benchmarks import BenchmarkShown, asked_for
from levelhead.exploring.words import TEMPLATES, portions, table_of, word_portions
from levelhead.measures.certified import mean_interval
from levelhead.models.model import Model
from levelhead.probes.words import WordTest
from levelhead.results.codec import Record
from levelhead.scoring.objectives import word_objective


@dataclass(frozen=True)
class Compared(Record):
    """A bias, or a cost, of the unmodified and of the changed model on the same items, with 95 % intervals.

    key: of which change on which benchmark. effects: both as effect sizes, divided by their own spread: of
    the cosine gap that is SEAT.
    """

    key: str
    name: str
    cost: bool
    unit: str
    items: int
    before: float
    before_interval: tuple[float, float] | None
    after: float
    after_interval: tuple[float, float] | None
    change: float
    change_interval: tuple[float, float] | None
    effects: tuple[float, float] | None


@dataclass(frozen=True)
class Comparison:
    """A change that is to be measured on a benchmark. key: the name of both together."""

    key: str
    benchmark: BenchmarkShown
    edits: Variant


def compared(model: Model, test: WordTest, asked: Comparison, advance: Advance) -> Compared:
    """The benchmark before and after a change, paired item by item."""
    found = asked_for(asked.benchmark.name)(model, test, [(), asked.edits], advance)
    items = found.paired(1)
    before, after = items.before, items.after
    return Compared(
        asked.key,
        asked.benchmark.title,
        asked.benchmark.cost,
        found.unit,
        len(before),
        items.mean(before),
        mean_interval(before, items),
        items.mean(after),
        mean_interval(after, items),
        items.change,
        mean_interval(after - before, items),
        None if found.spread is None else (found.effect(0), found.effect(1)),
    )


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
    table = table_of(model, test)
    ask = partial(read_one, model, variants=UNTOUCHED, label="Words")
    vectors = torch.from_numpy(word_portions(table, ask, advance, 2)[0]).requires_grad_()
    value = word_objective(table).number(vectors)
    (cotangent,) = torch.autograd.grad(value, vectors)
    total = np.zeros((model.layers, model.heads))
    some = list(portions(table))
    for number, (words, reading) in enumerate(some, start=1):
        total += _pulled(model, reading, cotangent[words])
        advance(len(some) + number, 2 * len(some))
    scores = tuple(tuple(map(float, row)) for row in total)
    return Scores(float(value.detach()), scores, f"|SEAT| of {test.name}, {TEMPLATES} contexts per word")


def _pulled(model: Model, reading: StaticVectors, cotangent: Tensor) -> Doubles:
    """d<cotangent, vectors> / d gate."""
    return gate_gradients(model, reading, lambda y: (y * cotangent).sum(), label="Head scores").scores
