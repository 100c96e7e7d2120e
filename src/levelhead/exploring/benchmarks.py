"""The benchmarks of a page's menu: those that ship with all of their items and take a minute at most.

Each is asked in portions (background.py), which give the numbers of one pass: all are means over items. Every
one states its items in natural units (scoring/natural.py), so that a change has an interval over clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.edits.steering import Steering
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.exploring.background import Advance
from levelhead.exploring.words import table_of, word_portions
from levelhead.measures.certified import PERPLEXITY
from levelhead.mitigation.steering import steering_triples, triple_contexts
from levelhead.models.model import Model
from levelhead.models.once import once_a_model
from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import BASE, ClozeSet, load_cloze
from levelhead.probes.triples import load_triples
from levelhead.probes.words import WordTest
from levelhead.results.codec import Record
from levelhead.scoring.battery import Battery
from levelhead.scoring.cloze import prompt_table
from levelhead.scoring.fluency import why_no_fluency
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.lpbs import lpbs_biases, why_no_lpbs
from levelhead.scoring.natural import (
    COSINE,
    LOG_ODDS,
    PREFERENCE,
    NaturalItems,
    askable_biases,
    cosine_values,
    halves_of,
    log_losses,
    lpbs_items,
    natural_bias,
)

LPBS = "LPBS"
Variants = Sequence[Variant]
Ask = Callable[[Model, WordTest, Variants, Advance], ItemValues]
_CONTEXTS, _PROMPTS, _TARGETS, _TEXTS = 4, 12, 3, 4  # triples, prompts, words of a side, texts of a portion
_FEW_TEXTS, _FEW_TARGETS = 40, 30  # texts that perplexity is measured on, and words of each side for LPBS


@dataclass(frozen=True)
class BenchmarkShown(Record):
    """A benchmark as the menu shows it. cost: what grows as a model gets worse; else a bias, even at 0."""

    name: str
    title: str
    cost: bool = False


_PREFERENCE = BenchmarkShown(PREFERENCE, "preference on the shipped triples")
_LOG_ODDS = BenchmarkShown(LOG_ODDS, "log-odds of the CounterActs prompts")
_LPBS = BenchmarkShown(LPBS, "LPBS of the word list")
_COSINE = BenchmarkShown(COSINE, "SEAT of the word list (cosine gap, its numerator)")
_PERPLEXITY = BenchmarkShown(PERPLEXITY, "what it costs: log perplexity of plain text", cost=True)


@once_a_model
def benchmarks(model: Model, test: WordTest) -> tuple[BenchmarkShown, ...]:
    """Those that a model can be asked for this bias: what it does, what its vectors are like, costs."""
    items = NaturalItems(Battery(test, ()), _prompts() if about_gender(test) else None)
    known = askable_biases(model, items)
    found = [each for each in (_LOG_ODDS, _PREFERENCE) if each.name in known]  # the quickest first
    if not why_no_lpbs(model, test):
        found.append(_LPBS)
    return (*found, _COSINE, *([] if why_no_fluency(model) else [_PERPLEXITY]))


def asked_for(name: str) -> Ask:
    """How a benchmark of the menu is asked."""
    asks: dict[str, Ask] = {
        PREFERENCE: _preferences,
        LOG_ODDS: _log_odds,
        LPBS: _lpbs,
        COSINE: _cosines,
        PERPLEXITY: _perplexities,
    }
    return asks[name]


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
    whole, parts = Battery(test, (), triples), []
    for contexts in _portions(triple_contexts(triples), _CONTEXTS, advance):
        some = triples.about(contexts)
        if any(pair.swapped is not None for pair in some.pairs):
            items = NaturalItems(replace(whole, triples=some))
            parts.append(natural_bias(model, items, PREFERENCE, variants))
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
    return replace(_joined(parts), weights=halves_of(np.concatenate(own) > 0))


def _few(test: WordTest, targets: int) -> WordTest:
    """The test with so many words of either side at equal distances; attribute words stay."""
    sides = [side[:: max(1, len(side) // targets)][:targets] for side in (test.X, test.Y)]
    return test.of({*test.A, *test.B, *sides[0], *sides[1]})


def _lpbs(model: Model, test: WordTest, variants: Variants, advance: Advance) -> ItemValues:
    few = _few(test, _FEW_TARGETS)
    targets: list[str] = []
    biases = []
    count = min(len(few.X), len(few.Y), max(len(few.X), len(few.Y)) // _TARGETS + 1)
    for number in range(count):  # words of both sides in each portion
        words = {*few.A, *few.B, *few.X[number::count], *few.Y[number::count]}
        asked, values = lpbs_biases(model, few.of(words), variants)
        targets += asked
        biases.append(np.stack(values))
        advance(number + 1, count)
    items = lpbs_items(LPBS, few, targets, list(np.concatenate(biases, axis=1)))
    if items is None:
        raise CannotDo(f"Too few words of {test.name} have an LPBS in {model.name}.")
    return items


def _cosines(model: Model, test: WordTest, variants: Variants, advance: Advance) -> ItemValues:
    table = table_of(model, test)
    ask = partial(read_one, model, variants=variants, label="Words")
    return cosine_values(word_portions(table, ask, advance, 1), table)


def _perplexities(model: Model, test: WordTest, variants: Variants, advance: Advance) -> ItemValues:
    every = Battery(test, ()).sentences
    few = every[:: max(1, len(every) // _FEW_TEXTS)][:_FEW_TEXTS]
    parts = [log_losses(model, some, variants) for some in _portions(few, _TEXTS, advance)]
    return _joined(parts)
