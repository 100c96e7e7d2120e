"""Numbers that do not rest on one sentence: benchmarks before and after a change, and scores of all heads.

The menu has those benchmarks that ship with all of their items and take a minute at most. All is read in
portions (background.py), which give the numbers of one pass: benchmarks are means over items, and the
gradient of |SEAT| is a sum over texts once its cotangent is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from levelhead.edits.sites import Variant
from levelhead.edits.steering import Steering
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import StaticVectors
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.exploring.background import Advance
from levelhead.measures.certified import PERPLEXITY, weighted_interval
from levelhead.mitigation.fitting import steering_triples, triple_contexts
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import BASE, ClozeSet, load_cloze
from levelhead.probes.triples import load_triples
from levelhead.probes.words import WordTest
from levelhead.runs.records import Record
from levelhead.scoring import natural
from levelhead.scoring.battery import Battery
from levelhead.scoring.cloze import prompt_table
from levelhead.scoring.fluency import why_no_fluency
from levelhead.scoring.items import ItemValues
from levelhead.scoring.lpbs import LpbsQuestion, lpbs_biases
from levelhead.scoring.natural import COSINE, LOG_ODDS, PREFERENCE, NaturalItems, natural_bias
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import WordTable
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings

LPBS = "LPBS"
Variants = Sequence[Variant]
Ask = Callable[[Model, WordTest, Variants, Advance], ItemValues]
TEMPLATES = 2  # contexts of each word
_CONTEXTS, _PROMPTS, _TARGETS, _TEXTS = 4, 12, 3, 4  # triples, prompts, words of a side, texts of a portion
_WORDS = 8  # of one portion
_FEW_TEXTS, _FEW_TARGETS = 40, 30  # texts that perplexity is measured on, and words of each side for LPBS


@dataclass(frozen=True)
class BenchmarkShown(Record):
    """A benchmark as the menu shows it. cost: what grows as a model gets worse; else a bias, even at 0."""

    name: str
    title: str
    cost: bool = False


@once_a_model
def benchmarks(model: Model, test: WordTest) -> tuple[BenchmarkShown, ...]:
    """Those that a model can be asked for this bias: what it does, what its vectors are like, costs."""
    items = NaturalItems(Battery(test, ()), _prompts() if about_gender(test) else None)
    known = natural.behaviors(model, items)
    found = []
    if LOG_ODDS in known:  # the quickest first
        found.append(BenchmarkShown(LOG_ODDS, "log-odds of the CounterActs prompts"))
    if PREFERENCE in known:
        found.append(BenchmarkShown(PREFERENCE, "preference on the shipped triples"))
    if not LpbsQuestion.of(model, test).why_not(model):
        found.append(BenchmarkShown(LPBS, "LPBS of the word list"))
    found.append(BenchmarkShown(COSINE, "SEAT of the word list (cosine gap, its numerator)"))
    if not why_no_fluency(model):
        title = "what it costs: log perplexity of plain text"
        found.append(BenchmarkShown(PERPLEXITY, title, cost=True))
    return tuple(found)


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


def compared(model: Model, test: WordTest, wanted: Comparison, advance: Advance) -> Compared:
    """The benchmark before and after a change, paired item by item."""
    found = ASKS[wanted.benchmark.name](model, test, [(), wanted.edits], advance)
    items = found.paired(1)
    before, after = items.before, items.after
    return Compared(
        wanted.key,
        wanted.benchmark.title,
        wanted.benchmark.cost,
        found.unit,
        len(before),
        items.mean(before),
        weighted_interval(before, items),
        items.mean(after),
        weighted_interval(after, items),
        items.change,
        weighted_interval(after - before, items),
        None if found.spread is None else (found.effect(0), found.effect(1)),
    )


# ---- asking a benchmark


def _portions(items: Sequence[str], size: int, advance: Advance) -> Iterator[Sequence[str]]:
    """So many items at a time; after each portion the job says how far it is."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
        advance(min(start + size, len(items)), len(items))


def _joined(parts: Sequence[ItemValues]) -> ItemValues:
    """The items of all portions; weights and strata are those of the portions."""
    weights = None if parts[0].weights is None else np.concatenate([p.weights for p in parts])
    strata = None if parts[0].strata is None else np.concatenate([p.strata for p in parts])
    values = np.concatenate([part.values for part in parts], axis=1)
    clusters = np.concatenate([part.clusters for part in parts])
    return replace(parts[0], values=values, clusters=clusters, weights=weights, strata=strata)


