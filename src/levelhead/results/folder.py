"""The run folder: settings, one JSON line a result, files that appear whole or not at all.

A killed run leaves at most a part of one last line, which the next opening drops; computing what is not
there yet then gives the same bytes as a run that was never killed. For that, nothing here depends on the
clock or on the machine. What a folder may hold, by name and type, stands in layout.py; how its two main files
are read and written in stored.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from levelhead.errors import BadRun
from levelhead.files import TEMPORARY, writing
from levelhead.ordinary import opened
from levelhead.results.checksums import write_file
from levelhead.results.codec import as_json, record_from_json
from levelhead.results.keys import Key, KeyFamily, Layout
from levelhead.results.stored import (
    FORMAT,
    RESULTS,
    SETTINGS,
    StoredResult,
    StoredResults,
    StoredSettings,
    append_result,
    asks_more,
    check_same,
    damaged,
    in_short,
    read_results,
    read_settings,
    recover_results,
    write_settings,
)

if sys.platform != "win32":  # there, two processes in one folder are not noticed
    import fcntl

LOCK = ".lock"
PACKAGES = ("levelhead", "torch", "transformers", "numpy")
R = TypeVar("R")
S = TypeVar("S")
C = TypeVar("C", contravariant=True)


class Writable(Protocol[C]):
    """A file of the layout: its name, and the text for a content of its type."""

    @property
    def name(self) -> str: ...

    def text(self, content: C) -> str: ...


# ---- reading


@dataclass(frozen=True)
class RunData(Generic[S]):
    """A run as readers see it. Records are typed; each has an address in results.jsonl."""

    folder: Path
    layout: Layout[S]
    settings: S
    hashes: Mapping[str, str]
    versions: Mapping[str, str]
    results: Mapping[str, tuple[Any, ...]]  # key -> records, in the order of computing
    _addresses: Mapping[int, str] = field(repr=False)  # id of a record -> key#index

    def records(self, key: Key[R]) -> tuple[R, ...]:
        """The records of one result; none where it is not there (yet)."""
        return self.results.get(key.name, ())

    def single(self, key: Key[R]) -> R | None:
        """The record of a result that has one; None where it is not there (yet)."""
        records = self.records(key)
        return records[0] if records else None

    def family(self, family: KeyFamily[R]) -> dict[str, tuple[R, ...]]:
        """The results of a family by their labels, in the order of computing."""
        others = {key.name for key in self.layout.keys}
        longer = [f.prefix for f in self.layout.families if len(f.prefix) > len(family.prefix)]
        return {
            name.removeprefix(family.prefix): records
            for name, records in self.results.items()
            if name.startswith(family.prefix)
            and name not in others
            and not any(name.startswith(prefix) for prefix in longer)
        }

    def address(self, record: object) -> str | None:
        """Where a record of this run stands in results.jsonl: `key#index`; None for any other record."""
        return self._addresses.get(id(record))

    def __contains__(self, key: Key[Any]) -> bool:
        return key.name in self.results


def read_run(folder: str | Path, layouts: Iterable[Layout[S]]) -> RunData[S]:
    """Read a run of one of these studies, finished or not, without changing it."""
    folder = Path(folder).expanduser()
    if not (folder / SETTINGS).is_file():
        raise BadRun(
            f"{folder} is not a run folder: it has no {SETTINGS}. Give the folder that a study wrote."
        )
    stored = read_settings(folder)
    study = stored.settings.get("study")
    allowed = tuple(layouts)
    layout = next((each for each in allowed if each.study == study), None)
    if layout is None:
        commands = ", ".join(f"`{each.command}`" for each in allowed)
        raise BadRun(f"{folder} holds a run of {str(study)[:40]!r}. Give a folder that {commands} wrote.")
    try:
        settings = record_from_json(layout.settings, stored.settings)
    except ValueError as error:
        raise damaged(folder / SETTINGS, error) from None
    lines = read_results(folder).lines
    results = {name: _records(folder, layout, line) for name, line in lines.items()}
    addresses = {id(r): f"{name}#{i}" for name, records in results.items() for i, r in enumerate(records)}
    return RunData(folder, layout, settings, stored.hashes, stored.versions, results, addresses)


def _records(folder: Path, layout: Layout[Any], stored: StoredResult) -> tuple[Any, ...]:
    kind = layout.record_of(stored.key)
    if kind is None:
        fault = ValueError(f"{stored.key[:60]!r} is no result of {layout.command}")
        raise damaged(folder / RESULTS, fault, stored.number)
    try:
        return tuple(record_from_json(kind, row) for row in stored.rows)
    except (ValueError, RecursionError) as error:
        raise damaged(folder / RESULTS, error, stored.number) from None


# ---- writing


class Run(Generic[S]):
    """An open run folder; `with Run.open(...) as run:` so that its lock is given back."""

    def __init__(self, folder: Path, layout: Layout[S], lock: int, results: StoredResults) -> None:
        self.folder = folder
        self.layout = layout
        self._lock = lock
        self._results = results

    @classmethod
    def open(
        cls,
        folder: str | Path,
        layout: Layout[S],
        settings: S,
        *,
        hashes: Mapping[str, str] | None = None,
        resume: bool = True,
    ) -> Self:
        """Start a run, or go on with one that was started with the same settings, hashes and versions.

        A run of a study that grows can be asked for more, or for less, of what grows: what is there stays.
        """
        folder = Path(folder).expanduser()
        plain = as_json(layout.settings, settings)
        stored = StoredSettings(FORMAT, plain, dict(hashes or {}), versions())
        _check_place(folder, resume)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(folder)
        try:
            there = read_settings(folder) if (folder / SETTINGS).exists() else None
            if there is not None and not asks_more(there, stored, layout.grows):
                if not asks_more(stored, there, layout.grows):
                    check_same(folder, there, stored)
            else:
                write_settings(folder, stored)
            return cls(folder, layout, lock, recover_results(folder))
        except BaseException:
            os.close(lock)
            raise

    def results(self, key: Key[R], compute: Callable[[], Iterable[R]]) -> tuple[R, ...]:
        """The records stored under a key; computed, and stored, when they are not there yet.

        What comes back has gone through its JSON form, so that a fresh result and a stored one are equal.
        """
        if self.layout.record_of(key.name) is not key.record:
            raise TypeError(f"{key.name!r} is no result of {self.layout.command}")
        if key.name not in self._results.lines:
            self._store(key, list(compute()))
        return _records(self.folder, self.layout, self._results.lines[key.name])

    def result(self, key: Key[R], compute: Callable[[], R]) -> R:
        """The one record stored under a key; computed, and stored, when it is not there yet."""
        return self.results(key, lambda: [compute()])[0]

    def stored(self, key: Key[R]) -> tuple[R, ...]:
        """The records under a key that is there already; none where it is not."""
        return self.results(key, list) if key in self else ()

    def file(self, file: Writable[C], content: C) -> Path:
        """Write a file of the run; it appears whole, or not at all."""
        return write_file(self.folder, file.name, file.text(content))

    def data(self) -> RunData[S]:
        """The run as readers see it."""
        return read_run(self.folder, [self.layout])

    def _store(self, key: Key[R], records: list[R]) -> None:
        try:
            rows = json.loads(json.dumps([as_json(key.record, each) for each in records], allow_nan=False))
            [record_from_json(key.record, row) for row in rows]
            result = StoredResult(key.name, rows, len(self._results.lines) + 1)
            append_result(self.folder, self._results, result)
        except ValueError as error:
            raise BadRun(f"Result {key.name!r} cannot be stored: {in_short(error)}.") from error

    def __contains__(self, key: Key[Any]) -> bool:
        return key.name in self._results.lines

    def close(self) -> None:
        """Give the folder back to other processes."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- what stands behind a number


