"""The run folder: settings, one JSON line a result, files that appear whole or not at all.

    settings.json    the format's version, what was evaluated, hashes of data and weights, package versions
    results.jsonl    {"key": ..., "rows": [...], "sha256": ...}, one line a result, in the order of computing
    files.sha256     checksums of the files below
    and the files that the study declares

A killed run leaves at most a part of one last line, which the next start drops; computing what is not
there yet then gives the same bytes as a run that was never killed. For that, nothing here depends on the
clock or on the machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from io import FileIO
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from levelhead.errors import BadRun
from levelhead.runs.files import CHECKSUM, checksum, seal_of, sealed, write_file
from levelhead.runs.records import Json, Record, as_json, record_from_json
from levelhead.safe_files import TEMPORARY, opened, read_bytes, write_text_inside, writing

if sys.platform != "win32":  # there, two processes in one folder are not noticed
    import fcntl

LOCK = ".lock"
PACKAGES = ("levelhead", "torch", "transformers", "numpy")
R = TypeVar("R")
S = TypeVar("S")
C = TypeVar("C", contravariant=True)


class Writable(Protocol[C]):
    """A file that a study declares: its name, and the text for a content of its type."""

    @property
    def name(self) -> str: ...

    def text(self, content: C) -> str: ...


@dataclass(eq=False)
class Key(Generic[R]):
    """The name of one result, and the type of its records."""

    name: str
    record: type[R]


class Layout(Protocol):
    """What a run folder knows of its study: a Study (study.py) is one."""

    name: str
    grows: str  # a setting, a list, which a finished run can extend
    command: str
    stored: type[Any]

    def record_of(self, key: str) -> type[Any] | None: ...


# ---- the two files that every run folder has

FORMAT = 5  # of the run folder
_WRITTEN_BY = {1: "0.1", 2: "0.1", 3: "0.1", 4: "0.2"}  # which versions read the formats before
SETTINGS, RESULTS = "settings.json", "results.jsonl"


@dataclass(frozen=True)
class StoredSettings(Record):
    """What settings.json holds."""

    format: int
    settings: Mapping[str, Any]  # of the study
    hashes: Mapping[str, str]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class StoredResult:
    """One line of results.jsonl."""

    key: str
    rows: list[Json]
    number: int  # of the line, from 1


@dataclass
class StoredResults:
    """The whole lines of results.jsonl by their keys, their bytes, and the checksum of the last one."""

    lines: dict[str, StoredResult] = field(default_factory=dict)
    size: int = 0
    read: int = 0  # bytes, with what a kill left of a last line
    seal: str = ""


def read_settings(folder: Path) -> StoredSettings:
    """Read settings.json; another format, or something else than settings, is one line."""
    path = folder / SETTINGS
    try:
        stored = json.loads((read_bytes(folder, SETTINGS) or b"").decode("utf-8"))
        if not isinstance(stored, dict):
            raise TypeError("it is no mapping")
        if (number := stored.get("format", 1)) != FORMAT:
            reader = _WRITTEN_BY.get(number) if isinstance(number, int) else None
            advice = f"levelhead {reader} reads it: pip install 'levelhead=={reader}.*'. " if reader else ""
            raise BadRun(
                f"{folder} has format {str(number)[:20]}; this levelhead reads format {FORMAT}. "
                f"{advice}Run the study again in a new folder."
            )
        seal = stored.pop(CHECKSUM, None)
        settings = record_from_json(StoredSettings, stored)
        if seal != _settings_seal(settings):
            raise ValueError("its checksum does not fit: a value was changed")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise damaged(path, error) from error
    return settings


def _settings_seal(settings: StoredSettings) -> str:
    return checksum(json.dumps(settings.to_json(), ensure_ascii=False).encode())


def asks_more(there: StoredSettings, here: StoredSettings, grows: str) -> bool:
    """Whether `here` asks for what `there` asks for and more of what grows, and differs in nothing else."""
    old, new = there.settings.get(grows), here.settings.get(grows)
    if not isinstance(old, list) or not isinstance(new, list) or not set(old) < set(new):
        return False
    same = {**there.settings, grows: None} == {**here.settings, grows: None}
    hashed = all(here.hashes.get(name) == digest for name, digest in there.hashes.items())
    return same and hashed and there.versions == here.versions


def check_same(folder: Path, there: StoredSettings, here: StoredSettings) -> None:
    """Refuse a folder that was begun with other settings, data or versions, and name what differs."""
    old, new = dict(_leaves(there.to_json())), dict(_leaves(here.to_json()))
    differ = [key for key in {**old, **new} if old.get(key) != new.get(key) or (key in old) != (key in new)]
    if differ:
        told = [
            {key: json.dumps(leaves[key], ensure_ascii=False)[:60] for key in differ[:3] if key in leaves}
            for leaves in (old, new)
        ]
        shown = "; ".join(
            "{} {} there, {} here".format(
                key.removeprefix("settings."), *(each.get(key, "absent") for each in told)
            )
            for key in differ[:3]
        )
        more = f" and {len(differ) - 3} more" if len(differ) > 3 else ""
        raise BadRun(
            f"{folder} belongs to other settings: {shown}{more}. Give a new folder, or the same settings."
        )


def read_results(folder: Path) -> StoredResults:
    """The results; what a kill left of a last line is passed over."""
    path = folder / RESULTS
    try:
        data = read_bytes(folder, RESULTS) or b""
    except OSError as error:
        raise damaged(path, error) from error
    results = StoredResults(size=data.rfind(b"\n") + 1, read=len(data))
    for number, line in enumerate(data[: results.size].split(b"\n")[:-1], start=1):
        try:
            entry = json.loads(line)
            key, rows = entry["key"], entry["rows"]
            if not isinstance(key, str) or not isinstance(rows, list):
                raise ValueError("a key that is no text, or rows that are no list")
            if not all(isinstance(row, dict) for row in rows):
                raise ValueError("a row that is no mapping")
            if key in results.lines:
                raise ValueError(f"key {key[:40]!r} twice")
            results.seal = seal_of(line, results.seal)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise damaged(path, error, number) from error
        results.lines[key] = StoredResult(key, rows, number)
    return results


def damaged(path: Path, error: Exception, line: int | None = None) -> BadRun:
    """One line about a file of a run that holds something else than it should."""
    place = f"{path} is damaged" + ("" if line is None else f" at line {line}")
    return BadRun(f"{place} ({in_short(error)}). Start again in a new folder.")


def in_short(error: Exception) -> str:
    """An error's kind, and the beginning of what it says."""
    kind, text = type(error).__name__, " ".join(str(error).split())[:120]
    return f"{kind}: {text}" if text else kind


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested data with its dotted path; empty containers are values too."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


