"""`levelhead survey`: many models on the same questions, in one table and on one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json
from levelhead.cli.options import Benchmarks, Biases, OwnMeasures, RunFolder, Seed
from levelhead.cli.preflight import files_by_name, listed
from levelhead.cli.terminal import print_link
from levelhead.errors import CannotDo

if TYPE_CHECKING:
    from levelhead.results.runs import SurveyRun


@app.command()
@loads
def survey(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="MODELS...", help="Names, a .txt file with one a line, a folder of checkpoints."
        ),
    ],
    out: RunFolder = Path("runs/survey"),
    bias: Biases = "gender",
    measures: Annotated[
        str | None, typer.Option(help="Of seat, lpbs, triples, inference, fluency, your own. Default: all.")
    ] = None,
    measure: OwnMeasures = None,
    benchmark: Benchmarks = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer items: wider intervals, sooner.")] = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Measure many models, rank them, and say which of their differences are real."""
    from levelhead.scoring.registry import load_measures
    from levelhead.surveying import SurveySettings
    from levelhead.surveying import survey as ask_all

    for file in measure or ():
        load_measures(file)
    published = files_by_name("--benchmark", benchmark or [])
    asked = tuple(listed(measures or ""))
    settings = SurveySettings(tuple(listed(bias)), asked, quick, seed, benchmarks=published)
    run = ask_all(sources, out, settings, **loading)
    if json:
        print_json(
            {
                "run": str(out),
                "models": [line.to_json() for line in run.table],
                "differences": [each.to_json() for each in run.differences],
            }
        )
    else:
        _print(run)
    if all(task.failed for task in run.tasks):
        raise CannotDo(f"No model could be measured: {'; '.join(sorted({t.reason for t in run.tasks}))}")


def _print(run: SurveyRun) -> None:
    from levelhead.cli.printed import print_run
    from levelhead.results import layout
    from levelhead.surveying.tables import NO_PARQUET

    print_run(run.folder)
    if not (run.folder / layout.SURVEY_PARQUET).exists():
        print(f"\n{NO_PARQUET}")
    print(f"\nTable: {run.folder / layout.SURVEY_TABLE.name}")
    print_link(run.folder, run.LAYOUT)
