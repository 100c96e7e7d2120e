"""Runs of every study as objects with attributes: what reports, checks, comparisons and Python users read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from levelhead.edits.head import Head
from levelhead.errors import BadRun
from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.cloze.log_odds import CHANGE as LOG_ODDS_CHANGE
from levelhead.measures.cloze.log_odds import NAME as LOG_ODDS
from levelhead.measures.cloze.log_odds import NO_TOP_K
from levelhead.measures.measurement import Measurement
from levelhead.results import layout
from levelhead.results.folder import RunData, read_run
from levelhead.results.keys import TextFile
from levelhead.results.records.audit import Headline, Mitigation, ProjectionCandidate
from levelhead.results.records.cloze import ClozeCell, ClozeForm, OccupationLine
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.comparison import Flip, ModelHeadScore, ModelPair, ScoredModelSummary
from levelhead.results.records.debias import (
    DebiasVerdict,
    LearnedGatesFound,
    LearnedMeasured,
    RandomMeasured,
    StrategyMeasured,
    Tradeoff,
)
from levelhead.results.records.glue import GlueCell, GlueCost, GlueRecipe, GlueTaskUsed, GlueUnit
from levelhead.results.records.heads import (
    ArcSheet,
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
from levelhead.results.records.projections import Observation, PredictedLabels, SettingMeasured, SubspaceFit
from levelhead.results.settings import (
    AuditRunSettings,
    GlueRunSettings,
    HeadComparisonSettings,
    HeadsRunSettings,
    PlantedRunSettings,
    PromptsRunSettings,
    RunSettings,
    SweepRunSettings,
)
from levelhead.results.stored import SETTINGS

S = TypeVar("S", bound=RunSettings)


@dataclass(frozen=True)
class StudyRun(Generic[S]):
    """The run of one study: its data, and where they lie."""

    data: RunData[S]

    @property
    def folder(self) -> Path:
        """Where the run lies."""
        return self.data.folder

    @property
    def settings(self) -> S:
        """What was asked."""
        return self.data.settings

    @property
    def model(self) -> str:
        """The model, or the models, that were asked."""
        raise NotImplementedError

    @property
    def weights(self) -> str | None:
        """The hash of the model's weights; None for a run about several models."""
        return self.data.hashes.get(layout.WEIGHTS_HASH)

    def address(self, record: object) -> str | None:
        """Where a record stands in the run's results.jsonl, `key#index`; None for any other record."""
        return self.data.address(record)


class HeadsRun(StudyRun[HeadsRunSettings]):
    """Which heads carry a bias."""

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
        """SEAT by the tokenizer's pieces, and of each kind of targets."""
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
        return [score.head for score in self.ranked if score.clear]

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

    @property
    def model(self) -> str:
        """The model that was planted into."""
        return self.settings.model

    @property
    def base(self) -> PlantedBase | None:
        """The untouched model."""
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


class SweepRun(StudyRun[SweepRunSettings]):
    """Projections of every kind, on two models."""

    @property
    def model(self) -> str:
        """The next-sentence model."""
        return self.settings.model

    @property
    def subspaces(self) -> tuple[SubspaceFit, ...]:
        """What was fitted at each location."""
        return self.data.records(layout.SUBSPACES)

    @property
    def measured(self) -> tuple[SettingMeasured, ...]:
        """Every measure of every setting, deeper ones last."""
        keys = (
            layout.NEXT_SENTENCES,
            layout.INFERENCES,
            layout.DEPTH_NEXT_SENTENCES,
            layout.DEPTH_INFERENCES,
        )
        return tuple(measured for key in keys for measured in self.data.records(key))

    @property
    def inferences(self) -> tuple[SettingMeasured, ...]:
        """The classifier's measures of the paper's settings."""
        return self.data.records(layout.INFERENCES)

    @property
    def answers(self) -> list[tuple[PredictedLabels, ...]]:
        """The classifier's answers, chunk by chunk: each has one record a setting."""
        return list(self.data.family(layout.INFERENCE_ANSWERS).values())

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The paper's observations on these models."""
        return self.data.records(layout.OBSERVATIONS)

    @property
    def correlation(self) -> Measurement | None:
        """Strength with fairness over the settings."""
        return self.data.single(layout.CORRELATION)

    @property
    def recipe_texts(self) -> dict[Path, str]:
        """The recipe files with their texts, in the order of their names."""
        paths = sorted((self.folder / layout.RECIPES).glob("*.toml"))
        return {path: TextFile(f"{layout.RECIPES}/{path.name}").read(self.folder) or "" for path in paths}


