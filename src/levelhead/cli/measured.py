"""How single measures (seat, lpbs, nsp, nli, fluency) end: a table as a file, and an exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from levelhead.errors import BadOption, CannotDo

if TYPE_CHECKING:
    from levelhead.measures.measurement import Measurement
    from levelhead.results.keys import CsvFile

R = TypeVar("R")

Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Also write the numbers: .csv, .tex or .json."),
]
_COLUMNS = ("measure", "value", "low", "high", "n", "neutral", "floor", "p")
_KINDS = (".csv", ".tex", ".json")


def write_measured(path: Path | None, measured: Sequence[Measurement], force: bool) -> None:
    """Write measurements in the form that a file's name asks for; bounds have columns of their own."""
    from levelhead.files import write_output

    if path is None:
        return
    if path.suffix not in _KINDS:
        raise BadOption(f"-o {path} came; the numbers are written as {', '.join(_KINDS)}.")
    text, mark = {".csv": _csv, ".tex": _latex, ".json": _json}[path.suffix](measured)
    write_output(path, text, mark, force)


def write_items(path: Path | None, table: CsvFile[R], items: Sequence[R], force: bool) -> None:
    """Write a table of single items where it was asked for."""
    from levelhead.files import write_output

    if path is not None:
        text = table.text(items)
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
    mark = "% levelhead: values with 95 % intervals"
    lines = [mark, r"\begin{tabular}{lrcrr}", r"\toprule"]
    lines += [r"measure & value & 95\,\% interval & $n$ & $p$ \\", r"\midrule"]
    for each in measured:
        name, value, low, high, n, _, _, p = _cells(each)
        ends = "--" if low is None or high is None else f"$[{low:.3f}, {high:.3f}]$"
        shown = ["--" if number is None else f"${number:.3f}$" for number in (value, p)]
        lines.append(rf"{str(name).replace('_', ' ')} & {shown[0]} & {ends} & {n} & {shown[1]} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""]), mark


def _json(measured: Sequence[Measurement]) -> tuple[str, str]:
    text = json.dumps([each.to_json() for each in measured], indent=1, ensure_ascii=False, allow_nan=False)
    return text + "\n", '"name":'