# ---- reading


@dataclass(frozen=True)
class RunData(Generic[S]):
    """A run as readers see it. Records are typed; each has an address in results.jsonl."""

    folder: Path
    study: Layout
    settings: S
    hashes: Mapping[str, str]
    versions: Mapping[str, str]
    results: Mapping[str, tuple[Any, ...]]  # key -> records, in the order of computing
    _addresses: Mapping[int, str] = field(repr=False)  # id of a record -> key#index

    def records(self, key: Key[R]) -> tuple[R, ...]:
        """The records of one result; none where it is not there (yet)."""
        return self.results.get(key.name, ())

    def labeled(self, name: str) -> dict[str, tuple[Any, ...]]:
        """The results `name/label` by their labels, in the order of computing."""
        prefix = f"{name}/"
        return {
            key.removeprefix(prefix): rows for key, rows in self.results.items() if key.startswith(prefix)
        }

    def address(self, record: object) -> str | None:
        """Where a record of this run stands in results.jsonl: `key#index`; None for any other record."""
        return self._addresses.get(id(record))


def read_run(folder: str | Path, studies: Iterable[Layout]) -> RunData[Any]:
    """Read a run of one of these studies, finished or not, without changing it."""
    folder = Path(folder).expanduser()
    if not (folder / SETTINGS).is_file():
        raise BadRun(
            f"{folder} is not a run folder: it has no {SETTINGS}. Give the folder that a study wrote."
        )
    stored = read_settings(folder)
    name, allowed = stored.settings.get("study"), tuple(studies)
    study = next((each for each in allowed if each.name == name), None)
    if study is None:
        commands = ", ".join(f"`{each.command}`" for each in allowed)
        raise BadRun(f"{folder} holds a run of {str(name)[:40]!r}. Give a folder that {commands} wrote.")
    try:
        settings = record_from_json(study.stored, stored.settings)
    except ValueError as error:
        raise damaged(folder / SETTINGS, error) from None
    lines = read_results(folder).lines
    results = {name: _records(folder, study, line) for name, line in lines.items()}
    addresses = {id(r): f"{name}#{i}" for name, records in results.items() for i, r in enumerate(records)}
    return RunData(folder, study, settings, stored.hashes, stored.versions, results, addresses)


