"""`levelhead reproduce`: a paper's tables and figures beside ours."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import RUN, Json, Loading, app, loads, print_json, print_table
from levelhead.cli.endings import output_folder
from levelhead.cli.options import Labels, Seed

if TYPE_CHECKING:
    from levelhead.results.records.reproduction import ReproducedCell, Reproduction

_MOST_NOTES = 6  # under a table; more of them stand in reproduce.csv alone


class _Paper(StrEnum):
    heads = "heads"
    projections = "projections"
    counteracts = "counteracts"


@app.command()
@loads
def reproduce(
    paper: Annotated[_Paper, typer.Argument(help="Whose tables and figures.")],
    out: Annotated[Path, output_folder("A finished run is read; else the study is run here.", RUN)],
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Default: the paper's own, from the hub. Repeatable for counteracts."
        ),
    ] = None,
    nli: Annotated[
        str | None, typer.Option(help="Of projections: an NLI classifier, e.g. lh:nli-mini.")
    ] = None,
    labels: Labels = None,
    glue: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Of heads: a run of levelhead glue, for Table 2.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Ask less: minutes instead of an hour.")] = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Print every table and figure of a paper beside ours: published, measured, interval, what differed."""
    from levelhead.reproducing import ReproduceSettings
    from levelhead.reproducing import reproduce as hold_beside

    settings = ReproduceSettings(tuple(model or ()), nli, labels, quick, glue, seed)
    reproduction = hold_beside(paper.value, out, settings, **loading)
    if json:
        print_json(reproduction.to_json())
    else:
        _print(reproduction)


def _print(reproduction: Reproduction) -> None:
    print(f"{reproduction.title}\n{reproduction.model} beside the paper's model.")
    if not reproduction.same_model:
        print("These are other weights than the paper's: no number needs to agree.")
    lines = [(each.part, each.paper, each.here) for each in reproduction.differences]
    print_table("Set-up, in the paper and here", ("", "paper", "here"), lines)
    for table in dict.fromkeys(cell.table for cell in reproduction.cells):
        _print_cells(table, [cell for cell in reproduction.cells if cell.table == table])
    counts = Counter(cell.agreement for cell in reproduction.cells)
    print("Cells: " + ", ".join(f"{n} {agreement}" for agreement, n in counts.items()))
    print(f"All cells: {Path(reproduction.run) / 'reproduce.csv'}")


def _print_cells(table: str, cells: list[ReproducedCell]) -> None:
    """One table of the paper; what was not measured is named below it, reason by reason."""
    measured = [cell for cell in cells if cell.agreement != "not measured"]
    if measured:
        columns = ("cell", "published", "measured", "95 % interval", "")
        lines = [
            (cell.cell, cell.printed or "-", cell.measured, _interval(cell), cell.agreement)
            for cell in measured
        ]
        notes = dict.fromkeys(cell.note for cell in measured if cell.note)
        print_table(table, columns, lines, "; ".join(notes) if len(notes) <= _MOST_NOTES else "")
    missing = [cell for cell in cells if cell.agreement == "not measured"]
    for reason in dict.fromkeys(cell.note for cell in missing):
        own = [f"{cell.cell} {cell.printed}".strip() for cell in missing if cell.note == reason]
        print(f"{table}, not measured ({reason}): {'; '.join(own)}")


def _interval(cell: ReproducedCell) -> str:
    return "-" if cell.low is None or cell.high is None else f"{cell.low:.3f} to {cell.high:.3f}"
