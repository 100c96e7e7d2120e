"""Benchmarks as questions of audits and surveys, by their first rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levelhead.edits.sites import Variant
from levelhead.engine.served.writing import Wanted
from levelhead.measures.catalog import main_names
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.runs.presets import BENCHMARK_NULLS
from levelhead.scoring.battery import Answers, Battery
from levelhead.scoring.benchmarks.catalog import (
    BenchmarkFiles,
    LoadedBenchmark,
    NullPlan,
    benchmark_of,
    with_nulls,
)
from levelhead.scoring.benchmarks.protocol import Benchmark, Items, Selection
from levelhead.scoring.benchmarks.served import USUAL_SAMPLES, served_scores, wanted_of
from levelhead.scoring.registry import OnServer, Question


@dataclass(frozen=True)
class Published:
    """A benchmark with its items as a question, by its first rule."""

    benchmark: Benchmark
    items: Items

    def __call__(self, model: Model, variants: Sequence[Variant], battery: Battery) -> Answers:
        info = self.benchmark.info
        if reason := self.benchmark.why_not(model):
            missing = [Measurement.missing(each.name, reason) for each in info.measures]
            return [missing for _ in variants]
        loaded = self._loaded(battery)
        nulls = NullPlan(min(BENCHMARK_NULLS, battery.null))
        answers = []
        for measured, edits in zip(loaded.scores(model, variants), variants, strict=True):
            held = measured if edits else with_nulls(loaded, measured, nulls, model)
            answers.append(_main(held))
        return answers

    def of_server(self, model: ServedModel, battery: Battery) -> list[Measurement]:
        """Its scores of a model behind a server."""
        return _main(served_scores(self._loaded(battery), model, USUAL_SAMPLES))

    def wanted(self, model: ServedModel, battery: Battery) -> list[Wanted]:
        """What they take of the server, at most."""
        return wanted_of(self._loaded(battery), model, USUAL_SAMPLES)

    def _loaded(self, battery: Battery) -> LoadedBenchmark:
        rule = self.benchmark.info.rule(None).name
        return LoadedBenchmark(self.benchmark, self.items, rule, battery.resampling)


def _main(measured: Sequence[Measurement]) -> list[Measurement]:
    """Scores of all items; `levelhead benchmark` has those of groups too."""
    names = main_names([each.name for each in measured])
    return [each for each in measured if each.name in names]


def benchmark_questions(files: BenchmarkFiles, limit: int | None) -> tuple[Question, ...]:
    """Benchmarks as questions; limit: at most so many items of each, evenly spread."""
    found = []
    for name, data in files.items():
        known = benchmark_of(name)
        published = Published(known, known.load(data, Selection(limit=limit)))
        on_server = OnServer(published.of_server, published.wanted)
        found.append(Question(name, known.info.measures, published, on_server))
    return tuple(found)


def benchmark_hashes(loaded: Sequence[Question]) -> dict[str, str]:
    return {
        f"items of {each.name}": each.ask.items.fingerprint
        for each in loaded
        if isinstance(each.ask, Published)
    }