class PromptsRun(StudyRun[PromptsRunSettings]):
    """What knowledge before a question does."""

    @property
    def model(self) -> str:
        """The models that were asked."""
        return ", ".join(self.settings.models)

    @property
    def cells(self) -> tuple[ClozeCell, ...]:
        """Every measure of every kind of knowledge, all models and variants."""
        return tuple(cell for part in self.data.family(layout.CLOZE_CELLS).values() for cell in part)

    @property
    def forms(self) -> tuple[ClozeForm, ...]:
        """How each model was asked in each variant."""
        return tuple(form for part in self.data.family(layout.CLOZE_FORMS).values() for form in part)

    def cells_of(self, model: str, variant: str = BASE) -> tuple[ClozeCell, ...]:
        """Every measure of every kind of knowledge, for one model in one variant."""
        return self.data.records(layout.CLOZE_CELLS.of(prompts_label(model, variant)))

    def occupations(self, model: str, variant: str = BASE) -> list[OccupationLine]:
        """Every measure of every occupation, for one model in one variant."""
        return layout.OCCUPATIONS.of(prompts_label(model, variant)).read(self.folder)

    def margin(self, variant: str = BASE) -> ClozeCell | None:
        """The first model's margin without knowledge over all occupations, at the k that stands for all."""
        return self._bare("margin", self.settings.shown_k, variant)

    def log_odds(self, variant: str = BASE) -> ClozeCell | None:
        """The first model's stereotype log-odds without knowledge."""
        return self._bare(LOG_ODDS, NO_TOP_K, variant)

    def knowledge(self, variant: str = BASE) -> tuple[ClozeCell, ...]:
        """What each kind of knowledge does to the first model's log-odds."""
        cells = self.cells_of(self.settings.models[0], variant)
        return tuple(cell for cell in cells if (cell.name, cell.group) == (LOG_ODDS_CHANGE, ""))

    def _bare(self, name: str, k: int, variant: str) -> ClozeCell | None:
        """One measure of the first model without knowledge over all occupations."""
        wanted = (name, k, BASE, "")
        for cell in self.cells_of(self.settings.models[0], variant):
            if (cell.name, cell.k, cell.kind, cell.group) == wanted:
                return cell
        return None


def prompts_label(model: str, variant: str) -> str:
    """The label of a model's results in one variant."""
    return f"{model} | {variant}"


class GlueRun(StudyRun[GlueRunSettings]):
    """What the model, and what recipes make of it, can still learn."""

    @property
    def model(self) -> str:
        """The model that was fine-tuned."""
        return self.settings.model

    @property
    def recipes(self) -> tuple[GlueRecipe, ...]:
        """What was done to the model before and while it was trained."""
        return self.data.records(layout.GLUE_RECIPES)

    @property
    def tasks(self) -> tuple[GlueTaskUsed, ...]:
        """The tasks: how many examples, and the right answers."""
        return self.data.records(layout.GLUE_TASKS)

    @property
    def first_metrics(self) -> frozenset[tuple[str, str]]:
        """(task, metric) of the metric that GLUE names first for each task."""
        return frozenset((task.task, metric) for task in self.tasks for metric in task.metrics[:1])

    @property
    def units(self) -> tuple[GlueUnit, ...]:
        """Every training, in the order in which they were done."""
        return tuple(unit for part in self.data.family(layout.GLUE_UNITS).values() for unit in part)

    @property
    def cells(self) -> tuple[GlueCell, ...]:
        """The table: every metric of every task for every recipe, the untouched model first."""
        return self.data.records(layout.GLUE_CELLS)

    @property
    def costs(self) -> tuple[GlueCost, ...]:
        """Every recipe against the untouched model."""
        return self.data.records(layout.GLUE_COSTS)

    def measured(self, recipe: str = BASE) -> list[MeasuredVariant]:
        """The scores of one recipe, then its paired changes from the untouched model."""
        scores = [cell.measurement for cell in self.cells if cell.recipe == recipe]
        changes = [cost.measurement for cost in self.costs if cost.recipe == recipe]
        return [MeasuredVariant(recipe, self.model, each) for each in (*scores, *changes)]


