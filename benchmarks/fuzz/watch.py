"""A watch over the process: every file that is opened for writing, made, moved or removed, and every socket.

Python reports them to audit hooks, which cannot be taken off again; so there is one, and it listens only
while an input is being read.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

_CHANGES = {  # which argument says in which open folder, if in one
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.mkdir": 2,
    "os.truncate": -1,
    "os.link": 2,
    "os.symlink": -1,
    "os.chmod": -1,
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FREE = ("/dev/", "/proc/")  # nothing that lasts


class Watch:
    """Notes what is written outside a folder. One a process: `Watch()` adds a hook for good.

    Results that nobody holds any more remove their folders when they are found: those of earlier work are
    found before anything is watched.
    """

    def __init__(self) -> None:
        gc.collect()
        self.writes: list[str] = []
        self.sockets: list[str] = []
        self._allowed: str | None = None
        self._at = ""  # the open folder in which a name is being opened
        sys.addaudithook(self._note)

    @contextmanager
    def over(self, outputs: Path) -> Iterator[None]:
        """Listen while the block runs; what is written under outputs is allowed."""
        self.writes, self.sockets = [], []
        self._allowed = f"{outputs}{os.sep}"
        try:
            with patch.object(os, "open", partial(self._opened, os.open)):
                yield
        finally:
            self._allowed = None

    def _opened(self, system: Callable[..., int], path: Any, *args: Any, **options: Any) -> int:
        """What os.open does. An audit hook is not told in which open folder a name is opened."""
        self._at = _folder_of(options.get("dir_fd"))
        try:
            return system(path, *args, **options)
        finally:
            self._at = ""

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if self._allowed is None:
            return
        if event == "open" and _for_writing(args):
            self._note_path(args[0], self._allowed, self._at)
        elif event in _CHANGES:
            at = _folder_of(args[_CHANGES[event]] if _CHANGES[event] >= 0 else None)
            for path in args[:2]:
                self._note_path(path, self._allowed, at)
        elif event in ("os.system", "os.exec"):
            self.writes.append(f"{event} {args[0]!r}")
        elif event in ("socket.connect", "socket.getaddrinfo"):
            self.sockets.append(f"{event} {args[1] if event == 'socket.connect' else args[0]!r}")

    def _note_path(self, path: object, allowed: str, at: str = "") -> None:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str | os.PathLike):
            whole = os.path.abspath(os.path.join(at, path))
            if not f"{whole}{os.sep}".startswith((allowed, *_FREE)):  # /proc itself is tried as a parent
                self.writes.append(whole)


def _folder_of(handle: object) -> str:
    """The folder behind a descriptor; none where there is no descriptor."""
    return os.readlink(f"/proc/self/fd/{handle}") if isinstance(handle, int) and handle >= 0 else ""


def _for_writing(args: tuple[Any, ...]) -> bool:
    path, mode, flags = args[:3]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITING) and not isinstance(path, int)