def versions() -> dict[str, str]:
    """Versions of all that can change a number; read from metadata, so that nothing heavy is imported."""
    numbers = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            numbers[package] = version(package)
        except PackageNotFoundError:
            numbers[package] = "not installed"
    return numbers


def file_hash(path: str | Path) -> str:
    """sha256 of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_hash(texts: str | Iterable[str]) -> str:
    """sha256 of one text or several; where one ends and the next begins counts."""
    digest = hashlib.sha256()
    for text in [texts] if isinstance(texts, str) else texts:
        data = text.encode()
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()


# ---- places, and what may go on in them


def _check_place(folder: Path, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise BadRun(f"{folder} is a file. Give a new folder, or that of an earlier run.")
    if not folder.is_dir():
        return
    started = (folder / SETTINGS).exists()
    strange = sorted(p.name for p in folder.iterdir() if p.name != LOCK and not p.name.startswith(TEMPORARY))
    if strange and not started:
        raise BadRun(f"{folder} is not empty and not a run (it has {strange[0]}). Give a new folder.")
    if started and not resume:
        raise BadRun(f"{folder} already holds a run. Resume it, or give a new folder.")


def _take_lock(folder: Path) -> int:
    """A lock that the system gives back when the process ends, however it ends."""
    lock = opened(folder, LOCK, os.O_CREAT | os.O_RDWR)
    if sys.platform != "win32":
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise BadRun(
                f"Another process is writing in {folder}. Wait for it, or give another folder."
            ) from error
    return lock
