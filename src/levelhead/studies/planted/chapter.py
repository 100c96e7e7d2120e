"""The chapter of planted bias: which localizer finds the heads that a bias was planted into."""

from __future__ import annotations

from levelhead.inference.contents import Contents
from levelhead.pages.blocks import Block, Section, Shown
from levelhead.pages.charts.base import Chart, Labeled, intervals
from levelhead.pages.tables import Cell, Part, Table, shown, words
from levelhead.studies.planted import Planted
from levelhead.studies.planted.records import ABS_SEAT, MEAN_RANK, PRECISION, PlantSummary


def chapters(contents: Contents) -> list[Section]:
    """A table for each kind of plant: every localizer beside chance."""
    run = contents.planted
    if run is None or not run.summary:
        return []
    k, total, blocks = run.settings.heads, run.settings.heads_in_all, list[Block]()
    for kind in run.settings.kinds:
        of_kind = [each for each in run.summary if each.kind == kind]
        cells = {(each.localizer, each.way, each.measurement.name): each for each in of_kind}
        lines = []
        for localizer, way in sorted({(each.localizer, each.way) for each in of_kind if each.localizer}):
            found = (cells[localizer, way, name] for name in (PRECISION, MEAN_RANK))
            lines.append([words(localizer), words(way), *(_over_seeds(contents, each) for each in found)])
        seat = cells["", "", ABS_SEAT]
        note = (
            f"By chance {shown(k / total)} and {shown((total + 1) / 2, 1)}; mean ± SD over seeds. "
            f"|SEAT| {shown(seat.abs_seat_before or 0.0)} before, {_over_seeds(contents, seat).text} after."
        )
        title = f"{kind} plant in {k} of {total} heads, {run.settings.seeds} seeds"
        columns = ("Localizer", "Ranks by", f"Precision@{k}", "Mean rank")
        blocks.append(Shown(Table(f"planted-{kind}", title, columns, lines, note)))
    how = (
        "Precision is the share of the planted heads among as many heads that a localizer ranks highest. "
        "Alone: by its scores on the planted copy. Compared: by how they differ from those before planting."
    )
    return [Section(Planted.name, Planted.title, Planted.question, how, blocks)]


def headline(contents: Contents, findings: list[Cell]) -> tuple[str, list[Cell]] | None:
    """What was planted, and where."""
    if (run := contents.planted) is None:
        return None
    where = f"{run.settings.heads} of {run.settings.heads_in_all} heads of {run.model}"
    return f"A bias planted in {where}, {run.settings.seeds} seeds", findings


def _over_seeds(contents: Contents, each: PlantSummary) -> Cell:
    """A mean over seeds with its standard deviation."""
    measured, at = each.measurement, contents.address(each)
    sd = measured.details["sd"]
    spread = () if sd is None else (Part(" ± "), Part(shown(sd), at))
    return Cell((Part(shown(measured.value or 0.0), at), *spread), repr(measured.value), True)


# ---- its chart


def chart(run: Planted) -> Chart:
    """Precision and mean rank of every localizer."""
    measured = [
        Labeled(f"{each.kind}: {each.localizer or 'all'} {each.way}", each.measurement)
        for each in run.summary
    ]
    return intervals(measured, f"Which localizer finds heads planted into {run.model}?")
