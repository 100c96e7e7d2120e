"""How single measures (seat, lpbs, nsp, nli, fluency) end: a table as a file, and an exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from levelhead.cli.endings import NUMBERS, ending, output_file
from levelhead.errors import CannotDo
from levelhead.escaping import escaped

if TYPE_CHECKING:
    from levelhead.measures.measurement import Measurement
    from levelhead.results.keys import CsvFile

R = TypeVar("R")

Output = Annotated[Path | None, output_file("Also write the numbers:", *NUMBERS)]
_COLUMNS = ("measure", "value", "low", "high", "n", "neutral", "floor", "p")


def write_measured(path: Path | None, measured: Sequence[Measurement], force: bool) -> None:
    """Write measurements in the form that a file's name asks for; bounds have columns of their own."""
    from levelhead.files import write_output

    if path is None:
        return
    text, mark = dict(zip(NUMBERS, (_csv, _latex, _json), strict=True))[ending(path)](measured)
    write_output(path, escaped(text), mark, force)


def write_items(path: Path | None, table: CsvFile[R], items: Sequence[R], force: bool) -> None:
    """Write a table of single items where it was asked for."""
    from levelhead.files import write_output

    if path is not None:
        text = escaped(table.text(items))
        write_output(path, text, text.partition("\n")[0], force)


def end_measured(measured: Sequence[Measurement]) -> None:
    """A model that lacks what is asked of it is an error in every command; the reason is its line."""
    reasons = dict.fromkeys(each.reason for each in measured if each.value is None)
    if measured and all(each.value is None for each in measured):
        raise CannotDo(f"Nothing was measured: {'; '.join(reasons)}.")


def _cells(each: Measurement) -> list[str | float | int | None]:

    low, high = each.interval or (None, None)
    floor = None if each.null is None else each.null.floor
    return [each.name, each.value, low, high, each.n, each.neutral, floor, each.p_value]


def _csv(measured: Sequence[Measurement]) -> tuple[str, str]:
    from levelhead.results.keys import csv_text

    lines = [["" if cell is None else cell for cell in _cells(each)] for each in measured]
    return csv_text(_COLUMNS, lines), ",".join(_COLUMNS)


def _latex(measured: Sequence[Measurement]) -> tuple[str, str]:
    """A table for booktabs: value with its 95 % interval, n and p."""
    from levelhead.pages.latex import MARK, latex_table
    from levelhead.pages.tables import Table, interval, number, probability, words

    columns = ("measure", "value", "95 % interval", "n", "p")
    rows = [
        (
            words(escaped(each.name)),
            number(each.value),
            interval(each),
            number(each.n),
            probability(each.p_value),
        )
        for each in measured
    ]
    return latex_table(Table("measured", "Values with 95 % intervals", columns, rows)), MARK


def _json(measured: Sequence[Measurement]) -> tuple[str, str]:
    text = json.dumps([each.to_json() for each in measured], indent=1, ensure_ascii=False, allow_nan=False)
    return text + "\n", '"name":'
