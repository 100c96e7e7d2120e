"""`levelhead measure`: published benchmarks, on files of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Force, Json, Loading, app, loads, print_json, print_table
from levelhead.cli.measured import end_measured, write_measured
from levelhead.cli.options import Limit, Seed
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.results.runs import BenchmarkRun

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
    null: Annotated[
        int | None,
        typer.Option(min=0, metavar="K", help="Null models to hold scores against. Default 5; 0: none."),
    ] = None,
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
        typer.Option(
            "-o",
            "--output",
            metavar="RUN|FILE",
            help="Folder for the run, which goes on if it was begun; or a .csv, .tex or .json file.",
        ),
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
    from levelhead.api.shown import Scratch
    from levelhead.models.model import load
    from levelhead.studies import benchmark as study
    from levelhead.studies.benchmark import BenchmarkSettings

    asked = tuple(category or ())
    settings = BenchmarkSettings(
        data, rule, asked, limit, null, chat, seed=seed, predictions=from_predictions
    )
    folder = None if out is not None and out.suffix in _FILES else out
    scratch = Scratch()  # for a run that nobody keeps
    settings.of(benchmark)  # mistakes are found before weights load
    subject = None if model is None else load(model, **loading)
    run = study.run_benchmark(benchmark, subject, settings, folder or scratch.path / benchmark)
    if folder is None:
        write_measured(out, list(run.measurements.values()), force)
    page = None if folder is None else _page(folder)
    if json:
        print_json(_stated(run, page))
        return
    _print(run)
    if page is not None:
        print(f"Report: {page}")
    end_measured(list(run.measurements.values()))


def _page(folder: Path) -> Path:
    from levelhead.pages.page import write_report

    return write_report(folder)


def _stated(run: BenchmarkRun, page: Path | None) -> dict[str, object]:
    """What `--json` prints: the scores, and what stands behind them."""
    return {
        **({} if page is None else {"run": str(run.folder), "report": str(page)}),
        "model": run.model,
        "settings": run.settings,
        "benchmark": run.used,
        "data": run.data.hashes,
        "versions": run.data.versions,
        "measurements": run.measurements,
    }


def _print(run: BenchmarkRun) -> None:
    from levelhead.inference.claims import tested_p
    from levelhead.measures.choices import answerers_of
    from levelhead.measures.score_infos import main_names

    used = run.used
    if used is None:
        raise BadOption(f"The run in {run.folder} is not finished. Run the same command again; it goes on.")
    lines, beside, whole = [], [], main_names(list(run.measurements))
    for name, each in run.measurements.items():
        ends = "-" if each.interval is None else f"{each.interval[0]:.3f} to {each.interval[1]:.3f}"
        value = each.reason if each.value is None else each.value
        of_nulls = each.null.floor if each.null is not None and each.null.of_models else None
        score = name.removeprefix(f"{used.benchmark} ")
        lines.append((score, value, ends, each.n, each.neutral, of_nulls, tested_p(each)))
        near = ", ".join(f"{key} {'-' if v is None else f'{v:.2f}'}" for key, v in answerers_of(each).items())
        beside += [f"Artificial answerers, {score}: {near}"] if near and name in whole else []
    print_table(
        f"{run.model} on {used.title}, rule {used.rule}, {used.items} items",
        ("score", "value", "95 % interval", "n", "neutral", "null models", "p"),
        lines,
        f"{used.warning}. {used.contamination[:1].upper()}{used.contamination[1:]}.",
    )
    for line in beside:
        print(line)
    for reason, count in used.unscored.items():
        print(f"Not scored: {count} ({reason})")
    if run.settings.model and run.settings.null < 2:
        print("Not held against null models: leave --null 0 out to ask some of them too.")


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