def _records(folder: Path, study: Layout, stored: StoredResult) -> tuple[Any, ...]:
    kind = study.record_of(stored.key)
    if kind is None:
        fault = ValueError(f"{stored.key[:60]!r} is no result of {study.command}")
        raise damaged(folder / RESULTS, fault, stored.number)
    try:
        return tuple(record_from_json(kind, row) for row in stored.rows)
    except (ValueError, RecursionError) as error:
        raise damaged(folder / RESULTS, error, stored.number) from None


# ---- writing


@dataclass(eq=False, repr=False)
class Run(Generic[S]):
    """An open run folder; `with Run.open(...) as run:` so that its lock is given back."""

    folder: Path
    study: Layout
    _lock: int
    _results: StoredResults

    @classmethod
    def open(
        cls,
        folder: str | Path,
        study: Layout,
        settings: S,
        *,
        hashes: Mapping[str, str] | None = None,
        resume: bool = True,
    ) -> Self:
        """Start a run, or go on with one that was started with the same settings, hashes and versions.

        A run of a study that grows can be started with more or less of what grows: what is there stays.
        """
        folder = Path(folder).expanduser()
        plain = as_json(study.stored, settings)
        stored = StoredSettings(FORMAT, plain, dict(hashes or {}), versions())
        if folder.is_dir():
            started = (folder / SETTINGS).exists()
            names = sorted(p.name for p in folder.iterdir())
            strange = [name for name in names if name != LOCK and not name.startswith(TEMPORARY)]
            if strange and not started:
                raise BadRun(f"{folder} is not empty and not a run (it has {strange[0]}). Give a new folder.")
            if started and not resume:
                raise BadRun(f"{folder} already holds a run. Resume it, or give a new folder.")
        elif folder.exists():
            raise BadRun(f"{folder} is a file. Give a new folder, or that of an earlier run.")
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # a lock that the system gives back when the process ends, however it ends
            lock = opened(folder, LOCK, os.O_CREAT | os.O_RDWR)
            if sys.platform != "win32":
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    os.close(lock)
                    raise BadRun(
                        f"Another process is writing in {folder}. Wait for it, or give another folder."
                    ) from error
        try:
            there = read_settings(folder) if (folder / SETTINGS).exists() else None
            if there is not None and not asks_more(there, stored, study.grows):
                if not asks_more(stored, there, study.grows):
                    check_same(folder, there, stored)
            else:
                content = {**stored.to_json(), CHECKSUM: _settings_seal(stored)}
                text = json.dumps(content, indent=1, ensure_ascii=False)
                write_text_inside(folder, SETTINGS, f"{text}\n")
            results = read_results(folder)
            if results.size < results.read:  # what a kill left of a last line
                with writing(folder / RESULTS), FileIO(opened(folder, RESULTS, os.O_WRONLY), "wb") as file:
                    file.truncate(results.size)
            return cls(folder, study, lock, results)
        except BaseException:
            os.close(lock)
            raise

    def results(self, key: Key[R], compute: Callable[[], Iterable[R]]) -> tuple[R, ...]:
        """The records stored under a key; computed, and stored, when they are not there yet.

        What comes back has gone through its JSON form, so that a fresh result and a stored one are equal.
        """
        if self.study.record_of(key.name) is not key.record:
            raise TypeError(f"{key.name!r} is no result of {self.study.command}")
        if key.name not in self._results.lines:
            records = list(compute())
            try:
                rows = json.loads(
                    json.dumps([as_json(key.record, each) for each in records], allow_nan=False)
                )
                for row in rows:  # what could not be read back is not written
                    record_from_json(key.record, row)
                result = StoredResult(key.name, rows, len(self._results.lines) + 1)
                # append durably; when the disk is full, take back what was written of the line
                path = self.folder / RESULTS
                text = json.dumps({"key": result.key, "rows": result.rows}, ensure_ascii=False)
                line, seal = sealed(text.encode(), self._results.seal)
                added = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                with writing(path), FileIO(opened(self.folder, RESULTS, added), "wb") as file:
                    start = file.seek(0, os.SEEK_END)
                    try:
                        rest = memoryview(line + b"\n")
                        while rest:
                            rest = rest[file.write(rest) :]
                        os.fsync(file.fileno())
                    except OSError:
                        file.truncate(start)
                        raise
                self._results.lines[result.key] = result
                self._results.seal = seal
            except ValueError as error:
                raise BadRun(f"Result {key.name!r} cannot be stored: {in_short(error)}.") from error
        return _records(self.folder, self.study, self._results.lines[key.name])

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
        return read_run(self.folder, [self.study])

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


# ---- one writer at a time
