"""Runs side by side: models, or one model before and after. Paired where both kept what each item said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelhead.errors import BadProbe
from levelhead.report.blocks import Block, Points, Section, Shown
from levelhead.report.compare_items import Difference, Side, head_agreement, paired_differences
from levelhead.report.contents import BASE, changes, measurements, open_contents, variants
from levelhead.report.glossary import measure_of
from levelhead.report.limits import ALWAYS
from levelhead.report.page import render
from levelhead.report.tables import NOTHING, Cell, Part, Table, digits_of, measured, shown, words
from levelhead.results.folder import Row

UNPAIRED = "unpaired: from the two intervals"


@dataclass(frozen=True)
class Comparison:
    """Columns, and for each measure a row of every column with its difference from the first."""

    sides: Sequence[Side]
    rows: dict[str, list[Row | None]]  # measure -> [side]
    differences: dict[str, list[Difference | None]]  # measure -> [side but the first]
    heads: list[dict[str, Any] | None]  # [side but the first]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        found = {
            name: {
                "values": [_plain(row) for row in rows],
                "differences": [d and d.to_json() for d in self.differences[name]],
            }
            for name, rows in self.rows.items()
        }
        return {"runs": [side.label for side in self.sides], "measures": found, "heads": self.heads}


def compare(folders: Sequence[str | Path]) -> Comparison:
    """Put runs side by side; a single run is compared with its own changed models."""
    sides = _sides(folders)
    found = [{row["name"]: row for row in measurements(side.contents, side.variant)} for side in sides]
    names = list(dict.fromkeys(name for rows in found for name in rows))
    if not names:
        raise BadProbe("These runs have no measure to compare. Give runs of audit, heads, prompts or sweep.")
    rows = {name: [each.get(name) for each in found] for name in names}
    paired = [_paired(sides[0], side) for side in sides[1:]]
    differences = {
        name: [
            pairs.get(name) or _unpaired(each[0], other)
            for pairs, other in zip(paired, each[1:], strict=True)
        ]
        for name, each in rows.items()
    }
    return Comparison(sides, rows, differences, [head_agreement(sides[0], side) for side in sides[1:]])


def _sides(folders: Sequence[str | Path]) -> list[Side]:
    if len(folders) == 1:
        contents = open_contents(folders[0])
        names = variants(contents)
        if len(names) == 1:
            raise BadProbe(f"{folders[0]} has one model only. Give a second run folder to compare it with.")
        return [Side("before" if name == BASE else name, contents, name) for name in names]
    opened = [open_contents(folder) for folder in folders]
    models = [contents.model for contents in opened]
    return [
        Side(
            contents.model if models.count(contents.model) == 1 else f"{contents.model} ({folder})", contents
        )
        for contents, folder in zip(opened, folders, strict=True)
    ]


def _paired(first: Side, second: Side) -> dict[str, Difference]:
    """Item by item from the files; within one run also what the run itself paired."""
    found = paired_differences(first, second)
    if first.contents is second.contents:
        for name, row in changes(second.contents, second.variant).items():
            if row["value"] is not None and row.get("neutral") == 0.0:  # ratios are no differences
                bounds = None if row["interval"] is None else (row["interval"][0], row["interval"][1])
                found[name] = Difference(row["value"], bounds, row["n"], "paired by the run", True)
    return found


def _unpaired(first: Row | None, second: Row | None) -> Difference | None:
    """Second minus first with an interval made of their two; none where they were asked on other data.

        low = d − sqrt( (b − low_b)² + (high_a − a)² ),   high = d + sqrt( (high_b − b)² + (a − low_a)² )

    Right for independent runs; for the same probes it is as a rule too wide. Reference: Zou and Donner 2008
    (MOVER).
    """
    if first is None or second is None or first["value"] is None or second["value"] is None:
        return None
    if _data(first) != _data(second):
        return None
    a, b = first["value"], second["value"]
    value, n = b - a, min(first["n"], second["n"])
    if first["interval"] is None or second["interval"] is None:
        return Difference(value, None, n, "unpaired, no interval", False)
    (low_a, high_a), (low_b, high_b) = first["interval"], second["interval"]
    low, high = value - math.hypot(b - low_b, high_a - a), value + math.hypot(high_b - b, a - low_a)
    return Difference(value, (low, high), n, UNPAIRED, False)


def _data(row: Row) -> Any:
    return (row.get("settings") or {}).get("data_hash")


def _plain(row: Row | None) -> Row | None:
    return None if row is None else {key: value for key, value in row.items() if key != "at"}


# ---- as a page


def comparison_html(found: Comparison) -> str:
    """The comparison as one self-contained page."""
    blocks: list[Block] = [Shown(_measures(found))]
    if any(found.heads):
        blocks.append(Shown(_heads(found)))
    lead = (
        f"Differences are from {found.sides[0].label}, with 95 % intervals. A paired difference compares item by "
        "item and is the surer one; an unpaired one is made of the two intervals and is, on the same probes, as a "
        "rule too wide."
    )
    sections = [
        Section("compared", "Side by side", lead, blocks),
        Section("limits", "What these numbers do not show", "", [Points([words(limit) for limit in ALWAYS])]),
    ]
    title = " against ".join(side.label for side in found.sides)
    page = {"title": title, "study": "comparison", "headline": _told(found), "findings": [], "facts": []}
    return render({**page, "sections": sections})


def _told(found: Comparison) -> str:
    """How many measures differ for sure."""
    known = [
        d for each in found.differences.values() for d in each if d is not None and d.interval is not None
    ]
    sure = [d for d in known if d.interval is not None and not d.interval[0] <= 0 <= d.interval[1]]
    return f"{len(sure)} of {len(known)} differences have an interval that excludes 0."


def _measures(found: Comparison) -> Table:
    body = []
    for name, rows in found.rows.items():
        cells = [words(measure_of(name).title, measure_of(name).reading), _column(rows[0], name)]
        for row, difference in zip(rows[1:], found.differences[name], strict=True):
            cells += [_column(row, name), _difference(difference, digits_of(name), rows[0], row)]
        body.append(cells)
    columns = ["Measure", found.sides[0].label]
    columns += [part for side in found.sides[1:] for part in (side.label, "Difference")]
    return Table("comparison", "Every measure", columns, body)


def _column(row: Row | None, name: str) -> Cell:
    """Addresses are left out: they would not say of which run."""
    cell = measured(row, digits_of(name))
    return Cell(tuple(Part(part.text) for part in cell.parts), cell.raw, cell.numeric, cell.small)


def _difference(difference: Difference | None, digits: int, first: Row | None, second: Row | None) -> Cell:
    if difference is None:
        other = first and second and None not in (first["value"], second["value"])
        return words(None, "asked on other data: not comparable" if other else "")
    text = shown(difference.value, digits)
    if difference.interval is not None:
        text += f" [{shown(difference.interval[0], digits)}, {shown(difference.interval[1], digits)}]"
    return Cell((Part(text),), repr(difference.value), True, difference.how)


def _heads(found: Comparison) -> Table:
    body = []
    for side, each in zip(found.sides[1:], found.heads, strict=True):
        if each is None:
            continue
        rho, p = each["rank correlation"], each["p"]
        bounds = (
            "" if rho["interval"] is None else f" [{shown(rho['interval'][0])}, {shown(rho['interval'][1])}]"
        )
        told = NOTHING if rho["value"] is None else f"{shown(rho['value'])}{bounds}"
        counts = [words(each[name]) for name in ("heads", "became biased", "left biased")]
        body.append([words(side.label), words(told), *counts, words(None if p is None else f"{p:.3g}")])
    note = "Became biased: score above 0 here, not in the first run. p: exact test that both ways are equally frequent."
    columns = ("Against the first run", "Rank correlation", "Heads", "Became biased", "Left biased", "p")
    return Table("head-agreement", "Are the same heads biased?", columns, body, note)
