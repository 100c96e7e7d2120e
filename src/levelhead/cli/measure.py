"""`levelhead measure`: published benchmarks, on files of the user's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Force, Json, Loading, app, loads, print_json
from levelhead.cli.endings import NUMBERS, ending, output_file
from levelhead.cli.grouped import Options
from levelhead.cli.measured import end_measured, write_measured
from levelhead.cli.options import Limit, Seed, null_models
from levelhead.cli.terminal import print_link
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.results.runs import BenchmarkRun
    from levelhead.studies.benchmark import BenchmarkSettings


@dataclass(frozen=True)
class MeasureOptions(Options):
    """Which items of a benchmark are asked, and how answers are scored."""

    data: Annotated[
        str | None,
        typer.Option(metavar="PATH|hub:NAME", help="The published file, or a folder that holds it."),
    ] = None
    rule: Annotated[str | None, typer.Option(help="How answers are scored; --list tells all.")] = None
    category: Annotated[
        list[str] | None, typer.Option(help="Of the benchmark's own categories; repeatable. Default: all.")
    ] = None
    limit: Limit = None
    null: Annotated[
        int | None,
        null_models("Null models, on all items. Default: up to 5 on some of them"),
    ] = None
    chat: Annotated[
        bool, typer.Option("--chat", help="Ask through the chat template of the model's tokenizer.")
    ] = False
    from_predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Score published predictions in place of a model."),
    ] = None
    seed: Seed = 0

    def settings(self, benchmark: str, model: str | None) -> BenchmarkSettings:
        """What is asked; mistakes are found before weights load."""
        from levelhead.studies.benchmark import BenchmarkSettings

        if not benchmark or self.data is None or (model is None) == (self.from_predictions is None):
            raise BadOption(
                "Give a benchmark, a model or --from-predictions, and --data with its file; --list tells all."
            )
        kinds, predictions = tuple(self.category or ()), self.from_predictions
        settings = BenchmarkSettings(
            self.data,
            self.rule,
            kinds,
            self.limit,
            self.null,
            self.chat,
            seed=self.seed,
            predictions=predictions,
        )
        settings.of(benchmark)
        return settings


@app.command()
@loads
def measure(
    asked: MeasureOptions,
    benchmark: Annotated[str, typer.Argument(help="crows-pairs, bbq ...; --list tells all.")] = "",
    model: Annotated[
        str | None, typer.Argument(help="The model that is scored: shipped, hub name, folder or .gguf.")
    ] = None,
    known: Annotated[
        bool, typer.Option("--list", help="What each benchmark asks, its rules, licence and source.")
    ] = False,
    out: Annotated[
        Path | None,
        output_file("Folder for the run, which goes on if it was begun; or a file:", *NUMBERS, folder=True),
    ] = None,
    force: Force = False,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Score a model on a published benchmark: CrowS-Pairs, StereoSet, BBQ, WinoBias ..."""
    if known:
        _print_list(json)
        return
    from levelhead.api.shown import Scratch
    from levelhead.models.model import load
    from levelhead.pages.page import write_report
    from levelhead.studies.benchmark import run_benchmark

    settings = asked.settings(benchmark, model)
    folder = None if out is not None and ending(out) in NUMBERS else out
    scratch = Scratch()  # for a run that nobody keeps
    subject = None if model is None else load(model, **loading)
    run = run_benchmark(benchmark, subject, settings, folder or scratch.path / benchmark)
    if folder is None:
        write_measured(out, list(run.measurements.values()), force)
    page = None if folder is None else write_report(folder)
    print_json(_stated(run, page)) if json else _print(run, kept=folder is not None)


def _print(run: BenchmarkRun, kept: bool) -> None:
    from levelhead.cli.printed import print_run
    from levelhead.measures.catalog import NOT_COMPARED

    print_run(run.folder)
    if run.settings.model and run.settings.null == 0:
        print(f"{NOT_COMPARED[0].upper()}{NOT_COMPARED[1:]}. Leave --null out to compare with some.")
    if kept:
        print_link(run.folder, run.LAYOUT)
    end_measured(list(run.measurements.values()))


def _stated(run: BenchmarkRun, page: Path | None) -> dict[str, object]:
    """What `--json` prints: the scores, and what stands behind them."""
    from levelhead.measures.catalog import NOT_COMPARED

    uncompared = run.settings.model and not run.settings.null
    return {
        **({} if page is None else {"run": str(run.folder), "report": str(page)}),
        **({"null_models": NOT_COMPARED} if uncompared else {}),
        "model": run.model,
        "settings": run.settings,
        "benchmark": run.used,
        "data": run.data.hashes,
        "versions": run.data.versions,
        "measurements": run.measurements,
    }


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
