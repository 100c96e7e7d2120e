"""The chapter of CounterActs: what a sentence of knowledge before a question does."""

from __future__ import annotations

from collections.abc import Iterable

from levelhead.report.blocks import Block, Drawn, Section, Shown
from levelhead.report.charts.prompts import asked_model, margins, masses, prompt_controls
from levelhead.report.contents import Contents
from levelhead.report.tables import Cell, Part, Table, measured, number, shown, words
from levelhead.results.records.cloze import ClozeCell


def knowledge_section(contents: Contents) -> Section | None:
    """CounterActs: charts for every k, verdicts in a table."""
    run = contents.prompts
    if run is None or not run.cells:
        return None
    controls = prompt_controls(run)
    blocks: list[Block] = [
        Drawn([margins(run, controls), *masses(run, controls)], controls),
        Shown(_verdicts_table(contents, run.cells)),
    ]
    lead = (
        f"The model is asked to fill in a {' or '.join(run.settings.groups)} word "
        f"({run.settings.n_prompts:,} prompts), first bare and then after a sentence of knowledge. The "
        "margin is the probability of the stereotyped group’s words minus the other group’s, among the k "
        "likeliest tokens. The dashed line is the margin without knowledge."
    )
    return Section("knowledge", "What a sentence before the question does", lead, blocks)


def _verdicts_table(contents: Contents, cells: Iterable[ClozeCell]) -> Table:
    """One line for each model, k and kind of knowledge, over all occupations."""
    whole = [cell for cell in cells if not cell.group]
    several = len({asked_model(cell) for cell in whole}) > 1
    silent = {_place(cell): cell for cell in whole if cell.name == "share without group words"}
    lines = []
    for cell in whole:
        if cell.name != "margin change":
            continue
        at, quiet = contents.address(cell), silent.get(_place(cell))
        lines.append(
            [
                words(cell.kind, asked_model(cell) if several else ""),
                number(cell.k, at),
                _from_to(cell, at),
                measured(cell.measurement, at),
                words(cell.verdict),
                words(cell.expected),
                words(None)
                if quiet is None
                else number(quiet.measurement.value, contents.address(quiet), digits=2),
            ]
        )
    columns = ("Knowledge", "k", "Margin without → with", "Change", "The stereotype", "Expected", "Silent")
    note = (
        "Silent: share of prompts without a word of either group among the top k. No change: the interval "
        "holds 0."
    )
    return Table("knowledge", "What each kind of knowledge does", columns, lines, note, folded=True)


def _place(cell: ClozeCell) -> tuple[str, int, str]:
    return asked_model(cell), cell.k, cell.kind


def _from_to(cell: ClozeCell, at: str) -> Cell:
    """The margin without knowledge and with it."""
    before, after = (cell.measurement.details.get(name) for name in ("base", "margin"))
    if before is None or after is None:
        return words(None)
    parts = (Part(shown(before), at), Part(" → "), Part(shown(after), at))
    return Cell(parts, f"{before!r} → {after!r}", True)
