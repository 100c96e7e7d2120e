"""Runs about attention heads: of one model, of several side by side, and of planted bias."""

from __future__ import annotations

from levelhead.edits.head import Head
from levelhead.errors import BadRun
from levelhead.measures.measurement import Measurement
from levelhead.results import layout
from levelhead.results.records.common import MeasuredVariant
from levelhead.results.records.comparison import Flip, ModelHeadScore, ModelPair, ScoredModelSummary
from levelhead.results.records.debias import (
    DebiasVerdict,
    LearnedGatesFound,
    LearnedMeasured,
    RandomMeasured,
    StrategyMeasured,
    Tradeoff,
)
from levelhead.results.records.heads import (
    AttentionExample,
    CounterContrast,
    CounterHead,
    CounterTest,
    CrossFit,
    HeadScore,
    Removal,
    SeatRow,
    WordsUsed,
)
from levelhead.results.records.planted import PlantedBase, PlantSummary, PlantTrial
from levelhead.results.runs.study import StudyRun
from levelhead.results.settings import (
    HeadComparisonSettings,
    HeadsRunSettings,
    PlantedRunSettings,
)


class HeadsRun(StudyRun[HeadsRunSettings]):
    """Which heads carry a bias."""

    LAYOUT = layout.HEADS

    @property
    def model(self) -> str:
        """The model that was asked."""
        return self.settings.model

    @property
    def words(self) -> WordsUsed | None:
        """What was measured on."""
        return self.data.single(layout.WORDS)

    @property
    def seat_rows(self) -> tuple[SeatRow, ...]:
        """SEAT by words' numbers of subword tokens, and of each kind of targets."""
        return self.data.records(layout.SEAT_ROWS)

    @property
    def sound_row(self) -> SeatRow | None:
        """The row that claims rest on."""
        return next((row for row in self.seat_rows if row.sound), None)

    @property
    def seat(self) -> MeasuredVariant | None:
        """The association of all words, which heads are scored for."""
        return self.data.single(layout.SEAT)

    @property
    def scores(self) -> tuple[HeadScore, ...]:
        """Every head's score, layer by layer."""
        return self.data.records(layout.SCORES)

    @property
    def ranked(self) -> list[HeadScore]:
        """Every head's score, the most biased first."""
        return sorted(self.scores, key=lambda score: score.rank)

    @property
    def clear_heads(self) -> list[Head]:
        """The heads whose scores hold on other words, farther than any head's does in null twins."""
        return [score.head for score in self.ranked if score.clear and not self.doubts]

    @property
    def cross_fits(self) -> tuple[CrossFit, ...]:
        """Heads chosen on half of the words, judged on the other: the model's splits, then its twins'."""
        parts = self.data.family(layout.CROSS_FITS).values()
        return tuple(fit for part in parts for fit in part)

    @property
    def cross_fit(self) -> tuple[Measurement, ...]:
        """Agreement of heads between halves of the words, what removing them does on other words, and the
        largest score that holds."""
        return self.data.records(layout.CROSS_FIT)

    @property
    def removals(self) -> tuple[Removal, ...]:
        """What removing each head alone does."""
        parts = self.data.family(layout.REMOVALS).values()
        return tuple(removal for part in parts for removal in part)

    @property
    def sources(self) -> Measurement | None:
        """Rank correlation of scores in a corpus with those in our templates; None: there was no corpus."""
        return self.data.single(layout.SOURCES)

    @property
    def agreement(self) -> Measurement | None:
        """Rank correlation of scores and removals."""
        return self.data.single(layout.AGREEMENT)

    @property
    def counter(self) -> tuple[CounterTest, ...]:
        """The counter-stereotype test of both groups of heads."""
        return self.data.records(layout.COUNTER)

    @property
    def counter_sides(self) -> tuple[CounterTest, ...]:
        """The same tests over the originals of either side alone."""
        return self.data.records(layout.COUNTER_SIDES)

    @property
    def contrasts(self) -> tuple[CounterContrast, ...]:
        """Biased heads against regular ones in the counter-stereotype experiment, tested by cluster."""
        return self.data.records(layout.COUNTER_CONTRASTS)

    @property
    def counter_heads(self) -> tuple[CounterHead, ...]:
        """The counter-stereotype test of every head."""
        return self.data.records(layout.COUNTER_HEADS)

    @property
    def example(self) -> tuple[AttentionExample, ...]:
        """The running example's attention."""
        return self.data.records(layout.COUNTER_EXAMPLE)

    @property
    def strategies(self) -> tuple[StrategyMeasured, ...]:
        """Strategies of targeted debiasing that need no draw."""
        return self.data.records(layout.STRATEGIES)

    @property
    def random_strategies(self) -> tuple[RandomMeasured, ...]:
        """Random heads removed."""
        return self.data.records(layout.RANDOM_STRATEGIES)

    @property
    def verdict(self) -> DebiasVerdict | None:
        """Whether the most biased heads beat random ones."""
        return self.data.single(layout.DEBIAS_VERDICT)

    @property
    def top_sweep(self) -> tuple[StrategyMeasured, ...]:
        """The k most biased heads removed, for rising k."""
        return self.data.records(layout.TOP_SWEEP)

    @property
    def learned(self) -> tuple[LearnedMeasured, ...]:
        """Learned gates, measured."""
        return self.data.records(layout.LEARNED)

    @property
    def learned_gates(self) -> tuple[LearnedGatesFound, ...]:
        """Learned gates themselves."""
        return self.data.records(layout.LEARNED_GATES)

    @property
    def tradeoffs(self) -> tuple[Tradeoff, ...]:
        """Learned gates against the best top-k that costs no more."""
        return self.data.records(layout.TRADEOFFS)

    def biased_heads(self, top: int) -> list[Head]:
        """The heads with the highest scores, most biased first: at most `top`, and only scores above 0."""
        biased = sorted((s for s in self.scores if s.biased), key=lambda s: (-s.score, s.head))
        if not biased:
            raise BadRun(f"{self.folder} has no head with a score above 0: nothing to remove.")
        return [score.head for score in biased[:top]]