class AuditRun(StudyRun[AuditRunSettings]):
    """An audit: measures, ways out, what is said, and the runs inside it."""

    @property
    def model(self) -> str:
        """The model under audit."""
        return self.settings.model

    @property
    def bias(self) -> str:
        """The name of the bias: that of its word list."""
        words = None if self.heads is None else self.heads.words
        return self.settings.bias if words is None else words.test

    @property
    def measured(self) -> tuple[MeasuredVariant, ...]:
        """Every measure of the untouched model."""
        return tuple(each for part in self.data.family(layout.MEASURED).values() for each in part)

    @property
    def verified(self) -> tuple[MeasuredVariant, ...]:
        """Every measure of every changed model."""
        return tuple(each for part in self.data.family(layout.VERIFIED).values() for each in part)

    @property
    def candidates(self) -> tuple[ProjectionCandidate, ...]:
        """Projections of the model that were tried, the untouched model first."""
        return self.data.records(layout.CANDIDATES)

    @property
    def nli_candidates(self) -> tuple[ProjectionCandidate, ...]:
        """Projections of the classifier that stands beside the model."""
        return self.data.records(layout.NLI_CANDIDATES)

    @property
    def mitigations(self) -> tuple[Mitigation, ...]:
        """The ways out that were verified, the classifier's last."""
        return (*self.data.records(layout.MITIGATIONS), *self.data.records(layout.NLI_MITIGATIONS))

    @property
    def headline(self) -> Headline | None:
        """What the audit says; None while it is not finished."""
        return self.data.single(layout.HEADLINE)

    @property
    def measures(self) -> tuple[MeasureInfo, ...]:
        """How the user's own measures are shown and judged; the built-in ones stand in the catalog."""
        return self.data.records(layout.MEASURES)

    @property
    def arcs(self) -> ArcSheet | None:
        """Attention on sentence pairs, for the report."""
        return layout.ARCS.read(self.folder)

    @cached_property
    def heads(self) -> HeadsRun | None:
        """The heads study inside the audit."""
        folder = self.folder / layout.HEADS_PART
        return HeadsRun(read_run(folder, [layout.HEADS])) if (folder / SETTINGS).is_file() else None

    @cached_property
    def prompts(self) -> PromptsRun | None:
        """The CounterActs study inside the audit."""
        folder = self.folder / layout.PROMPTS_PART
        return PromptsRun(read_run(folder, [layout.PROMPTS])) if (folder / SETTINGS).is_file() else None

    @cached_property
    def glue(self) -> GlueRun | None:
        """The GLUE study inside the audit."""
        folder = self.folder / layout.GLUE_PART
        return GlueRun(read_run(folder, [layout.GLUE])) if (folder / SETTINGS).is_file() else None

    def by_variant(self) -> dict[str, dict[str, Measurement]]:
        """Measurements by variant and measure, the untouched model first."""
        table: dict[str, dict[str, Measurement]] = {BASE: {}}
        for each in (*self.measured, *self.verified):
            table.setdefault(each.variant, {})[each.name] = each.measurement
        return table


AnyRun = HeadsRun | HeadComparisonRun | PlantedRun | SweepRun | PromptsRun | GlueRun | AuditRun

_OBJECTS: dict[str, Callable[[RunData[Any]], AnyRun]] = {
    layout.HEADS.study: HeadsRun,
    layout.HEAD_COMPARISON.study: HeadComparisonRun,
    layout.PLANTED.study: PlantedRun,
    layout.SWEEP.study: SweepRun,
    layout.PROMPTS.study: PromptsRun,
    layout.GLUE.study: GlueRun,
    layout.AUDIT.study: AuditRun,
}


def open_run(folder: str | Path) -> AnyRun:
    """Any run, as the object of its study."""
    data = read_run(folder, layout.LAYOUTS)
    return _OBJECTS[data.layout.study](data)


def open_heads(folder: str | Path) -> HeadsRun:
    """A run of `levelhead heads`, or the one inside an audit."""
    inside = Path(folder) / layout.HEADS_PART
    audited = (inside / SETTINGS).is_file() and (Path(folder) / SETTINGS).is_file()
    return HeadsRun(read_run(inside if audited else folder, [layout.HEADS]))


def open_head_comparison(folder: str | Path) -> HeadComparisonRun:
    """A run of `levelhead compare-heads`."""
    return HeadComparisonRun(read_run(folder, [layout.HEAD_COMPARISON]))


def open_planted(folder: str | Path) -> PlantedRun:
    """A run of `levelhead planted`."""
    return PlantedRun(read_run(folder, [layout.PLANTED]))


def open_sweep(folder: str | Path) -> SweepRun:
    """A run of `levelhead sweep`."""
    return SweepRun(read_run(folder, [layout.SWEEP]))


def open_prompts(folder: str | Path) -> PromptsRun:
    """A run of `levelhead prompts`."""
    return PromptsRun(read_run(folder, [layout.PROMPTS]))


def open_glue(folder: str | Path) -> GlueRun:
    """A run of `levelhead glue`."""
    return GlueRun(read_run(folder, [layout.GLUE]))


def open_audit(folder: str | Path) -> AuditRun:
    """A run of `levelhead audit`."""
    return AuditRun(read_run(folder, [layout.AUDIT]))
