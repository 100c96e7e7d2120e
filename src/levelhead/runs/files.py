"""Files of a run folder, each with the type of what it holds, and their checksums.

Checksums notice a value that was changed later and still fits its record:

    results.jsonl    each line ends with the sha256 of the checksum before it and of the line without its own
    settings.json    ends with the sha256 of all else that it holds
    files.sha256     has a line for each of the other files that readers use, as `sha256sum -c` takes them

They are against accidents: bits that flip, editors, merges, lines that get lost. They say nothing about who
wrote a run: anyone can compute them anew.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, Self, TypeVar

from levelhead.errors import BadRun
from levelhead.runs.records import as_json, record_from_cells, record_from_json
from levelhead.safe_files import read_bytes, write_text_inside

R = TypeVar("R")
_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r")
_TOO_MANY = "more than the columns"


# ---- files beside results.jsonl


@dataclass(frozen=True)
class _Named:
    """A file by its name, in which `{}` is a label."""

    name: str

    def of(self, label: str) -> Self:
        """The file with this label."""
        return replace(self, name=self.name.format(file_label(label)))


@dataclass(frozen=True)
class TextFile(_Named):
    """A file of plain text."""

    def text(self, content: str) -> str:
        """What is written: the content itself."""
        return content

    def read(self, folder: Path) -> str | None:
        """The content, None where there is no such file."""
        return _text_of(folder, self.name)


@dataclass(frozen=True)
class JsonFile(_Named, Generic[R]):
    """A file that holds one record as JSON."""

    record: type[R]

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
class JsonLines(_Named, Generic[R]):
    """A file with one record per line."""

    record: type[R]

    def text(self, content: Iterable[R]) -> str:
        """The records, one JSON object a line."""
        lines = (
            json.dumps(as_json(self.record, each), ensure_ascii=False, allow_nan=False) for each in content
        )
        return "".join(f"{line}\n" for line in lines)

    def read(self, folder: Path) -> list[R]:
        """The records, none where there is no such file; one line for a file that holds something else."""
        lines = (_text_of(folder, self.name) or "").split("\n")[:-1]  # texts may hold other line ends
        records = []
        for number, line in enumerate(lines, start=1):
            try:
                records.append(record_from_json(self.record, json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise _damaged(folder / self.name, str(error), number) from None
        return records


@dataclass(frozen=True)
class CsvFile(_Named, Generic[R]):
    """A table with one record per line and one column per field."""

    record: type[R]

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
            records = []
            for line in filter(None, lines):
                if any(cell[:1] == "'" for cell in line):
                    line = [cell[1:] if cell[:1] == "'" and _would_run(cell) else cell for cell in line]
                # a line that is too short has None at its end, one that is too long a column too many
                missing = [None] * (len(columns) - len(line))
                cells = dict(zip((*columns, _TOO_MANY), (*line, *missing), strict=False))
                records.append(record_from_cells(self.record, cells))
            return records
        except (ValueError, csv.Error) as error:
            raise _damaged(folder / self.name, str(error), lines.line_num) from None


def csv_text(columns: Iterable[str], lines: Iterable[Iterable[Any]]) -> str:
    """A CSV table that no spreadsheet runs.

    The csv module quotes returns inside cells only where they end its lines, so it writes them and they are
    taken off again.
    """
    written: list[str] = []
    table: Any = SimpleNamespace(write=lambda line: written.append(line.removesuffix("\r\n") + "\n"))
    writer = csv.writer(table, lineterminator="\r\n")
    for line in (columns, *lines):
        writer.writerow([f"'{cell}" if isinstance(cell, str) and _would_run(cell) else cell for cell in line])
    return "".join(written)


def file_label(text: str) -> str:
    """A label as a part of a file's name: readable, and different for texts that differ in signs alone."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:80]
    return f"{readable}-{hashlib.sha256(f'{len(text.encode())}:{text}'.encode()).hexdigest()[:6]}"


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
        # files without a checksum pass: a kill may have come between a file and its checksum
        if _file_seals(folder).get(name) not in (None, checksum(data)):
            raise ValueError(f"its checksum in {FILES} does not fit: something was changed")
        return text
    except (OSError, ValueError) as error:
        raise _damaged(folder / name, str(error)) from None


def _damaged(path: Path, fault: str, line: int | None = None) -> BadRun:
    place = f"{path} is damaged" + ("" if line is None else f" at line {line}")
    return BadRun(f"{place} ({' '.join(fault.split())[:160]}). Run the study again in a new folder.")


# ---- checksums

CHECKSUM = "sha256"  # the field that holds one
FILES = "files.sha256"
_LENGTH = 64  # of a checksum


def checksum(data: bytes, before: str = "") -> str:
    """sha256 of the checksum before, where there is one, and of the data."""
    return hashlib.sha256(before.encode() + data).hexdigest()


def sealed(line: bytes, before: str) -> tuple[bytes, str]:
    """A JSON object on one line with its checksum as the last field; and that checksum."""
    seal = checksum(line, before)
    return line[:-1] + _field(seal), seal


def seal_of(line: bytes, before: str) -> str:
    """The checksum of a line. ValueError where the line does not end with it."""
    end = len(line) - len(_field("0" * _LENGTH))
    seal = checksum(line[:end] + b"}", before)
    if line[end:] != _field(seal):
        raise ValueError("its checksum does not fit: a value was changed, or a line before it is gone")
    return seal


def _field(seal: str) -> bytes:
    return f', "{CHECKSUM}": "{seal}"}}'.encode()


# ---- files.sha256


def write_file(folder: Path, name: str, text: str) -> Path:
    """Write a file of a run and its checksum. A kill between the two leaves a file without a checksum, never
    one with the checksum of another text."""
    seal = checksum(text.encode())
    seals = _file_seals(folder)
    if seals.get(name, seal) != seal:
        del seals[name]
        _write_seals(folder, seals)
    path = write_text_inside(folder, name, text)
    if name not in seals:
        _write_seals(folder, {**seals, name: seal})
    return path


def _file_seals(folder: Path) -> dict[str, str]:
    """The checksums of a run's files by their names."""
    try:
        text = (read_bytes(folder, FILES) or b"").decode("utf-8")
        lines = [line.split("  ", 1) for line in text.split("\n")[:-1]]
        return {name: seal for seal, name in lines}
    except (OSError, ValueError) as error:
        raise _damaged(folder / FILES, str(error)) from None


def _write_seals(folder: Path, seals: dict[str, str]) -> None:
    write_text_inside(folder, FILES, "".join(f"{seals[name]}  {name}\n" for name in sorted(seals)))
