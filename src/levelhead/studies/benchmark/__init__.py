"""Published benchmarks: what does a model score, and is that more than null models do?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from levelhead.errors import CannotDo
from levelhead.measures.catalog import NOT_COMPARED, MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.runs.common import MeasuredVariant, NullScore
from levelhead.runs.study import REPORT, Many, One, Parts, Study
from levelhead.studies.benchmark.records import BenchmarkUsed
from levelhead.studies.benchmark.settings import BenchmarkSettings, BenchmarkStored


class Benchmark(Study[BenchmarkStored]):
    """Every score of a benchmark by its name: `result["crows-pairs share"]`, `scores`, `used`."""

    name = "benchmark"
    title = "Published benchmark"
    question = "What does the model score, and is that more than null models do?"
    about = "Score a model on a published benchmark: CrowS-Pairs, StereoSet, BBQ, WinoBias ..."
    settings_type = BenchmarkSettings
    stored = BenchmarkStored
    takes = "model or none"
    order = 50
    writes_page = True
    document = "benchmarks.md"
    old_name = "measure"
    lists = True
    unserved = ""

    own_scores = Many(MeasuredVariant, "Of the model, before null models were evaluated.")
    null_scores = Parts(NullScore, "Of null models; labels: 1, 2 ...")
    compared = Many(MeasuredVariant, "Scores compared with null models, where there are some.")
    used = One(BenchmarkUsed, "The benchmark, its rule and its warnings; None while the run is not finished.")
    measures = Many(MeasureInfo, "How its scores are shown and judged.")

    @property
    def model(self) -> str:
        """The model that was scored, or the name of the file whose predictions were."""
        return self.settings.model or Path(self.settings.from_predictions or "").name

    @property
    def scores(self) -> tuple[MeasuredVariant, ...]:
        """Every score, of all items first, then of their groups; before null models if those are not done."""
        return self.compared or self.own_scores

    @property
    def measurements(self) -> Mapping[str, Measurement]:
        """Every score by its name."""
        return {each.name: each.measurement for each in self.scores}

    def __getitem__(self, name: str) -> Measurement:
        return self.measurements[name]

    @property
    def caption(self) -> str:
        """The model, the benchmark and the rule."""
        used = self.used
        return self.model if used is None else f"{self.model}: {used.title}, rule {used.rule}"

    def notes(self) -> list[str]:
        """Where the results are, and that no null model was evaluated where that is so."""
        uncompared = self.settings.model and self.settings.null == 0
        text = f"{NOT_COMPARED[0].upper()}{NOT_COMPARED[1:]}. Leave --null out to compare with some."
        answers = [f"Answers: {self.used.answers}."] if self.used is not None and self.used.answers else []
        return [*answers, *([text] if uncompared else []), *super().notes()]

    def check_measured(self) -> None:
        measured = list(self.measurements.values())
        reasons = dict.fromkeys(each.reason for each in measured if each.value is None)
        if measured and all(each.value is None for each in measured):
            raise CannotDo(f"Nothing was measured: {'; '.join(reasons)}.")

    def stated(self) -> dict[str, object]:
        """What `--json` prints: the scores, and what stands behind them."""
        uncompared = self.settings.model and not self.settings.null
        return {
            "run": str(self.folder),
            **({"report": str(self.folder / REPORT.name)} if (self.folder / REPORT.name).is_file() else {}),
            **({"null_models": NOT_COMPARED} if uncompared else {}),
            "model": self.model,
            "settings": self.settings,
            "benchmark": self.used,
            "data": self.data.hashes,
            "versions": self.data.versions,
            "measurements": self.measurements,
        }
