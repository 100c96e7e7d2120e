"""The chapter of planted bias: which localizer finds the heads that a bias was planted into."""

from __future__ import annotations

from levelhead.inference.contents import Contents
from levelhead.pages.blocks import Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.tables import Cell, Part, Table, shown, words
from levelhead.results.records.planted import ABS_SEAT, MEAN_RANK, PRECISION, PlantSummary
from levelhead.results.runs import PlantedRun


def planted_section(contents: Contents) -> Section | None:
    """A table for each kind of plant: every localizer beside chance."""
    run = contents.planted
    if run is None or not run.summary:
        return None
    question = "Can a localizer find the heads into which a bias was planted?"
    how = (
        "Precision is the share of the planted heads among as many heads that a localizer ranks highest. "
        "Alone: by its scores on the planted copy. Compared: by how they differ from those before planting."
    )
    blocks = [Shown(_kind_table(contents, run, kind)) for kind in run.settings.kinds]
    return Section(Chapter.PLANTED, "Planted bias", question, how, blocks)


def planted_headline(run: PlantedRun) -> str:
    """What was planted, and where."""
    where = f"{run.settings.heads} of {run.settings.heads_in_all} heads of {run.model}"
    return f"A bias planted in {where}, {run.settings.seeds} seeds"


def _kind_table(contents: Contents, run: PlantedRun, kind: str) -> Table:
    settings = run.settings
    k, total = settings.heads, settings.heads_in_all
    of_kind = [each for each in run.summary if each.kind == kind]
    cells = {(each.localizer, each.way, each.measurement.name): each for each in of_kind}
    searches = sorted({(each.localizer, each.way) for each in of_kind if each.localizer})
    lines = [
        [
            words(localizer),
            words(way),
            *(_over_seeds(contents, cells[localizer, way, name]) for name in (PRECISION, MEAN_RANK)),
        ]
        for localizer, way in searches
    ]
    seat = cells["", "", ABS_SEAT]
    note = (
        f"By chance {shown(k / total)} and {shown((total + 1) / 2, 1)}; mean ± SD over seeds. "
        f"|SEAT| {shown(seat.abs_seat_before or 0.0)} before, {_over_seeds(contents, seat).text} after."
    )
    title = f"{kind} plant in {k} of {total} heads, {settings.seeds} seeds"
    columns = ("Localizer", "Ranks by", f"Precision@{k}", "Mean rank")
    return Table(f"planted-{kind}", title, columns, lines, note)


def _over_seeds(contents: Contents, each: PlantSummary) -> Cell:
    """A mean over seeds with its standard deviation."""
    measured, at = each.measurement, contents.address(each)
    sd = measured.details["sd"]
    spread = () if sd is None else (Part(" ± "), Part(shown(sd), at))
    return Cell((Part(shown(measured.value or 0.0), at), *spread), repr(measured.value), True)
