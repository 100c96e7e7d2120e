"""Results of studies: their runs as objects, which read a folder of the user's or a temporary one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from levelhead.api.places import links
from levelhead.api.shown import Line, Scratch, Shown, line_of, measured_cells
from levelhead.errors import CannotDo
from levelhead.exploring.state import PageState
from levelhead.inference.fill_in import corrected
from levelhead.measures.measurement import Measurement
from levelhead.ordinary import check_tree
from levelhead.pages.charts.base import Chart
from levelhead.pages.charts.glue import curve_controls, learning_curves
from levelhead.pages.charts.intervals import Labeled, intervals
from levelhead.pages.charts.mitigations import picture
from levelhead.pages.charts.prompts import log_odds_panels
from levelhead.pages.figures.comparison import side_by_side
from levelhead.pages.figures.heads import heat_map
from levelhead.pages.links import Document, Link, document_link, run_link
from levelhead.pages.localizing import atlas_sentence, maps_chart
from levelhead.pages.notebook import notebook_html
from levelhead.pages.sections.survey import line_measurement, rankings
from levelhead.pages.sections.sweep import sweep_charts
from levelhead.pages.transfer import transfer_sentence
from levelhead.results import layout
from levelhead.results.folder import LOCK
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.projections import Table7Line
from levelhead.results.runs import (
    AtlasRun,
    AuditRun,
    BenchmarkRun,
    GlueRun,
    HeadComparisonRun,
    HeadsRun,
    MitigateRun,
    PlantedRun,
    PromptsRun,
    StudyRun,
    SurveyRun,
    SweepRun,
)
from levelhead.results.settings import (
    AtlasRunSettings,
    AuditRunSettings,
    BenchmarkRunSettings,
    GlueRunSettings,
    HeadComparisonSettings,
    HeadsRunSettings,
    MitigateRunSettings,
    PlantedRunSettings,
    PromptsRunSettings,
    RunSettings,
    SurveyRunSettings,
    SweepRunSettings,
)

S = TypeVar("S", bound=RunSettings)


@dataclass(frozen=True, repr=False)
class StudyResult(StudyRun[S], Shown):
    """The result of a study: its run, and all that a result can do."""

    scratch: Scratch | None = field(default=None, compare=False)  # holds a temporary folder

    __repr__ = Shown.__repr__  # a run's own would print every number

    @property
    def caption(self) -> str:
        """The model and the command of the study."""
        return f"{self.model}: {self.data.layout.command}"

    @property
    def link(self) -> Link:
        """Its chapter on the page of its run; the document of its study where no page is written."""
        return run_link(self.folder, self.data.layout)

    def _places(self) -> str:
        return links(self.weights)

    def _write(self, work: Path) -> None:
        """The whole run folder: what `levelhead report`, `check`, `card` and `compare` read."""
        check_tree(self.folder.resolve())
        shutil.copytree(self.folder, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK))


class HeadsResult(HeadsRun, StudyResult[HeadsRunSettings]):
    """Which heads carry a bias: `scores`, `ranked`, `clear_heads`, `seat`, `removals`, `counter` ..."""

    def lines(self) -> Sequence[Line]:
        """Every head with its score, the most biased first."""
        return [{**line_of(score), "clear": score.clear} for score in self.ranked]

    def chart(self) -> Chart:
        """The heat map of scores; red adds to the bias, blue counteracts it."""
        return heat_map(self, signed=True)

    def _places(self) -> str:
        """On the page, the most biased head is chosen."""
        chosen = self.ranked[0].head if self.ranked else None
        return links(self.weights, PageState(head=chosen))


class HeadComparisonResult(HeadComparisonRun, StudyResult[HeadComparisonSettings]):
    """The heads of several models side by side: `models`, `scores`, `pairs`, `flips`."""

    def lines(self) -> Sequence[Line]:
        """Every head of every model."""
        return [line_of(score) for score in self.scores]

    def chart(self) -> Chart:
        """The models' heat maps side by side."""
        return side_by_side(self, signed=True)