class HeadComparisonRun(StudyRun[HeadComparisonSettings]):
    """The heads of several models side by side."""

    LAYOUT = layout.HEAD_COMPARISON

    @property
    def model(self) -> str:
        """The models that were compared."""
        return ", ".join(summary.model for summary in self.models)

    @property
    def models(self) -> tuple[ScoredModelSummary, ...]:
        """The models, the base first."""
        return self.data.records(layout.COMPARED_MODELS)

    @property
    def scores(self) -> tuple[ModelHeadScore, ...]:
        """Every head's score in every model."""
        return self.data.records(layout.COMPARED_SCORES)

    @property
    def pairs(self) -> tuple[ModelPair, ...]:
        """Every other model against the base."""
        return self.data.records(layout.MODEL_PAIRS)

    @property
    def flips(self) -> tuple[Flip, ...]:
        """Anti-biased heads of the base that became biased."""
        return self.data.records(layout.FLIPS)


class PlantedRun(StudyRun[PlantedRunSettings]):
    """Localizers against planted bias."""

    LAYOUT = layout.PLANTED

    @property
    def model(self) -> str:
        """The model that was planted into."""
        return self.settings.model

    @property
    def base(self) -> PlantedBase | None:
        """The unmodified model."""
        return self.data.single(layout.PLANTED_BASE)

    @property
    def trials(self) -> tuple[PlantTrial, ...]:
        """Every localizer on every planted copy."""
        parts = self.data.family(layout.PLANT_TRIALS).values()
        return tuple(trial for part in parts for trial in part)

    @property
    def summary(self) -> tuple[PlantSummary, ...]:
        """Means over seeds."""
        return self.data.records(layout.PLANT_SUMMARY)
