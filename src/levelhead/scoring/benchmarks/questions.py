"""Published benchmarks as questions of audits and surveys: the scores of all items, in every variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from levelhead.edits.sites import Variant
from levelhead.measures.measurement import Measurement
from levelhead.measures.score_infos import main_names
from levelhead.models.model import Model
from levelhead.results.presets import BENCHMARK_NULLS
from levelhead.scoring.battery import Answers, Battery
from levelhead.scoring.benchmarks.catalog import benchmark_of
from levelhead.scoring.benchmarks.nulls import AskedBenchmark, NullPlan, with_nulls
from levelhead.scoring.benchmarks.protocol import Asked, Benchmark, Items
from levelhead.scoring.registry import Question

BenchmarkFiles = Mapping[str, str | Path]  # the published file or folder of each benchmark, by its name


@dataclass(frozen=True)
class _Published:
    """A benchmark with its items as a question, by its first rule."""

    benchmark: Benchmark
    items: Items

    def __call__(self, model: Model, variants: Sequence[Variant], battery: Battery) -> Answers:
        info = self.benchmark.info
        if reason := self.benchmark.why_not(model):
            missing = [Measurement.missing(each.name, reason) for each in info.measures]
            return [missing for _ in variants]
        asked = AskedBenchmark(self.benchmark, self.items, info.rule(None).name, battery.resampling)
        nulls = NullPlan(min(BENCHMARK_NULLS, battery.null))
        answers = asked.scores_of(model, variants)
        return [
            _main(measured if edits else with_nulls(asked, measured, nulls, model))
            for measured, edits in zip(answers, variants, strict=True)
        ]


def _main(measured: Sequence[Measurement]) -> list[Measurement]:
    """Scores of all items; `levelhead measure` has those of groups too."""
    names = main_names([each.name for each in measured])
    return [each for each in measured if each.name in names]


def benchmark_questions(files: BenchmarkFiles, limit: int | None) -> tuple[Question, ...]:
    """Benchmarks as questions; limit: at most so many items of each, evenly spread."""
    found = []
    for name, data in files.items():
        known = benchmark_of(name)
        found.append(
            Question(name, known.info.measures, _Published(known, known.load(data, Asked(limit=limit))))
        )
    return tuple(found)


def benchmark_hashes(asked: Sequence[Question]) -> dict[str, str]:
    """A hash of the items of every benchmark among some questions."""
    return {
        f"items of {each.name}": each.ask.items.fingerprint
        for each in asked
        if isinstance(each.ask, _Published)
    }
