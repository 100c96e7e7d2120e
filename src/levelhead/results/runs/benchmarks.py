"""A run of a published benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.results import layout
from levelhead.results.records.benchmarks import BenchmarkUsed
from levelhead.results.records.common import MeasuredVariant
from levelhead.results.runs.study import StudyRun
from levelhead.results.settings import BenchmarkRunSettings


class BenchmarkRun(StudyRun[BenchmarkRunSettings]):
    """What a model, or a file of published predictions, scores on a benchmark."""

    LAYOUT = layout.BENCHMARK

    @property
    def model(self) -> str:
        """The model that was scored, or the name of the file whose predictions were."""
        return self.settings.model or Path(self.settings.predictions or "").name

    @property
    def used(self) -> BenchmarkUsed | None:
        """The benchmark, its rule and its warnings; None while the run is not finished."""
        return self.data.single(layout.BENCHMARK_USED)

    @property
    def scores(self) -> tuple[MeasuredVariant, ...]:
        """Every score, of all items first, then of their groups; before null models if those are not done."""
        return self.data.records(layout.BENCHMARK_SCORES) or self.data.records(layout.OWN_SCORES)

    @property
    def measures(self) -> tuple[MeasureInfo, ...]:
        """How its scores are shown and judged."""
        return self.data.records(layout.BENCHMARK_MEASURES)

    @property
    def measurements(self) -> Mapping[str, Measurement]:
        """Every score by its name."""
        return {each.name: each.measurement for each in self.scores}

    def __getitem__(self, name: str) -> Measurement:
        return self.measurements[name]
