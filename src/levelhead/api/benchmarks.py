"""Published benchmarks as measure(benchmark, model, settings) -> its result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from levelhead.api.results import StudyResult
from levelhead.api.shown import Line, measured_cells
from levelhead.api.studies import AnyModel, Folder, Place, loaded
from levelhead.pages.charts.base import Chart
from levelhead.pages.charts.intervals import Labeled, intervals
from levelhead.pages.links import Document, Link, document_link
from levelhead.results.runs import BenchmarkRun
from levelhead.results.settings import BenchmarkRunSettings
from levelhead.studies.benchmark import BenchmarkSettings, run_benchmark


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


def measure(
    benchmark: str, model: AnyModel | None, settings: BenchmarkSettings | str | Path, folder: Folder = None
) -> BenchmarkResult:
    """Score a model on a published benchmark (docs/benchmarks.md). A path may stand for the settings.

    model: None where the settings name published predictions, which are scored in its place.
    """
    asked = settings if isinstance(settings, BenchmarkSettings) else BenchmarkSettings(settings)
    asked.of(benchmark)  # mistakes are found before weights load
    place, subject = Place.of(folder), None if model is None else loaded(model)
    return BenchmarkResult(run_benchmark(benchmark, subject, asked, place.run).data, place.scratch)
