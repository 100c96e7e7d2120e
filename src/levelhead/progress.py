"""One progress display on stderr: bars on a terminal, plain lines where commands ask for them, else nothing.

Plain lines are for logs: one for each stage when it begins, and one a minute with the time that is left.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from levelhead.escaping import escaped

_WHOLE = (
    7 * 86_400.0
)  # seconds that a bar's speed is taken over; rich's 30 are less than a slow model's batch
_MINUTE = 60.0  # seconds between plain lines
_EVERY = 1000  # items between two updates: each costs more than reading a line
_T = TypeVar("_T")


class Display(Protocol):
    """What shows how far tasks have come."""

    def add_task(self, description: str, *, total: float) -> TaskID: ...

    def update(
        self, task_id: TaskID, *, advance: float, total: float | None = None, description: str | None = None
    ) -> None: ...

    def remove_task(self, task_id: TaskID) -> None: ...


_display: ContextVar[Display | None] = ContextVar("levelhead_progress", default=None)
_alone: ContextVar[bool] = ContextVar("levelhead_one_bar", default=False)
_plain: ContextVar[bool] = ContextVar("levelhead_plain_progress", default=False)


@contextmanager
def plain_lines() -> Iterator[None]:
    """Inside, progress is printed as plain lines where stderr is no terminal: commands do, a library is
    silent."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def told_in_lines() -> bool:
    """Whether a command is running, whose user waits."""
    return _plain.get()


@contextmanager
def display() -> Iterator[Display]:
    """A display that all steps inside share; the outermost one wins."""
    shared = _display.get()
    if shared is not None:
        yield shared
        return
    console = Console(stderr=True)
    with _lines() if _plain.get() and not console.is_terminal else _bars(console) as shown:
        token = _display.set(shown)
        try:
            yield shown
        finally:
            _display.reset(token)


_drawing = threading.Lock()  # bars of two threads would draw over each other: one has some, the others none


@contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    shown = console.is_terminal and _drawing.acquire(blocking=False)
    try:
        with _progress(console, shown) as progress:
            yield progress
    finally:
        if shown:
            _drawing.release()


def _progress(console: Console, shown: bool) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(
        *columns, console=console, transient=True, disable=not shown, speed_estimate_period=_WHOLE
    )


@contextmanager
def alone() -> Iterator[None]:
    """Inside, no steps are shown: there is one bar for the whole (work.py)."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


@contextmanager
def steps(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far a loop has come: call what you get with the number of steps just done."""
    if _alone.get():
        yield lambda done: None
        return
    with display() as progress:
        task = progress.add_task(label, total=total)
        try:
            yield lambda done: progress.update(task, advance=done)
        finally:
            progress.remove_task(task)


def say(line: str) -> None:
    """One line on stderr, above the bars where there are some."""
    line = escaped(line)
    shown = _display.get()
    if isinstance(shown, Progress) and not shown.disable:
        shown.console.print(f"levelhead: {line}", markup=False, highlight=False, soft_wrap=True)
    else:
        print(f"levelhead: {line}", file=sys.stderr, flush=True)


def counted(
    items: Iterable[_T], label: str, total: int, size: Callable[[_T], int] = lambda _: 1
) -> Iterator[_T]:
    """The items one by one, and how far they have come; size: what an item counts of the total.

    Few items are there before anybody could read how many there are: nothing is shown of them.
    """
    left, done = iter(items), 0
    for item in islice(left, _EVERY):
        yield item
        done += size(item)
    for following in islice(left, 1):
        with steps(label, total) as advance:
            advance(done)
            done = 0
            for number, item in enumerate(chain([following], left), start=1):
                yield item
                done += size(item)
                if number % _EVERY == 0:
                    advance(done)
                    done = 0


# ---- plain lines


def _now() -> float:
    return time.monotonic()


@dataclass
class _Task:
    """A loop that is under way."""

    label: str
    total: float
    done: float = 0.0
    began: float = field(default_factory=_now)

    @property
    def left(self) -> float | None:
        """Seconds until it is done, at the speed so far; None before its first step."""
        if not self.done:
            return None
        return max(0.0, (_now() - self.began) * (self.total - self.done) / self.done)

    def __str__(self) -> str:
        return f"{self.label} {self.done:,.0f} of {self.total:,.0f}"


class _Lines:
    """Tasks under way, the outermost first, told in plain lines."""

    def __init__(self) -> None:
        self._tasks: dict[TaskID, _Task] = {}
        self._named: set[str] = set()
        self._next = 0
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def add_task(self, description: str, *, total: float) -> TaskID:
        """Begin a loop; its first time is a stage, which has a line."""
        with self._lock:
            self._next += 1
            task = TaskID(self._next)
            self._tasks[task] = _Task(description, total)
            new = description not in self._named
            self._named.add(description)
        if new:
            self.tell()
        return task

    def update(
        self, task_id: TaskID, *, advance: float, total: float | None = None, description: str | None = None
    ) -> None:
        """Count steps; a loop that goes on under another name is a new stage."""
        with self._lock:
            task = self._tasks[task_id]
            task.done += advance
            task.total = task.total if total is None else total
            task.label = description or task.label
        if description is not None:
            self.tell()

    def remove_task(self, task_id: TaskID) -> None:
        """End a loop."""
        with self._lock:
            del self._tasks[task_id]

    def tell(self) -> None:
        """One line: every loop under way, how long it took so far, and how long the outermost will take."""
        with self._lock:
            tasks = list(self._tasks.values())
        if not tasks:
            return
        left = next((task.left for task in tasks if task.left is not None), None)
        so_far = duration(time.monotonic() - self._began)
        rest = "" if left is None else f", about {duration(left)} left"
        print(f"levelhead: {', '.join(map(str, tasks))}; {so_far} so far{rest}", file=sys.stderr, flush=True)


@contextmanager
def _lines() -> Iterator[_Lines]:
    """Lines whenever a stage begins, and once a minute from a thread: a slow batch must not look dead."""
    lines, ended = _Lines(), threading.Event()

    def remind() -> None:
        while not ended.wait(_MINUTE):
            lines.tell()

    reminder = threading.Thread(target=remind, name="levelhead progress", daemon=True)
    reminder.start()
    try:
        yield lines
    finally:
        ended.set()
        reminder.join()


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, as people say them."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
