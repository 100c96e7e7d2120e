"""A published benchmark on one model, or on predictions that somebody published (docs/benchmarks.md).

scores   of the model, each with its own test, item by item kept for comparisons
null     the same scores of null models, one after the other; the harder of the two tests counts
run      results.jsonl: a killed run goes on behind the last null model
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from levelhead.engine.effort import plan_by
from levelhead.engine.served.writing import requests_plan
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.progress import Plan, announce, counted_work, duration
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run, file_hash
from levelhead.runs.presets import BENCHMARK_ITEMS
from levelhead.runs.study import stored_as
from levelhead.scoring.benchmarks.catalog import (
    LoadedBenchmark,
    NullPlan,
    benchmark_of,
    benchmarks,
    usual_nulls,
    with_nulls,
)
from levelhead.scoring.benchmarks.choices import ChoiceBenchmark
from levelhead.scoring.benchmarks.protocol import BenchmarkInfo, Selection, spread
from levelhead.scoring.benchmarks.served import USUAL_SAMPLES, how_answered, served_scores, wanted_of
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.studies.benchmark import Benchmark
from levelhead.studies.benchmark.records import BenchmarkUsed
from levelhead.studies.benchmark.settings import BenchmarkSettings, BenchmarkStored

_TIMED = 6  # items that say how long all of them take
Open = Run[BenchmarkStored]


def listing(settings: BenchmarkSettings) -> list[BenchmarkInfo]:
    """What each benchmark asks, its rules, licence and source."""
    return [each.info for each in benchmarks().values()]


def benchmark(
    model: Model | ServedModel | None, settings: BenchmarkSettings, folder: str | Path
) -> Benchmark:
    """Score a model and write the scores into a folder; a killed run there is finished.

    model: None where the settings name published predictions, which are scored in its place.
    """
    if not settings.benchmark or not settings.data:
        raise BadOption(
            "Give a benchmark, a model or --from-predictions, and --data with its file; --list tells all."
        )
    if (model is None) == (settings.from_predictions is None):
        raise BadOption("Give a model, or published predictions in its place.")
    known = benchmark_of(settings.benchmark)
    wanted = Selection(tuple(settings.categories), settings.limit, settings.chat)
    rule, items = known.info.rule(settings.rule).name, known.load(settings.data, wanted)
    loaded = LoadedBenchmark(known, items, rule, Resampling(settings.resamples, settings.seed, items=True))
    if model is None:  # answers that somebody published: StereoSet's predictions, BBQ's results
        if not isinstance(known, ChoiceBenchmark):
            raise CannotDo(f"{known.info.name} does not read published predictions. Give a model.")
        file = Path(settings.from_predictions or "")
        answered = known.predicted(items, file)
        measured = loaded.about(known.measured(answered, 0, rule, loaded.resampling))
        stored = stored_as(BenchmarkStored, settings, study=Benchmark.name, benchmark=known.info.name, null=0)
        hashes = {"items": items.fingerprint, "predictions": file_hash(file)}
        with Run.open(folder, Benchmark, stored, hashes=hashes) as run:
            run.results(Benchmark.compared, lambda: _records(file.name, measured))
            _note(loaded, measured, run)
            return Benchmark(run.data())
    if isinstance(model, ServedModel):
        return _on_server(loaded, model, settings, folder)
    if settings.samples is not None:
        raise BadOption(
            f"samples changes nothing for {model.name}, whose likelihoods are read. Leave it out."
        )
    if reason := known.why_not(model, rule):
        raise CannotDo(f"{reason}. Its rules: {', '.join(each.name for each in known.info.rules)}.")
    plan = usual_nulls(len(items.items)) if settings.null is None else NullPlan(settings.null)
    stored = stored_as(
        BenchmarkStored,
        settings,
        study=Benchmark.name,
        models=(model.name,),
        benchmark=known.info.name,
        abilities=tuple(sorted(model.abilities)),
        loading=loaded_as([model]),
    )
    hashes = {"weights": model.fingerprint, **model.facts(), "items": items.fingerprint}
    with Run.open(folder, Benchmark, stored, hashes=hashes) as run, keeping_long_work(run, [model]):
        if Benchmark.compared not in run:
            announce(lambda: _times(loaded, model, plan))
        own = run.results(Benchmark.own_scores, lambda: _records(model.name, loaded.scores(model)[0]))
        measured = [each.measurement for each in own]
        scores = with_nulls(
            loaded,
            measured,
            plan,
            model,
            lambda label, compute: run.results(Benchmark.null_scores.of(label), compute),
        )
        run.results(Benchmark.compared, lambda: _records(model.name, scores))
        _note(loaded, measured, run)
        note_places(run, [model])
        return Benchmark(run.data())


def _on_server(
    loaded: LoadedBenchmark, model: ServedModel, settings: BenchmarkSettings, folder: str | Path
) -> Benchmark:
    """The scores of a model behind a server: by likelihoods it has proved, else of sampled answers."""
    if settings.null:
        raise CannotDo(f"null must be 0 for {model.name}: null models change weights, which a server keeps.")
    samples = settings.samples or USUAL_SAMPLES
    stored = stored_as(
        BenchmarkStored,
        settings,
        study=Benchmark.name,
        models=(model.name,),
        benchmark=loaded.benchmark.info.name,
        abilities=tuple(sorted(model.abilities)),
    )
    hashes = {**model.facts(), "items": loaded.items.fingerprint}
    with Run.open(folder, Benchmark, stored, hashes=hashes) as run:
        wanted = wanted_of(loaded, model, samples)
        shorter = "--limit takes fewer items"
        announce(lambda: replace(requests_plan(model, wanted, run.folder), shorter=shorter))
        with keeping_long_work(run, [model]):
            own = run.results(
                Benchmark.own_scores, lambda: _records(model.name, served_scores(loaded, model, samples))
            )
        run.results(Benchmark.compared, lambda: own)
        _note(loaded, [each.measurement for each in own], run)
        return Benchmark(run.data())


def _records(model: str, measured: Sequence[Measurement]) -> list[MeasuredVariant]:
    return [MeasuredVariant(BASE, model, each) for each in measured]


def _times(loaded: LoadedBenchmark, model: Model, plan: NullPlan) -> Plan:
    """What the benchmark takes on this machine, by a few of its items, and what is shorter."""
    n = len(loaded.items.items)
    few = replace(loaded, items=loaded.items.chosen(spread(n, _TIMED)))
    with counted_work():
        few.own_scores(model)  # what happens once only
    once = plan_by(model, lambda: few.own_scores(model), n / len(few.items.items))
    shorter = f"--null 0 takes about {duration(once.seconds)}, --limit {BENCHMARK_ITEMS} fewer items"
    if plan.every > 1:
        shorter += f"; --null {plan.null}, on all items, about {duration(once.seconds * (1 + plan.null))}"
    return replace(once.times(1 + plan.work), shorter=shorter if plan.null else "")


def _note(loaded: LoadedBenchmark, measured: Sequence[Measurement], run: Open) -> None:
    """What a reader must know about the benchmark, and how its scores are shown."""
    info, items = loaded.benchmark.info, loaded.items
    rule = info.rule(loaded.rule)
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
        answers=how_answered(measured[0]) if measured else "",
    )
    run.results(Benchmark.measures, lambda: info.measures)
    run.result(Benchmark.used, lambda: used)
