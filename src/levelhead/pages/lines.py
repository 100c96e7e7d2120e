"""Records as the lines of a table: one cell a field, a measurement as several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass

from levelhead.edits.sites import Head
from levelhead.measures.measurement import Measurement

Cell = str | float | bool | None
Line = dict[str, Cell]


def line_of(record: object) -> Line:
    """A record as the cells of a line; a measurement in it becomes several, from its name to its p."""
    line: Line = {}
    if not is_dataclass(record):
        raise TypeError(f"{type(record).__name__} is no record")
    for each in fields(record):
        value = getattr(record, each.name)
        line |= measured_cells(value) if isinstance(value, Measurement) else {each.name: _cell(value)}
    return line


def measured_cells(measurement: Measurement) -> Line:
    """A measurement as cells: low and high are its interval, p is against null models, else its
    own."""
    low, high = measurement.interval or (None, None)
    return {
        "measure": measurement.name,
        "value": measurement.value,
        "low": low,
        "high": high,
        "n": measurement.n,
        "neutral": measurement.neutral,
        "p": measurement.p_value,
        "reason": measurement.reason,
    }


def _cell(value: object) -> Cell:
    """A value as one cell; several are written one after the other."""
    if value is None or isinstance(value, str | float | bool | int):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_cell(each)}" for name, each in value.items())
    if isinstance(value, Iterable) and not isinstance(value, Head):
        return ", ".join(str(_cell(each)) for each in value)
    return str(value)


def columns(lines: Sequence[Line]) -> list[str]:
    """The columns of a table, whose lines all have the same."""
    return list(lines[0]) if lines else []