class PlantedResult(PlantedRun, StudyResult[PlantedRunSettings]):
    """Which localizers find planted heads: `summary`, `trials`, `base`."""

    def lines(self) -> Sequence[Line]:
        """Means over seeds."""
        return [line_of(each) for each in self.summary]

    def chart(self) -> Chart:
        """Precision and mean rank of every localizer."""
        measured = [
            Labeled(f"{each.kind}: {each.localizer or 'all'} {each.way}", each.measurement)
            for each in self.summary
        ]
        return intervals(measured, f"Which localizer finds heads planted into {self.model}?")


class MitigateResult(MitigateRun, StudyResult[MitigateRunSettings]):
    """What mitigations buy and cost: `candidates`, `certified`, `detected`, `moved`, `left_out`."""

    def lines(self) -> Sequence[Line]:
        """Every candidate, in the order of the tests."""
        return [
            {
                "mitigation": each.name,
                "bias": each.certificate.bias,
                "before": each.certificate.before,
                "after": each.certificate.after,
                "p": each.certificate.p,
                "verdict": each.certificate.verdict,
            }
            for each in self.candidates
        ]

    def chart(self) -> Chart:
        """Bias against cost; the certified mitigation has a ring."""
        drawn = picture(self)
        if drawn is None:
            raise CannotDo(f"No mitigation could be tried on {self.model}: there is nothing to draw.")
        return drawn


class AtlasResult(AtlasRun, StudyResult[AtlasRunSettings]):
    """The heads behind several objectives: `objectives`, `heads`, `significant`, `agreements`, `top`."""

    @property
    def sentence(self) -> str:
        """Whether the maps agree beyond null models; with `transfer`, whether lowering one bias measure
        lowers another."""
        return " ".join(filter(None, (atlas_sentence(self), transfer_sentence(self))))

    def lines(self) -> Sequence[Line]:
        """Every head in every map."""
        return [{**line_of(each), "significant": each.significant} for each in self.heads]

    def chart(self) -> Chart:
        """The maps side by side."""
        if not self.objectives:
            raise CannotDo(f"{self.folder} has no map yet. Run the same command again; it goes on.")
        return maps_chart(self)


class SweepResult(SweepRun, StudyResult[SweepRunSettings]):
    """Projections of every kind on two models: `measured`, `table7`, `observations`, `correlation` ..."""

    @property
    def table7(self) -> list[Table7Line]:
        """Every setting as a line of the paper's Table 7, deeper ones last."""
        return layout.TABLE7.read(self.folder)

    def lines(self) -> Sequence[Line]:
        """Every measure of every setting."""
        return [line_of(each) for each in self.measured]

    def chart(self) -> Chart:
        """What each setting buys and costs, on the classifier."""
        if not (charts := sweep_charts(self)):
            raise CannotDo(f"{self.folder} has no setting with bias and ability measured: nothing to plot.")
        return charts[0]


class PromptsResult(PromptsRun, StudyResult[PromptsRunSettings]):
    """What knowledge before a question does: `cells`, `knowledge()`, `log_odds()`, `occupations(model)`."""

    def lines(self) -> Sequence[Line]:
        """Every measure of every kind of knowledge."""
        return [line_of(cell) for cell in self.cells]

    def chart(self) -> Chart:
        """Log-odds after each kind of knowledge, with intervals and verdicts."""
        return log_odds_panels(self, corrected(self, {}))


class GlueResult(GlueRun, StudyResult[GlueRunSettings]):
    """What a model can still learn: `cells`, `costs`, `units`, `measured(recipe)`."""

    def lines(self) -> Sequence[Line]:
        """Every metric of every task for every recipe."""
        return [line_of(cell) for cell in self.cells]

    def chart(self) -> Chart:
        """The score along the training."""
        return learning_curves(self, curve_controls(self))[0]


