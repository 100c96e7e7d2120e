"""The run folder: settings, one JSON line a result, files that appear whole or not at all.

    settings.json   what was asked: settings, hashes of data and weights, versions
    results.jsonl   {"key": ..., "rows": [...]}, one line a result, in the order in which they were computed

A killed run leaves at most a part of one last line, which the next opening drops; computing what is not there
yet then gives the same bytes as a run that was never killed. For that, nothing here depends on the clock or
on the machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from levelhead.errors import BadRun
from levelhead.files import TEMPORARY, write_whole, writing

if sys.platform != "win32":  # there, two processes in one folder are not noticed
    import fcntl

SETTINGS, RESULTS, LOCK = "settings.json", "results.jsonl", ".lock"
PACKAGES = ("levelhead", "torch", "transformers", "numpy")
Row = dict[str, Any]


@dataclass(frozen=True)
class RunData:
    """A run as a report reads it."""

    folder: Path
    settings: Mapping[str, Any]
    hashes: Mapping[str, str]
    versions: Mapping[str, str]
    results: Mapping[str, list[Row]]  # key -> rows, in the order of computing

    @property
    def rows(self) -> list[Row]:
        """All rows, each with the key of its result."""
        return [{"key": key, **row} for key, rows in self.results.items() for row in rows]


class Run:
    """An open run folder; `with Run.open(...) as run:` so that its lock is given back."""

    def __init__(self, folder: Path, lock: int, results: dict[str, list[Row]]) -> None:
        self.folder = folder
        self._lock = lock
        self._results = results

    @classmethod
    def open(
        cls,
        folder: str | Path,
        settings: Mapping[str, Any],
        *,
        hashes: Mapping[str, str] | None = None,
        resume: bool = True,
    ) -> Self:
        """Start a run, or go on with one that was started with the same settings, hashes and versions."""
        folder = Path(folder).expanduser()
        asked = _plain({"settings": settings, "hashes": hashes or {}, "versions": versions()}, "settings")
        _check_place(folder, resume)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(folder)
        try:
            if (folder / SETTINGS).exists():
                _check_same(folder, _read_settings(folder), asked)
            else:
                text = json.dumps(asked, indent=1, ensure_ascii=False) + "\n"
                write_whole(folder / SETTINGS, lambda path: path.write_text(text, encoding="utf-8"))
            return cls(folder, lock, _recover(folder / RESULTS))
        except BaseException:
            os.close(lock)
            raise

    def result(
        self, key: str, compute: Callable[[], Mapping[str, Any] | Iterable[Mapping[str, Any]]]
    ) -> list[Row]:
        """The rows stored under `key`; computed, and stored, when they are not there yet."""
        if key not in self._results:
            computed = compute()
            rows = _plain([computed] if isinstance(computed, Mapping) else list(computed), f"result {key!r}")
            line = json.dumps({"key": key, "rows": rows}, ensure_ascii=False, allow_nan=False) + "\n"
            _append(self.folder / RESULTS, line.encode())
            self._results[key] = rows
        return deepcopy(self._results[key])  # the caller may change what it got

    def artifact(self, name: str, write: Callable[[Path], object]) -> Path:
        """A file of the run, written by `write(path)`; it appears whole, or not at all."""
        inner = Path(os.path.normpath(name))
        if inner.is_absolute() or inner.parts[:1] in ((), ("..",)) or str(inner) in (SETTINGS, RESULTS, LOCK):
            raise BadRun(
                f"{name!r} is no name for a file of the run. Give another name, relative to its folder."
            )
        return write_whole(self.folder / inner, write)

    def __contains__(self, key: str) -> bool:
        return key in self._results

    def close(self) -> None:
        """Give the folder back to other processes."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_run(folder: str | Path) -> RunData:
    """Read a run, finished or not, without changing it."""
    folder = Path(folder).expanduser()
    if not (folder / SETTINGS).is_file():
        raise BadRun(
            f"{folder} is not a run folder: it has no {SETTINGS}. Give the folder that a study wrote."
        )
    asked = _read_settings(folder)
    results, _ = _read_results(folder / RESULTS)
    return RunData(folder, asked["settings"], asked["hashes"], asked["versions"], results)


def versions() -> dict[str, str]:
    """Versions of all that can change a number; read from metadata, so that nothing heavy is imported."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


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
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o644)
    if sys.platform != "win32":
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise BadRun(
                f"Another process is writing in {folder}. Wait for it, or give another folder."
            ) from error
    return lock


def _check_same(folder: Path, there: Row, here: Row) -> None:
    old, new = dict(_leaves(there)), dict(_leaves(here))
    differ = [key for key in {**old, **new} if old.get(key) != new.get(key) or (key in old) != (key in new)]
    if differ:
        told = "; ".join(
            f"{k.removeprefix('settings.')} {_say(old, k)} there, {_say(new, k)} here" for k in differ[:3]
        )
        more = f" and {len(differ) - 3} more" if len(differ) > 3 else ""
        raise BadRun(
            f"{folder} belongs to other settings: {told}{more}. Give a new folder, or the same settings."
        )


def _say(leaves: Mapping[str, Any], key: str) -> str:
    return json.dumps(leaves[key], ensure_ascii=False)[:60] if key in leaves else "absent"


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested data with its dotted path; empty containers are values too."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _plain(value: Any, what: str) -> Any:
    """Data as it will be read back from JSON, so that a fresh result and a stored one are the same."""
    try:
        return json.loads(json.dumps(value, default=_to_plain, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        raise BadRun(
            f"{what} cannot be stored: {error}. Use finite numbers, texts, lists, mappings, None."
        ) from error


def _to_plain(value: Any) -> Any:
    """What json does not know: numpy's and torch's numbers and arrays, measurements, mappings, paths."""
    if isinstance(value, Mapping):
        return dict(value)
    for method in ("to_json", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a {type(value).__name__} came")


def _read_settings(folder: Path) -> Row:
    try:
        asked = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        if not all(isinstance(asked[part], dict) for part in ("settings", "hashes", "versions")):
            raise TypeError("a part of it is not a mapping")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRun(
            f"{folder / SETTINGS} is damaged ({_short(error)}). Start again in a new folder."
        ) from error
    return dict(asked)


def _read_results(path: Path) -> tuple[dict[str, list[Row]], int]:
    """Results by key, and how many bytes of the file are whole lines."""
    data = path.read_bytes() if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    results: dict[str, list[Row]] = {}
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
        try:
            entry = json.loads(line)
            key, rows = entry["key"], entry["rows"]
            if key in results or not all(isinstance(row, dict) for row in rows):
                raise ValueError(f"key {key!r} twice, or rows that are no mappings")
        except (ValueError, KeyError, TypeError) as error:
            raise BadRun(
                f"{path} is damaged at line {number} ({_short(error)}). Start in a new folder."
            ) from error
        results[key] = rows
    return results, whole


def _recover(path: Path) -> dict[str, list[Row]]:
    """Read results for going on: what a kill left of a last line is cut off."""
    results, whole = _read_results(path)
    if path.exists() and path.stat().st_size > whole:
        with writing(path):
            os.truncate(path, whole)
    return results


def _append(path: Path, line: bytes) -> None:
    """Append one line durably; when the disk is full, take back what was written of it."""
    with writing(path), path.open("ab", buffering=0) as file:
        start = file.tell()
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(start)
            raise


def _short(error: Exception) -> str:
    return (
        f"{type(error).__name__}: {str(error).splitlines()[0][:80]}" if str(error) else type(error).__name__
    )
