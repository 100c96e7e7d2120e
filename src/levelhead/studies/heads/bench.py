"""The bench of the debias experiment: every strategy is asked the same questions on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import Variant
from levelhead.engine.run import read_one
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.sentences import fluency_text
from levelhead.probes.words import WordTest
from levelhead.results.records.debias import StrategyMeasured
from levelhead.scoring.fluency import ask_fluency_and_change
from levelhead.scoring.lpbs import ask_lpbs, ask_lpbs_tests, has_pronouns
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import SEAT, turns
from levelhead.scoring.word_table import WordTable, fitting, word_table
from levelhead.studies.heads.settings import DebiasSettings
from levelhead.studies.heads.strategies import Strategy

Answers = list[list[Measurement]]  # [variant][measure]
Effects = tuple[float, float, float]  # SEAT on all words, on the first half, on the second
Doubles = NDArray[np.float64]
OTHER_WORDS = "the half of the words that it was not chosen on, both ways round"


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
        self.resampling = settings.resampling

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
        of_strategy = [
            (each.variant, *((self.parts and each.halves) or (each.variant, each.variant))) for each in chosen
        ]
        variants = list(dict.fromkeys(variant for some in of_strategy for variant in some))
        effects: dict[Variant, Effects] = {}
        for some in turns(variants, 2 * len(self._table.words) * int(self.model.config.hidden_size)):
            vectors = read_one(self.model, self._objective.reading, some, label="SEAT")
            effects.update(zip(some, map(self._effects, vectors), strict=True))
        return [self._judged(*(effects[variant] for variant in some)) for some in of_strategy]

    def _effects(self, vectors: Doubles) -> Effects:
        """SEAT of static vectors on all words, and on each half."""
        whole = self._objective.lean(vectors)
        first, second = [half.lean(vectors) for half in self._halves] or (whole, whole)
        return whole, first, second

    def _judged(self, whole: Effects, first: Effects, second: Effects) -> Measurement:
        """One strategy, from its SEATs if it is chosen on all words, on the first half, on the second."""
        settings = {"judged on": OTHER_WORDS if self.parts is not None else "the words it was chosen on"}
        ways = abs(first[2]), abs(second[1])
        value = (ways[0] + ways[1]) / 2
        details = {"all words, chosen on them": whole[0], "first way": ways[0], "second way": ways[1]}
        n = len(self._table.contexts)
        return Measurement(SEAT, value, n=n, neutral=0.0, details=details, settings=settings)

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