class AuditResult(AuditRun, StudyResult[AuditRunSettings]):
    """An audit: `headline`, `measured`, `verified`, `mitigations`; the runs inside it, `heads`, `prompts`."""

    def __getitem__(self, measure: str) -> Measurement:
        """A measure of the unmodified model: audit["seat"].value."""
        return self.measurements[BASE][measure]

    @cached_property
    def measurements(self) -> Mapping[str, Mapping[str, Measurement]]:
        """Measurements by variant and measure, the unmodified model first."""
        return self.by_variant()

    @property
    def report(self) -> Path:
        """The page, one HTML file; `save` takes it along."""
        return self.folder / layout.REPORT.name

    @cached_property
    def heads(self) -> HeadsResult | None:
        """The heads study inside the audit; like the others it keeps a temporary folder as the audit does."""
        run = super().heads
        return None if run is None else HeadsResult(run.data, self.scratch)

    @cached_property
    def prompts(self) -> PromptsResult | None:
        """The CounterActs study inside the audit."""
        run = super().prompts
        return None if run is None else PromptsResult(run.data, self.scratch)

    @cached_property
    def glue(self) -> GlueResult | None:
        """The GLUE study inside the audit."""
        run = super().glue
        return None if run is None else GlueResult(run.data, self.scratch)

    def lines(self) -> Sequence[Line]:
        """Every measure of the unmodified model and of every way out."""
        return [line_of(each) for each in (*self.measured, *self.verified)]

    def chart(self) -> Chart:
        """Every measure before and after, with intervals."""
        return intervals([_of_variant(each) for each in (*self.measured, *self.verified)], self.model)

    def _repr_html_(self) -> str:
        if self.headline is None:
            return super()._repr_html_()
        shown = notebook_html(self.headline.text, self.headline.findings, self.measurements)
        return shown + self.link.html + self._places()


class SurveyResult(SurveyRun, StudyResult[SurveyRunSettings]):
    """Many models on the same questions: `table`, `differences`, `failures`, `tasks`."""

    @property
    def report(self) -> Path:
        """The page."""
        return self.folder / layout.REPORT.name

    def lines(self) -> Sequence[Line]:
        """Every measure of every model, and models that could not be asked."""
        return [line_of(line) for line in self.table]

    def chart(self) -> Chart:
        """Every model on every measure that models are compared by, with intervals."""
        ranked = [
            Labeled(f"{bias}: {line.model}", line_measurement(line, info))
            for bias, info, lines in rankings(self)
            for line in lines
        ]
        return intervals(ranked, self.caption)


class BenchmarkResult(BenchmarkRun, StudyResult[BenchmarkRunSettings]):
    """Every score of a benchmark by its name: `result["crows-pairs share"]`, `scores`, `used`."""

    @property
    def caption(self) -> str:
        """The model, the benchmark and the rule."""
        used = self.used
        return self.model if used is None else f"{self.model}: {used.title}, rule {used.rule}"

    def lines(self) -> Sequence[Line]:
        """Every score."""
        return [measured_cells(each) for each in self.measurements.values()]

    def chart(self) -> Chart:
        """Every score with its interval."""
        return intervals([Labeled(name, each) for name, each in self.measurements.items()], self.caption)

    @property
    def link(self) -> Link:
        """What benchmarks ask, and how they are scored."""
        return document_link(Document.BENCHMARKS)


def _of_variant(each: MeasuredVariant) -> Labeled:
    return Labeled(each.variant, each.measurement)


AnyResult = (
    HeadsResult
    | HeadComparisonResult
    | PlantedResult
    | SweepResult
    | PromptsResult
    | GlueResult
    | AuditResult
    | SurveyResult
    | MitigateResult
    | AtlasResult
    | BenchmarkResult
)


open_heads = HeadsResult.open
open_head_comparison = HeadComparisonResult.open
open_planted = PlantedResult.open
open_mitigate = MitigateResult.open
open_atlas = AtlasResult.open
open_sweep = SweepResult.open
open_prompts = PromptsResult.open
open_glue = GlueResult.open
open_audit = AuditResult.open
open_survey = SurveyResult.open
