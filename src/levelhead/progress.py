"""One progress display on stderr; silent when stderr is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_T = TypeVar("_T")
_EVERY = 1000  # items between two updates: each costs more than reading a line
_display: ContextVar[Progress | None] = ContextVar("levelhead_progress", default=None)


@contextmanager
def display() -> Iterator[Progress]:
    """A display that all steps inside share; the outermost one wins."""
    shared = _display.get()
    if shared is not None:
        yield shared
        return
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        token = _display.set(progress)
        try:
            yield progress
        finally:
            _display.reset(token)


@contextmanager
def steps(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far a loop has come: call what you get with the number of steps just done."""
    with display() as progress:
        task = progress.add_task(label, total=total)
        try:
            yield lambda done: progress.update(task, advance=done)
        finally:
            progress.remove_task(task)


def counted(
    items: Iterable[_T], label: str, total: int, size: Callable[[_T], int] = lambda _: 1
) -> Iterator[_T]:
    """The items one by one, and how far they have come; size: what an item counts of the total."""
    with steps(label, total) as advance:
        done = 0
        for number, item in enumerate(items, start=1):
            yield item
            done += size(item)
            if number % _EVERY == 0:
                advance(done)
                done = 0
