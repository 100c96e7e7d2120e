"""Published benchmarks as measure(benchmark, model, settings) -> its result."""

from __future__ import annotations

from pathlib import Path

from levelhead.api.results import BenchmarkResult
from levelhead.api.studies import AnyModel, Folder, Place, loaded
from levelhead.studies.benchmark import BenchmarkSettings, run_benchmark


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
