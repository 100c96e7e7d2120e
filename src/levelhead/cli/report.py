"""`levelhead report`, `compare`, `check`, `card`: everything that is read from run folders alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, app, print_json, print_table
from levelhead.errors import BadProbe

if TYPE_CHECKING:
    from levelhead.report.compare import Comparison

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder that audit, heads, prompts or sweep wrote.")
]
RunFolders = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]


@app.command()
def report(
    runs: RunFolders,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write it. Default: RUN/report.html.")
    ] = None,
    json: Json = False,
) -> None:
    """Rebuild the report of each run: one HTML file that opens offline."""
    from levelhead.report.page import write_report

    if output is not None and len(runs) > 1:
        raise BadProbe(
            f"-o came with {len(runs)} runs. Give one run, or leave -o out: each gets its own report.html."
        )
    written = [write_report(run, output) for run in runs]
    if json:
        print_json({"reports": [str(path) for path in written]})
        return
    for path in written:
        print(path)


@app.command()
def compare(
    runs: RunFolders,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the comparison as HTML.")
    ] = None,
    json: Json = False,
) -> None:
    """Put runs side by side: models, or, with one audit, the model before and after."""
    from levelhead.report.compare import compare as put_side_by_side
    from levelhead.report.compare import comparison_html
    from levelhead.report.page import write_page

    found = put_side_by_side(runs)
    if output is not None:
        write_page(output, comparison_html(found))
    if json:
        print_json(found.to_json())
        return
    columns = ("measure", found.sides[0].label, "against", "value", "difference", "")
    print_table(
        "Side by side", columns, _differences(found), "Differences from the first, with 95 % intervals."
    )
    for side, heads in zip(found.sides[1:], found.heads, strict=True):
        if heads is not None and heads["rank correlation"]["value"] is not None:
            rho = heads["rank correlation"]["value"]
            moved = f"{heads['became biased']} of {heads['heads']} heads became biased, {heads['left biased']} ceased to be"
            print(f"{side.label}: head scores agree with rho {rho:.3f}; {moved}")
    if output is not None:
        print(f"Page: {output}")


def _differences(found: Comparison) -> Iterator[tuple[object, ...]]:
    """One line a measure and run: both values, the difference with its interval, and whether it is paired."""
    for name, values in found.rows.items():
        first = None if values[0] is None else values[0]["value"]
        for side, row, difference in zip(found.sides[1:], values[1:], found.differences[name], strict=True):
            value = None if row is None else row["value"]
            if difference is None:
                yield name, first, side.label, value, None, None
                continue
            low, high = difference.interval or (None, None)
            told = f"{difference.value:+.3f}" + ("" if low is None else f" [{low:+.3f}, {high:+.3f}]")
            yield name, first, side.label, value, told, "paired" if difference.paired else "unpaired"


@app.command()
def check(
    run: RunFolder,
    most: Annotated[
        list[str] | None,
        typer.Option("--max", metavar="NAME=NUMBER", help="At most; |value| where both signs are bias."),
    ] = None,
    least: Annotated[list[str] | None, typer.Option("--min", metavar="NAME=NUMBER", help="At least.")] = None,
    thresholds: Annotated[
        Path | None, typer.Option(help="A TOML file with tables max and min (docs/check.md).")
    ] = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="Judge the interval's worse bound, not the value.")
    ] = False,
    variant: Annotated[
        str | None, typer.Option(help="A changed model of the run. Default: the untouched one.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Also write JUnit XML.")] = None,
    json: Json = False,
) -> None:
    """Check a run against thresholds. Exit 0: all hold. 1: one exceeds. 2: one was not measured."""
    from levelhead.report import check as checking
    from levelhead.report.contents import open_contents
    from levelhead.report.page import write_page

    plan = checking.Plan(()) if thresholds is None else checking.read_plan(thresholds)
    given = [checking.threshold(text, "max") for text in most or ()]
    given += [checking.threshold(text, "min") for text in least or ()]
    plan = checking.Plan((*plan.thresholds, *given), bound or plan.bound, variant or plan.variant)
    contents = open_contents(run)
    judged = checking.check(contents, plan)
    code = checking.exit_code(judged)
    if junit is not None:
        write_page(junit, checking.junit(judged, contents))
    if json:
        verdict = ("holds", "exceeds", "not measured")[code]
        told = {"run": str(run), "model": contents.model, "variant": plan.variant, "bound": plan.bound}
        print_json(
            {**told, "verdict": verdict, "exit": code, "thresholds": [each.to_json() for each in judged]}
        )
    else:
        for each in judged:
            print(each)
    raise typer.Exit(code)


@app.command()
def card(
    run: RunFolder,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write it to a file.")] = None,
    json: Json = False,
) -> None:
    """A model card's section on bias in Markdown, with intervals, limits and how to get the numbers again."""
    from levelhead.report.card import card as write_card
    from levelhead.report.contents import open_contents
    from levelhead.report.page import write_page

    text = write_card(open_contents(run))
    if output is not None:
        write_page(output, text)
    if json:
        print_json({"run": str(run), "markdown": text})
    elif output is None:
        print(text, end="")
    else:
        print(output)
