"""A watch over the process: every file that is opened for writing, made, moved or removed, and every socket.

Python reports them to audit hooks, which cannot be taken off again; so there is one, and it listens only
while an input is being read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CHANGES = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.truncate",
    "os.link",
    "os.symlink",
    "os.chmod",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FREE = ("/dev/", "/proc/")  # nothing that lasts


class Watch:
    """Notes what is written outside a folder. One a process: `Watch()` adds a hook for good."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self._allowed: str | None = None
        sys.addaudithook(self._note)

    @contextmanager
    def over(self, outputs: Path) -> Iterator[None]:
        """Listen while the block runs; what is written under outputs is allowed."""
        self.writes = []
        self._allowed = f"{outputs}{os.sep}"
        try:
            yield
        finally:
            self._allowed = None

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if self._allowed is None:
            return
        if event == "open" and _for_writing(args):
            self._note_path(args[0], self._allowed)
        elif event in _CHANGES:
            for path in args[:2]:
                self._note_path(path, self._allowed)
        elif event == "socket.connect":
            self.writes.append(f"socket to {args[1]!r}")

    def _note_path(self, path: object, allowed: str) -> None:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str | os.PathLike):
            whole = os.path.abspath(path)
            if not f"{whole}{os.sep}".startswith((allowed, *_FREE)):  # /proc itself is tried as a parent
                self.writes.append(whole)


def _for_writing(args: tuple[Any, ...]) -> bool:
    path, mode, flags = args[:3]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITING) and not isinstance(path, int)
