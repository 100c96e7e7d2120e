"""`levelhead measure`: published benchmarks, on files of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Force, Json, Loading, app, loads, print_json, print_table, provenance
from levelhead.cli.measured import end_measured, write_measured
from levelhead.cli.options import Limit, NullTwins, Seed
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.api.benchmarks import BenchmarkResult, BenchmarkSettings

_FILES = (".csv", ".tex", ".json")


@app.command()
@loads
def measure(
    benchmark: Annotated[str, typer.Argument(help="crows-pairs, bbq ...; --list tells all.")] = "",
    model: Annotated[
        str | None, typer.Argument(help="The model that is scored: shipped, hub name, folder or .gguf.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="PATH|hub:NAME", help="The published file, or a folder that holds it."),
    ] = None,
    rule: Annotated[str | None, typer.Option(help="How answers are scored; --list tells all.")] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="Of the benchmark's own categories; repeatable. Default: all.")
    ] = None,
    limit: Limit = None,
    null: NullTwins = 0,
    chat: Annotated[
        bool, typer.Option("--chat", help="Ask through the chat template of the model's tokenizer.")
    ] = False,
    from_predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Score published predictions in place of a model."),
    ] = None,
    known: Annotated[
        bool, typer.Option("--list", help="What each benchmark asks, its rules, licence and source.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE|FOLDER", help="Also write .csv, .tex, .json, or all."),
    ] = None,
    force: Force = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Score a model on a published benchmark: CrowS-Pairs, StereoSet, BBQ, WinoBias ..."""
    if known:
        _print_list(json)
        return
    if not benchmark or data is None or (model is None) == (from_predictions is None):
        raise BadOption(
            "Give a benchmark, a model or --from-predictions, and --data with its file; --list tells all."
        )
    from levelhead.api.benchmarks import BenchmarkSettings

    settings = BenchmarkSettings(data, rule, tuple(category or ()), limit, null, chat, seed=seed)
    folder = None if out is not None and out.suffix in _FILES else out
    source = from_predictions if model is None else model
    result, stated = _measured(benchmark, source, settings, folder, loading)
    if folder is None:
        write_measured(out, list(result.measurements.values()), force)
    if json:
        about = {"benchmark": result.benchmark, "rule": result.rule, "items": result.items}
        print_json({**stated, **about, "measurements": result.measurements})
        return
    _print(result, null)
    end_measured(list(result.measurements.values()))


def _measured(
    benchmark: str, source: str | Path | None, settings: BenchmarkSettings, out: Path | None, loading: Loading
) -> tuple[BenchmarkResult, dict[str, object]]:
    """The result of a model, or of a file of predictions, and what stands behind its numbers."""
    from levelhead.api.benchmarks import measure as measured
    from levelhead.api.benchmarks import measure_predictions
    from levelhead.models.model import load
    from levelhead.scoring.benchmarks.catalog import benchmark_of

    if isinstance(source, Path):
        result = measure_predictions(benchmark, source, settings, out)
        return result, {"predictions": str(source), "data": result.data, "versions": result.versions}
    benchmark_of(benchmark).load(settings.data, settings.asked)  # mistakes are found before weights load
    asked = load(str(source), **loading)
    result = measured(benchmark, asked, settings, out)
    return result, provenance(asked, result.data)


def _print(result: BenchmarkResult, null: int) -> None:
    from levelhead.measures.choices import answerers_of
    from levelhead.scoring.benchmarks.catalog import benchmark_of

    lines = []
    for name, each in result.measurements.items():
        ends = "-" if each.interval is None else f"{each.interval[0]:.3f} to {each.interval[1]:.3f}"
        p = None if each.null is None else each.null.p_value
        value = each.reason if each.value is None else each.value
        beside = {key: each.details[f"answerer, {key}"] for key in answerers_of(each)}
        near = ", ".join(f"{key} {'-' if v is None else f'{v:.2f}'}" for key, v in beside.items())
        lines.append((name.removeprefix(f"{result.benchmark} "), value, ends, each.n, each.neutral, p, near))
    info = benchmark_of(result.benchmark).info
    print_table(
        f"{result.model} on {info.title}, rule {result.rule}, {result.items} items",
        ("score", "value", "95 % interval", "n", "neutral", "p", "artificial answerers"),
        lines,
        f"{info.warning}. {info.contamination[:1].upper()}{info.contamination[1:]}.",
    )
    first = next(iter(result.measurements.values()))
    for reason, count in first.unscored.items():
        print(f"Not scored: {count} ({reason})")
    if null < 2:
        print("Not held against null models: --null 19 asks as many of them too.")


def _print_list(json: bool) -> None:
    from dataclasses import asdict

    from levelhead.scoring.benchmarks.catalog import benchmarks

    infos = [each.info for each in benchmarks().values()]
    if json:
        print_json([asdict(info) for info in infos])
        return
    for info in infos:
        print(f"{info.name}: {info.title}. {info.question}")
        print(f"  needs {' or '.join(info.needs)}; neutral: {info.neutral}")
        for rule in info.rules:
            print(f"  rule {rule.name}: {rule.what}")
        print(f"  {info.licence}; {info.source}; {info.contamination}")
        print(f"  warning: {info.warning}")
