"""The bench of the debias experiment: every strategy answers the same questions on the same data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.gates import all_heads, gates, removed
from levelhead.edits.sites import Head, Variant
from levelhead.engine.run import read_one
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.sentences import fluency_text
from levelhead.probes.words import WordTest
from levelhead.runs.common import BASE
from levelhead.scoring.fluency import ask_fluency_and_change
from levelhead.scoring.lpbs import ask_lpbs, ask_lpbs_tests, has_pronouns
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import SEAT, WordTable, fitting, held_together, word_table
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.heads.records import StrategyMeasured
from levelhead.studies.heads.settings import DebiasSettings

_SWEEP = (0, 1, 2, 3, 5, 10, 15, 20, 25, 30, 35, 40, 60, 80, 120, 160, 240, 320, 480)
_LONGEST = 14  # steps of a default sweep
Doubles = NDArray[np.float64]
Answers = list[list[Measurement]]  # [variant][measure]
OTHER_WORDS = "the half of the words that it was not chosen on, both ways round"


@dataclass(frozen=True)
class Strategy:
    """One way to debias: a name, the edits, and the heads that they concern."""

    name: str
    variant: Variant  # chosen on all words
    heads: tuple[Head, ...] = ()
    halves: tuple[Variant, Variant] | None = None  # chosen on either half; None: nothing depends on words


UNTOUCHED_MODEL = Strategy(BASE, ())


@dataclass(frozen=True)
class WordScores:
    """Scores of heads on all words, and on either half of them, to choose on one and judge on the other."""

    whole: Doubles  # [layer, head]
    halves: tuple[Doubles, Doubles] | None = None  # None: the list is too short to be halved

    def chosen(self, choose: Callable[[Doubles], Sequence[Strategy]]) -> list[Strategy]:
        """Strategies that depend on scores, each chosen on all words and on either half."""
        whole = choose(self.whole)
        if self.halves is None:
            return list(whole)
        first, second = map(choose, self.halves)
        return [
            replace(strategy, halves=(one.variant, other.variant))
            for strategy, one, other in zip(whole, first, second, strict=True)
        ]


def top(model: Model, scores: Doubles, k: int) -> Strategy:
    """The removal of the k heads with the largest bias score."""
    heads = tuple(highest(scores, k))
    return Strategy(f"top-{k}", removed(model, heads), heads)


def strategies(model: Model, scores: Doubles, settings: DebiasSettings) -> list[Strategy]:
    """The strategies of Table 1 that need no draw, and the amplification that the paper only wishes for."""
    k, order = settings.k, highest(scores, scores.size)
    bottom = tuple(order[::-1][:k])
    biased = tuple(order[: int((scores > 0).sum())])
    return [
        UNTOUCHED_MODEL,
        top(model, scores, k),
        Strategy(f"bottom-{k}", removed(model, bottom), bottom),
        Strategy("all", removed(model, biased), biased),
        Strategy(f"amplify-bottom-{k}", gates(model, dict.fromkeys(bottom, settings.amplify)), bottom),
    ]


def sweep(scores: Doubles, settings: DebiasSettings) -> list[int]:
    """Numbers of removed heads; the last is every head with b > 0 (Table 3's layout)."""
    biased = int((scores > 0).sum())
    if settings.ks is not None:
        return sorted({min(k, scores.size) for k in settings.ks})
    return sorted({*[k for k in _SWEEP if k < biased][:_LONGEST], biased})


def drawn(model: Model, name: str, count: int, seeds: Sequence[int]) -> list[Strategy]:
    """The removal of so many heads drawn at random, once for each seed."""
    everyone = all_heads(model)
    draws = []
    for seed in seeds:
        chosen = np.random.default_rng([seed, count]).permutation(len(everyone))[:count]
        heads = tuple(everyone[i] for i in sorted(chosen))
        draws.append(Strategy(name, removed(model, heads), heads))
    return draws


# ---- what each of them answers


def split_text(model: Model, text: str | None, sentences: int | None) -> tuple[list[str], Sequence[str]]:
    """Sentences to learn on, those of even number that fit into the model, and others to judge on.

    sentences: at most so many of either; None: all of the text.
    """
    texts = fluency_text(text, None if sentences is None else 2 * sentences)
    fits = fitting(model, texts[::2])
    learning = [sentence for sentence, fit in zip(texts[::2], fits, strict=True) if fit]
    return learning, texts[1::2][:sentences]


class Bench:
    """Measures a model in every strategy. Sentences of even number are for learning, odd ones for judging.

    parts: two halves of the words; what was chosen on one is judged on the other.
    """

    def __init__(
        self,
        model: Model,
        test: WordTest,
        contexts: Sequence[Context],
        settings: DebiasSettings,
        parts: tuple[WordTable, WordTable] | None = None,
    ) -> None:
        self.model, self.test, self.contexts, self.settings = model, test, contexts, settings
        self.parts = parts
        self._table = word_table(test, contexts)
        self._objective = word_objective(self._table)
        self._halves = [self._objective.about(part.words) for part in parts or ()]
        self.learning, self.judging = split_text(model, settings.text, settings.sentences)
        self.resampling = Resampling(settings.resamples, settings.seed)

    def measured(self, chosen: Sequence[Strategy]) -> list[StrategyMeasured]:
        """Every measure of every strategy."""
        return [
            StrategyMeasured(strategy.name, strategy.heads, measurement)
            for strategy, measurements in zip(chosen, self.measure(chosen), strict=True)
            for measurement in measurements
        ]

    def measure(self, chosen: Sequence[Strategy]) -> Answers:
        """SEAT, LPBS, fluency and its change in every strategy."""
        variants = [strategy.variant for strategy in chosen]
        seats = [[seat] for seat in self.seats(chosen)]
        parts = zip(seats, self.lpbs(variants), self.fluency(variants), strict=True)
        return [list(chain.from_iterable(part)) for part in parts]

    def seats(self, chosen: Sequence[Strategy]) -> list[Measurement]:
        """|SEAT| of every strategy on the half of the words that it was not chosen on, mean of both ways
        round; where there are no halves, on all words."""
        of_strategy = [  # if it is chosen on all words, on the first half, on the second
            (each.variant, *((self.parts and each.halves) or (each.variant, each.variant))) for each in chosen
        ]
        variants = list(dict.fromkeys(variant for some in of_strategy for variant in some))
        # SEAT on all words, on the first half, on the second
        effects: dict[Variant, tuple[float, float, float]] = {}
        for some in held_together(variants, 2 * len(self._table.words) * int(self.model.config.hidden_size)):
            vectors = read_one(self.model, self._objective.reading, some, label="SEAT")
            for variant, own in zip(some, vectors, strict=True):
                all_words = self._objective.lean(own)
                first, second = [half.lean(own) for half in self._halves] or (all_words, all_words)
                effects[variant] = all_words, first, second
        settings = {"judged on": OTHER_WORDS if self.parts is not None else "the words it was chosen on"}
        n, seats = len(self._table.contexts), []
        for on_all, on_first, on_second in of_strategy:
            ways = abs(effects[on_first][2]), abs(effects[on_second][1])
            details = {
                "all words, chosen on them": effects[on_all][0],
                "first way": ways[0],
                "second way": ways[1],
            }
            value = (ways[0] + ways[1]) / 2
            seats.append(Measurement(SEAT, value, n=n, neutral=0.0, details=details, settings=settings))
        return seats

    def lpbs(self, variants: Sequence[Variant]) -> Answers:
        """LPBS of the three shipped tests for a gender list with she and he, else of the list's own words."""
        if has_pronouns(self.test):
            return ask_lpbs_tests(self.model, variants, self.resampling)
        own = ask_lpbs(self.model, self.test, variants, resampling=self.resampling)
        return [[measurement] for measurement in own]

    def fluency(self, variants: Sequence[Variant]) -> Answers:
        """Perplexity, and how it changed against the unmodified model on the same sentences."""
        pairs = ask_fluency_and_change(self.model, self.judging, variants, self.resampling)
        return [[value, change] for value, change in pairs]
