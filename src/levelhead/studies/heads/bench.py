"""The bench of the debias experiment: every strategy is asked the same questions on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from levelhead.edits.sites import Variant
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.sentences import fluency_text
from levelhead.probes.words import WordTest
from levelhead.results.records.debias import StrategyMeasured
from levelhead.scoring.fluency import ask_fluency_and_change
from levelhead.scoring.lpbs import ask_lpbs, ask_lpbs_tests, has_pronouns
from levelhead.scoring.seat import ask_seat
from levelhead.scoring.word_table import fitting
from levelhead.studies.heads.settings import DebiasSettings
from levelhead.studies.heads.strategies import Strategy

Answers = list[list[Measurement]]  # [variant][measure]


class Bench:
    """Measures a model in every strategy. Sentences of even number are for learning, odd ones for judging."""

    def __init__(
        self, model: Model, test: WordTest, contexts: Sequence[Context], settings: DebiasSettings
    ) -> None:
        self.model, self.test, self.contexts, self.settings = model, test, contexts, settings
        texts = fluency_text(settings.text, None if settings.sentences is None else 2 * settings.sentences)
        fits = fitting(model, texts[::2])
        self.learning = [text for text, fit in zip(texts[::2], fits, strict=True) if fit]
        self.judging = texts[1::2][: settings.sentences]
        self.resampling = settings.resampling

    def measured(self, chosen: Sequence[Strategy]) -> list[StrategyMeasured]:
        """Every measure of every strategy."""
        answers = self.measure([strategy.variant for strategy in chosen])
        return [
            StrategyMeasured(strategy.name, strategy.heads, measurement)
            for strategy, measurements in zip(chosen, answers, strict=True)
            for measurement in measurements
        ]

    def measure(self, variants: Sequence[Variant]) -> Answers:
        """SEAT, LPBS, fluency and its change in every variant."""
        seats = [[seat] for seat in self.seats(variants)]
        parts = zip(seats, self.lpbs(variants), self.fluency(variants), strict=True)
        return [list(chain.from_iterable(part)) for part in parts]

    def seats(self, variants: Sequence[Variant], intervals: bool | None = None) -> list[Measurement]:
        """SEAT in every variant."""
        return ask_seat(
            self.model, self.test, self.contexts, variants, resampling=self.resampling, intervals=intervals
        )

    def lpbs(self, variants: Sequence[Variant]) -> Answers:
        """LPBS of the three shipped tests for a list with she and he, of the list's own words otherwise."""
        if has_pronouns(self.test):
            return ask_lpbs_tests(self.model, variants, self.resampling)
        own = ask_lpbs(self.model, self.test, variants, resampling=self.resampling)
        return [[measurement] for measurement in own]

    def fluency(self, variants: Sequence[Variant]) -> Answers:
        """Perplexity, and how it changed against the untouched model on the same sentences."""
        pairs = ask_fluency_and_change(self.model, self.judging, variants, self.resampling)
        return [[value, change] for value, change in pairs]
