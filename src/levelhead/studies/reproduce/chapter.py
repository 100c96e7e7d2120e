"""The chapter of a reproduction: a paper's tables and figures, and ours beside each number."""

from __future__ import annotations

from collections import Counter

from levelhead.inference.contents import Contents
from levelhead.measures.measurement import Measurement
from levelhead.pages.blocks import Block, Points, Section, Shown
from levelhead.pages.charts.base import Chart, Labeled, intervals
from levelhead.pages.lines import Line, line_of
from levelhead.pages.tables import Cell, Part, Table, number, shown, words
from levelhead.studies.reproduce import Reproduce
from levelhead.studies.reproduce.records import REPRODUCED_CELLS

_MOST_NOTES = 6  # under a table; more of them stand in reproduce.csv alone


def chapters(contents: Contents) -> list[Section]:
    """A table for each table of the paper, below what differs between its set-up and ours."""
    run = contents.of(Reproduce)
    if run is None or (found := run.found) is None:
        return []
    differ = [[words(each.part), words(each.paper), words(each.here)] for each in found.differences]
    parts = ("Part", "In the paper", "Here")
    blocks: list[Block] = [Shown(Table("set-up", "Set-up, in the paper and here", parts, differ))]
    missing, at = list[Cell](), contents.address(found)
    for table in dict.fromkeys(cell.table for cell in found.cells):
        own = [cell for cell in found.cells if cell.table == table]
        measured = [cell for cell in own if cell.agreement != "not measured"]
        if measured:
            lines = []
            for cell in measured:
                bounds = words(None)
                if cell.low is not None and cell.high is not None:
                    ends = (Part(shown(cell.low), at), Part(" to "), Part(shown(cell.high), at))
                    bounds = Cell(ends, f"{cell.low!r} to {cell.high!r}", True)
                line = [words(cell.cell), words(cell.printed), number(cell.measured, at), bounds]
                lines.append([*line, words(cell.agreement)])
            notes = dict.fromkeys(cell.note for cell in measured if cell.note)
            said = "; ".join(notes) if len(notes) <= _MOST_NOTES else ""
            columns = ("Cell", "Published", "Measured", "95 % interval", "Agreement")
            label = table.lower().replace(" ", "-")
            blocks.append(Shown(Table(label, table, columns, lines, said)))
        # what was not measured, reason by reason
        for reason in dict.fromkeys(cell.note for cell in own if cell not in measured):
            named = [f"{cell.cell} {cell.printed}".strip() for cell in own if cell.note == reason]
            missing.append(words(f"{table}, not measured ({reason}): {'; '.join(named)}"))
    if missing:
        blocks.append(Points(missing))
    how = (
        "Within: the published value lies in the 95 % interval of ours. Outside: it does not. No interval: "
        "both are numbers, but ours has no interval. All cells with their notes: "
        f"{REPRODUCED_CELLS.name}."
    )
    return [Section(Reproduce.name, Reproduce.title, Reproduce.question, how, blocks)]


def headline(contents: Contents, findings: list[Cell]) -> tuple[str, list[Cell]] | None:
    """Which paper, whose weights, and how many of its cells agree."""
    run = contents.of(Reproduce)
    if run is None or (found := run.found) is None:
        return None
    others = (
        "" if found.same_model else ". These are other weights than the paper's: no number needs to agree"
    )
    counts = Counter(cell.agreement for cell in found.cells)
    counted = ", ".join(f"{n} {agreement}" for agreement, n in counts.items())
    return f"{found.title}: {found.model} beside the paper's model{others}", [words(f"Cells: {counted}.")]


# ---- its table, its chart


def lines(run: Reproduce) -> list[Line]:
    """Every cell."""
    return [] if run.found is None else [line_of(cell) for cell in run.found.cells]


def chart(run: Reproduce) -> Chart:
    """Every number of ours that has an interval, and the paper's as the tick beside it."""
    cells = () if run.found is None else run.found.cells
    measured = []
    for cell in cells:
        if cell.measured is not None and cell.low is not None and cell.high is not None:
            ends = (cell.low, cell.high)
            own = Measurement(cell.table, cell.measured, ends, neutral=cell.published)
            measured.append(Labeled(cell.cell, own))
    return intervals(measured, f"{run.model} beside the paper")
