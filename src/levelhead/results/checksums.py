"""Checksums of a run folder: a value that was changed later, and still fits its record, is noticed.

    results.jsonl    each line ends with the sha256 of the checksum before it and of the line without its own
    settings.json    ends with the sha256 of all else that it holds
    files.sha256     has a line for each of the other files that readers use, as `sha256sum -c` takes them

They are against accidents: bits that flip, editors, merges, lines that get lost. They say nothing about who
wrote a run: anyone can compute them anew.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from levelhead.errors import BadRun
from levelhead.files import write_text_inside
from levelhead.ordinary import read_bytes

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


def check_file(folder: Path, name: str, data: bytes) -> None:
    """ValueError where a file of a run is not what was written; files without a checksum pass."""
    if _file_seals(folder).get(name) not in (None, checksum(data)):
        raise ValueError(f"its checksum in {FILES} does not fit: something was changed")


def _file_seals(folder: Path) -> dict[str, str]:
    """The checksums of a run's files by their names."""
    path = folder / FILES
    try:
        text = (read_bytes(folder, FILES) or b"").decode("utf-8")
        lines = [line.split("  ", 1) for line in text.split("\n")[:-1]]
        return {name: seal for seal, name in lines}
    except (OSError, ValueError) as error:
        fault = " ".join(str(error).split())[:120]
        raise BadRun(f"{path} is damaged ({fault}). Run the study again in a new folder.") from None


def _write_seals(folder: Path, seals: dict[str, str]) -> None:
    write_text_inside(folder, FILES, "".join(f"{seals[name]}  {name}\n" for name in sorted(seals)))
