"""Checksums computed anew, for tests of what else a reader notices in a run that was changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from levelhead.runs.files import CHECKSUM, FILES, checksum, sealed
from levelhead.runs.folder import RESULTS, SETTINGS


def reseal(folder: Path) -> None:
    """Give everything in a run, and in the runs inside it, the checksum of what it holds now."""
    for path in folder.rglob(RESULTS):
        _rewrite(path, _sealed_results)
    for path in folder.rglob(SETTINGS):
        _rewrite(path, _sealed_settings)
    for path in folder.rglob(FILES):
        _rewrite(path, lambda data, parent=path.parent: _sealed_files(data, parent))  # type: ignore[misc]


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    if path.is_file():
        path.write_bytes(change(path.read_bytes()))


def _sealed_results(data: bytes) -> bytes:
    """Lines of JSON objects are sealed, one after the other; others, and a line without an end, stay."""
    lines, seal = data.split(b"\n"), ""
    for number, line in enumerate(lines[:-1]):
        try:
            entry = dict(json.loads(line))
            entry.pop(CHECKSUM, None)
            body = json.dumps(entry, ensure_ascii=False).encode()
        except (ValueError, TypeError, RecursionError):
            continue
        lines[number], seal = sealed(body, seal)
    return b"\n".join(lines)


def _sealed_settings(data: bytes) -> bytes:
    try:
        stored = dict(json.loads(data))
        stored.pop(CHECKSUM, None)
        seal = checksum(json.dumps(stored, ensure_ascii=False).encode())
        return json.dumps({**stored, CHECKSUM: seal}).encode()
    except (ValueError, TypeError, RecursionError):
        return data


def _sealed_files(data: bytes, folder: Path) -> bytes:
    names = [line.partition("  ")[2] for line in data.decode(errors="replace").split("\n")[:-1]]
    lines = []
    for name in names:
        with suppress(OSError, ValueError):  # a name that was damaged itself
            lines.append(f"{checksum((folder / name).read_bytes())}  {name}\n")
    return "".join(lines).encode(errors="replace")
