"""Names of results and of files in a run folder, each with the type of what is kept under it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from levelhead.errors import BadRun
from levelhead.ordinary import read_bytes
from levelhead.results.checksums import check_file
from levelhead.results.codec import as_json, record_from_cells, record_from_json

R = TypeVar("R")
S = TypeVar("S")
_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r")
_TOO_MANY = "more than the columns"


# ---- results: lines of results.jsonl


@dataclass(frozen=True)
class Key(Generic[R]):
    """The name of one result, and the type of its records."""

    name: str
    record: type[R]


@dataclass(frozen=True)
class KeyFamily(Generic[R]):
    """Results of one kind, of which a run has several: their names begin alike and end with a label."""

    prefix: str
    record: type[R]

    def of(self, label: str) -> Key[R]:
        """The result with this label."""
        return Key(f"{self.prefix}{label}", self.record)


@dataclass(frozen=True)
class Layout(Generic[S]):
    """What the runs of one study hold. A name that equals no key belongs to the longest prefix that fits."""

    study: str
    command: str  # that writes such runs
    settings: type[S]
    keys: tuple[Key[Any], ...]
    families: tuple[KeyFamily[Any], ...] = ()
    grows: str = ""  # a setting, a list, to which a finished run can be asked for more

    def record_of(self, name: str) -> type[Any] | None:
        """The type of the records under a name; None for a name that this study does not use."""
        for key in self.keys:
            if key.name == name:
                return key.record
        fitting = [family for family in self.families if name.startswith(family.prefix)]
        return max(fitting, key=lambda family: len(family.prefix)).record if fitting else None


# ---- files beside results.jsonl


@dataclass(frozen=True)
class TextFile:
    """A file of plain text; `{}` in its name is a label."""

    name: str

    def of(self, label: str) -> TextFile:
        """The file with this label."""
        return TextFile(self.name.format(file_label(label)))

    def text(self, content: str) -> str:
        """What is written: the content itself."""
        return content

    def read(self, folder: Path) -> str | None:
        """The content, None where there is no such file."""
        return _text_of(folder, self.name)


@dataclass(frozen=True)
class JsonFile(Generic[R]):
    """A file that holds one record as JSON; `{}` in its name is a label."""

    name: str
    record: type[R]

    def of(self, label: str) -> JsonFile[R]:
        """The file with this label."""
        return JsonFile(self.name.format(file_label(label)), self.record)

    def text(self, content: R) -> str:
        """The record as indented JSON."""
        return json.dumps(as_json(self.record, content), ensure_ascii=False, allow_nan=False) + "\n"

    def read(self, folder: Path) -> R | None:
        """The record, None where there is no such file; one line for a file that holds something else."""
        text = _text_of(folder, self.name)
        if text is None:
            return None
        try:
            return record_from_json(self.record, json.loads(text))
        except (ValueError, RecursionError) as error:
            raise _damaged(folder / self.name, str(error)) from None


@dataclass(frozen=True)
class JsonLines(Generic[R]):
    """A file with one record a line; `{}` in its name is a label."""

    name: str
    record: type[R]

    def of(self, label: str) -> JsonLines[R]:
        """The file with this label."""
        return JsonLines(self.name.format(file_label(label)), self.record)

    def text(self, content: Iterable[R]) -> str:
        """The records, one JSON object a line."""
        lines = (
            json.dumps(as_json(self.record, each), ensure_ascii=False, allow_nan=False) for each in content
        )
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class CsvFile(Generic[R]):
    """A table with one record a line and one column a field; `{}` in its name is a label."""

    name: str
    record: type[R]

    def of(self, label: str) -> CsvFile[R]:
        """The file with this label."""
        return CsvFile(self.name.format(file_label(label)), self.record)

    def text(self, content: Iterable[R]) -> str:
        """The table; texts that a spreadsheet would run begin with an apostrophe, None is an empty cell."""
        columns = [field.name for field in fields(self.record)]  # type: ignore[arg-type]
        lines = as_json(list[self.record], list(content))  # type: ignore[name-defined]
        return csv_text(columns, ([line[name] for name in columns] for line in lines))

    def read(self, folder: Path) -> list[R]:
        """The records, none where there is no such file; one line for a table that holds something else."""
        text = _text_of(folder, self.name)
        if text is None:
            return []
        lines = csv.reader(io.StringIO(text, newline=""))
        try:
            columns = next(lines, [])
            return [record_from_cells(self.record, _cells(columns, line)) for line in lines if line]
        except (ValueError, csv.Error) as error:
            raise _damaged(folder / self.name, str(error), lines.line_num) from None


def _cells(columns: Sequence[str], line: Sequence[str]) -> dict[str, str | None]:
    """A line by column; one that is too short has None at its end, one that is too long a column too many."""
    if any(cell[:1] == "'" for cell in line):
        line = [_plain_cell(cell) for cell in line]
    if len(line) == len(columns):
        return dict(zip(columns, line, strict=True))
    missing = [None] * (len(columns) - len(line))
    return dict(zip((*columns, _TOO_MANY), (*line, *missing), strict=False))


def csv_text(columns: Iterable[str], lines: Iterable[Iterable[Any]]) -> str:
    """A CSV table that no spreadsheet runs.

    The csv module quotes returns inside cells only where they end its lines, so it writes them and they are
    taken off again.
    """
    table = _Lines()
    writer = csv.writer(table, lineterminator="\r\n")
    for line in (columns, *lines):
        writer.writerow([_safe_cell(cell) for cell in line])
    return "".join(table.lines)


class _Lines:
    """What a csv.writer writes, a line at a time."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(line.removesuffix("\r\n") + "\n")


def file_label(text: str) -> str:
    """A label as a part of a file's name: readable, and different for texts that differ in signs alone."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:80]
    return f"{readable}-{hashlib.sha256(f'{len(text.encode())}:{text}'.encode()).hexdigest()[:6]}"


def _safe_cell(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _would_run(cell) else cell


def _plain_cell(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and _would_run(cell) else cell


def _would_run(cell: str) -> bool:
    """Whether a spreadsheet runs a text, or would without the apostrophes before it: what is made safe gets
    one more of them, and loses one when it is read."""
    return cell.lstrip("'").startswith(_RUN_BY_SPREADSHEETS)


def _text_of(folder: Path, name: str) -> str | None:
    """The text of a file, line ends as they are; None where there is no such file."""
    try:
        data = read_bytes(folder, name)
        if data is None:
            return None
        text = data.decode("utf-8")
        check_file(folder, name, data)
        return text
    except (OSError, ValueError) as error:
        raise _damaged(folder / name, str(error)) from None


def _damaged(path: Path, fault: str, line: int | None = None) -> BadRun:
    place = f"{path} is damaged" + ("" if line is None else f" at line {line}")
    return BadRun(f"{place} ({' '.join(fault.split())[:160]}). Run the study again in a new folder.")
