"""Runs side by side: models, or one model before and after. Paired where both kept the answer to each
item."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from levelhead.errors import BadOption
from levelhead.inference.compare_items import (
    Column,
    Difference,
    HeadChanges,
    head_changes,
    measured_difference,
    paired_differences,
)
from levelhead.inference.contents import before, changes, measurements, open_contents, variants
from levelhead.inference.infos import info_of
from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.results.codec import Record
from levelhead.results.records.common import BASE, SAME_ITEMS


@dataclass(frozen=True)
class ComparedMeasure(Record):
    """One measure of every run, and its differences from the first run."""

    title: str
    reading: str
    digits: int
    values: tuple[Measurement | None, ...]  # [run]
    differences: tuple[Difference | None, ...]  # [run but the first]


@dataclass(frozen=True)
class Comparison(Record):
    """Runs, or variants of one run, side by side: every measure and every head, as far as they compare."""

    runs: tuple[str, ...]  # their labels
    measures: Mapping[str, ComparedMeasure]
    heads: tuple[HeadChanges | None, ...]  # [run but the first]

    @property
    def others(self) -> tuple[str, ...]:
        """The labels of all runs but the first, which they are compared with."""
        return self.runs[1:]


def compare(folders: Sequence[str | Path]) -> Comparison:
    """Put runs side by side; a single run is compared with its own changed models."""
    columns = _columns(folders)
    tables = [_measurements(column) for column in columns]
    names = list(dict.fromkeys(name for table in tables for name in table))
    if not names:
        raise BadOption(
            "These runs have no measure to compare. Give runs of audit, heads, prompts, sweep, glue, measure."
        )
    paired = [_paired(columns[0], column) for column in columns[1:]]
    measures = {
        name: _compared(
            _info(columns, name), [table.get(name) for table in tables], [each.get(name) for each in paired]
        )
        for name in names
    }
    heads = tuple(head_changes(columns[0], column) for column in columns[1:])
    return Comparison(tuple(column.label for column in columns), measures, heads)


def _columns(folders: Sequence[str | Path]) -> list[Column]:
    if len(folders) == 1:
        contents = open_contents(folders[0])
        names = [name for name in variants(contents) if name != SAME_ITEMS]
        if len(names) == 1:
            raise BadOption(f"{folders[0]} has one model only. Give a second run folder to compare it with.")
        return [Column("before" if name == BASE else name, contents, name, within=True) for name in names]
    opened = [open_contents(folder) for folder in folders]
    models = [contents.model for contents in opened]
    labels = [
        model if models.count(model) == 1 else f"{model} ({folder})"
        for model, folder in zip(models, folders, strict=True)
    ]
    return [Column(label, contents) for label, contents in zip(labels, opened, strict=True)]


def _measurements(column: Column) -> dict[str, Measurement]:
    untouched = column.within and column.variant == BASE
    own = before(column.contents) if untouched else measurements(column.contents, column.variant)
    return {each.name: each.measurement for each in own}


def _info(columns: Sequence[Column], name: str) -> MeasureInfo:
    """How the first run that has the measure shows it."""
    having = (column for column in columns if name in _measurements(column))
    return info_of(next(having).contents, name)


def _compared(
    info: MeasureInfo, values: Sequence[Measurement | None], paired: Sequence[Difference | None]
) -> ComparedMeasure:
    """Paired differences where there are any, else those that the two intervals allow."""
    differences = [
        pair or measured_difference(values[0], other) for pair, other in zip(paired, values[1:], strict=True)
    ]
    shown_values = tuple(each and replace(each, influence={}) for each in values)
    return ComparedMeasure(info.title, info.reading, info.digits, shown_values, tuple(differences))


def difference(
    first: Column, second: Column, name: str, before: Measurement, after: Measurement
) -> Difference | None:
    """One measure of two columns, item by item where both kept items; before, after: what is compared of it.

    Answers that only files keep are about values as they are, and so are not used for mirrored ones.
    """
    paired = _paired(first, second).get(name)
    as_stored = paired is not None and math.isclose(
        paired.value, (after.value or 0.0) - (before.value or 0.0), abs_tol=1e-9
    )
    return paired if as_stored else measured_difference(before, after)


def _paired(first: Column, second: Column) -> dict[str, Difference]:
    """Item by item from the files; within one run also what the run itself paired."""
    differences = paired_differences(first, second)
    if first.contents is not second.contents:
        return differences
    for name, each in changes(second.contents, second.variant).items():
        change = each.measurement
        if change.value is not None and change.neutral == 0.0:  # ratios are no differences
            differences[name] = Difference(change.value, change.interval, change.n, "paired by the run", True)
    return differences