def _preferences(model: Model, test: WordTest, variants: Variants, advance: Advance) -> ItemValues:
    """All shipped triples; with steering on, those that it was not fitted on."""
    steers = any(isinstance(edit, Steering) for variant in variants for edit in variant)
    triples = steering_triples(held_out=True) if steers else load_triples()
    parts = []
    for contexts in _portions(triple_contexts(triples), _CONTEXTS, advance):
        some = triples.about(contexts)
        if any(pair.swapped is not None for pair in some.pairs):
            parts.append(natural_bias(model, NaturalItems(Battery(test, (), some)), PREFERENCE, variants))
    return _joined(parts)


def _prompts() -> ClozeSet:
    """The shipped prompts without knowledge, one background each."""
    prompts = load_cloze(per_background=1)
    return replace(prompts, prompts=tuple(each for each in prompts.prompts if each.kind == BASE))


def _log_odds(model: Model, test: WordTest, variants: Variants, advance: Advance) -> ItemValues:
    prompts, battery, parts, own = _prompts(), Battery(test, ()), [], []
    occupations = list(dict.fromkeys(each.occupation for each in prompts.prompts))
    for some in _portions(occupations, _PROMPTS, advance):
        part = replace(prompts, prompts=tuple(p for p in prompts.prompts if p.occupation in some))
        parts.append(natural_bias(model, NaturalItems(battery, part), LOG_ODDS, variants))
        own.append(prompt_table(part).own)
    # Weights are those of all prompts: a portion does not have both groups in the same shares.
    return replace(_joined(parts), weights=natural.halves_of(np.concatenate(own) > 0))


def _lpbs(model: Model, test: WordTest, variants: Variants, advance: Advance) -> ItemValues:
    # So many words of either side at equal distances; attribute words stay.
    sides = [side[:: max(1, len(side) // _FEW_TARGETS)][:_FEW_TARGETS] for side in (test.X, test.Y)]
    few = test.of({*test.A, *test.B, *sides[0], *sides[1]})
    targets: list[str] = []
    biases = []
    count = min(len(few.X), len(few.Y), max(len(few.X), len(few.Y)) // _TARGETS + 1)
    for number in range(count):  # words of both sides in each portion
        words = {*few.A, *few.B, *few.X[number::count], *few.Y[number::count]}
        scored, values = lpbs_biases(model, few.of(words), variants)
        targets += scored
        biases.append(np.stack(values))
        advance(number + 1, count)
    items = natural.lpbs_items(LPBS, few, targets, list(np.concatenate(biases, axis=1)))
    if items is None:
        raise CannotDo(f"Too few words of {test.name} have an LPBS in {model.name}.")
    return items


def _cosines(model: Model, test: WordTest, variants: Variants, advance: Advance) -> ItemValues:
    table = prepare(model, HeadsSettings(test, per_word=TEMPLATES)).table
    vectors, some = [], list(_word_portions(table))
    for number, (_, reading) in enumerate(some, start=1):
        vectors.append(read_one(model, reading, variants, label="Words"))
        advance(number, len(some))
    return natural.cosine_values(np.concatenate(vectors, axis=1), table)


def _perplexities(model: Model, test: WordTest, variants: Variants, advance: Advance) -> ItemValues:
    every = Battery(test, ()).sentences
    few = every[:: max(1, len(every) // _FEW_TEXTS)][:_FEW_TEXTS]
    return _joined([natural.log_losses(model, some, variants) for some in _portions(few, _TEXTS, advance)])


ASKS: dict[str, Ask] = {  # each benchmark of the menu
    PREFERENCE: _preferences,
    LOG_ODDS: _log_odds,
    LPBS: _lpbs,
    COSINE: _cosines,
    PERPLEXITY: _perplexities,
}


# ---- words, and scores of all heads by them


def _word_portions(table: WordTable) -> Iterator[tuple[list[int], StaticVectors]]:
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
    table = prepare(model, HeadsSettings(test, per_word=TEMPLATES)).table
    some, parts = list(_word_portions(table)), []
    for number, (_, reading) in enumerate(some, start=1):
        parts.append(read_one(model, reading, label="Words")[0])
        advance(number, 2 * len(some))  # of two passes
    vectors = torch.from_numpy(np.concatenate(parts)).requires_grad_()
    value = word_objective(table).number(vectors)
    (cotangent,) = torch.autograd.grad(value, vectors)
    total = np.zeros((model.layers, model.heads))
    for number, (words, reading) in enumerate(some, start=1):

        def pulled(y: Tensor, to: Tensor = cotangent[words]) -> Tensor:
            return (y * to).sum()

        total += gate_gradients(model, reading, pulled, label="Head scores").scores
        advance(len(some) + number, 2 * len(some))
    scores = tuple(tuple(map(float, row)) for row in total)
    return Scores(float(value.detach()), scores, f"|SEAT| of {test.name}, {TEMPLATES} contexts per word")
