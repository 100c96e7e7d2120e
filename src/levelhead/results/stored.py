"""The two files that every run folder has: settings.json, and results.jsonl with one line a result.

Both are sealed by checksums, which checksums.py explains.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from levelhead.errors import BadRun
from levelhead.files import write_text_inside, writing
from levelhead.ordinary import opened, read_bytes
from levelhead.results.checksums import CHECKSUM, checksum, seal_of, sealed
from levelhead.results.codec import Json, Record, record_from_json

FORMAT = 4  # of the run folder
_WRITTEN_BY = {1: "0.1", 2: "0.1", 3: "0.1"}  # which versions read the formats before
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


def write_settings(folder: Path, settings: StoredSettings) -> None:
    """Write settings.json."""
    content = {**settings.to_json(), CHECKSUM: _settings_seal(settings)}
    write_text_inside(folder, SETTINGS, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _reader(number: object) -> str:
    """Which version reads a format, as the beginning of advice."""
    version = _WRITTEN_BY.get(number) if isinstance(number, int) else None
    return "" if version is None else f"levelhead {version} reads it: pip install 'levelhead=={version}.*'. "


def read_settings(folder: Path) -> StoredSettings:
    """Read settings.json; another format, or something else than settings, is one line."""
    path = folder / SETTINGS
    try:
        stored = json.loads((read_bytes(folder, SETTINGS) or b"").decode("utf-8"))
        if not isinstance(stored, dict):
            raise TypeError("it is no mapping")
        if (number := stored.get("format", 1)) != FORMAT:
            raise BadRun(
                f"{folder} has format {str(number)[:20]}; this levelhead reads format {FORMAT}. "
                f"{_reader(number)}Run the study again in a new folder."
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
        shown = "; ".join(
            f"{key.removeprefix('settings.')} {_shown(old, key)} there, {_shown(new, key)} here"
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
            result = _parsed(line, number)
            if result.key in results.lines:
                raise ValueError(f"key {result.key[:40]!r} twice")
            results.seal = seal_of(line, results.seal)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise damaged(path, error, number) from error
        results.lines[result.key] = result
    return results


def recover_results(folder: Path) -> StoredResults:
    """The results for going on: what a kill left of a last line is cut off."""
    results = read_results(folder)
    if results.size < results.read:
        with writing(folder / RESULTS), _writable(folder, os.O_WRONLY) as file:
            file.truncate(results.size)
    return results


def append_result(folder: Path, results: StoredResults, result: StoredResult) -> None:
    """Append one line durably; when the disk is full, take back what was written of it."""
    path = folder / RESULTS
    text = json.dumps({"key": result.key, "rows": result.rows}, ensure_ascii=False)
    line, seal = sealed(text.encode(), results.seal)
    with writing(path), _writable(folder, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        start = file.seek(0, os.SEEK_END)
        try:
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(start)
            raise
    results.lines[result.key] = result
    results.seal = seal


def _writable(folder: Path, flags: int) -> FileIO:
    """results.jsonl as a file that is written at once."""
    return FileIO(opened(folder, RESULTS, flags), "wb")


def damaged(path: Path, error: Exception, line: int | None = None) -> BadRun:
    """One line about a file of a run that holds something else than it should."""
    place = f"{path} is damaged" + ("" if line is None else f" at line {line}")
    return BadRun(f"{place} ({in_short(error)}). Start again in a new folder.")


def in_short(error: Exception) -> str:
    """An error's kind, and the beginning of what it says."""
    kind, text = type(error).__name__, " ".join(str(error).split())[:120]
    return f"{kind}: {text}" if text else kind


def _shown(leaves: Mapping[str, object], key: str) -> str:
    return json.dumps(leaves[key], ensure_ascii=False)[:60] if key in leaves else "absent"


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested data with its dotted path; empty containers are values too."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _parsed(line: bytes, number: int) -> StoredResult:
    entry = json.loads(line)
    key, rows = entry["key"], entry["rows"]
    if not isinstance(key, str) or not isinstance(rows, list):
        raise ValueError("a key that is no text, or rows that are no list")
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a row that is no mapping")
    return StoredResult(key, rows, number)
