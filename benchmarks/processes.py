"""Processes below one of ours, by what /proc says of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def below(process: int) -> list[int]:
    """Children, and theirs, the nearest first."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(after_name[1]), []).append(int(entry.name))
    found, left = list[int](), [process]
    while left:
        children = parents.get(left.pop(0), [])
        found += children
        left += children
    return found


def named(processes: Iterable[int], beginnings: tuple[str, ...]) -> list[int]:
    """Those whose program, without its folder, begins so."""
    return [each for each in processes if _program(each).startswith(beginnings)]


def alive(process: int) -> bool:
    """Whether there is such a process that has not ended."""
    with suppress(OSError):
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def end_left(processes: Iterable[int]) -> None:
    """End what is left of processes that were ours: a killed parent's children have no parent to end them."""
    for each in processes:
        if alive(each):
            with suppress(OSError):
                os.kill(each, signal.SIGKILL)


def _program(process: int) -> str:
    with suppress(OSError):
        first = (Path("/proc") / str(process) / "cmdline").read_bytes().split(b"\0")[0]
        return first.decode(errors="replace").rpartition("/")[2]
    return ""
