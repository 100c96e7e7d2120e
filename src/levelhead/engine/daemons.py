"""Ray's own processes on this machine: whether they live, and what happens if others end them.

Ray's calls wait for minutes for a process that is gone, and then end the program without a word. So the crew
looks before it calls (crew.py); and where a call is waiting already, a thread beside it says the line and
ends the program. Nothing is lost by that: files of a run appear whole or not at all, and the same command
goes on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_NAMES = ("gcs_server", "raylet")  # without either nothing goes on
_LOOK = 2.0  # seconds between looks
_GRACE = 60.0  # seconds in which the crew may find out by itself


def ended_daemon(ray: Any) -> str:
    """The name of one that was begun by this program and is gone; empty where all live."""
    node = ray._private.worker._global_node
    started = {} if node is None else node.all_processes
    ended = (name for name in _NAMES for each in started.get(name, ()) if each.process.poll() is not None)
    return next(ended, "")


def ended_line(name: str) -> str:
    """What a user is told about it."""
    return (
        f"{name}, a process of Ray's on this machine, was ended by others. Run the same command again; "
        "it goes on."
    )


class DaemonWatch:
    """A thread that looks after the daemons until it is dismissed; `last` runs before it ends the program."""

    def __init__(
        self, ray: Any, last: Callable[[], None], look: float = _LOOK, grace: float = _GRACE
    ) -> None:
        self._ray, self._last, self._look, self._grace = ray, last, look, grace
        self._dismissed = threading.Event()
        threading.Thread(target=self._watch, name="levelhead: Ray's processes", daemon=True).start()

    def dismiss(self) -> None:
        """Look no longer."""
        self._dismissed.set()

    def _watch(self) -> None:
        while not self._dismissed.wait(self._look):
            if (name := ended_daemon(self._ray)) and not self._dismissed.wait(self._grace):
                self._end(name)

    def _end(self, name: str) -> None:
        sys.stderr.write(f"levelhead: {ended_line(name)}\n")
        sys.stderr.flush()
        node = self._ray._private.worker._global_node
        for each in (each for some in node.all_processes.values() for each in some):
            with suppress(OSError):
                os.kill(each.process.pid, signal.SIGKILL)
        self._last()
        os._exit(1)
