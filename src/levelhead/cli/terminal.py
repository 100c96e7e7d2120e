"""What reaches standard output: letters that it has, and no control characters of a user's data."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from textwrap import fill
from typing import TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console

from levelhead.escaping import escaped

if TYPE_CHECKING:
    from levelhead.runs.study import AnyRun


_LINE, _WORD = 480, 200  # characters of an error, and of one word or path in it


class ShownControls:
    """Standard output, a terminal, pipe or file, to which control characters are written as their numbers."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal

    def write(self, text: str) -> int:
        """Write a text of ours with a user's data inside."""
        return self.terminal.write(escaped(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def painted() -> TextIO:
    """Standard output for what colors and draws by control characters of our own."""
    return sys.stdout.terminal if isinstance(sys.stdout, ShownControls) else sys.stdout


def columns_of_terminal() -> int:
    """How many characters a line of the terminal has; what tables are drawn for where there is none."""
    return Console(file=painted()).width


def print_wrapped(text: str, first: str = "", rest: str = "") -> None:
    """A text for a person, in lines of the terminal's width; one line for a file or a pipe.

    first, rest: what stands before the first line, and before the others.
    """
    if not painted().isatty():
        print(f"{first}{text}")
        return
    width = max(columns_of_terminal(), len(first) + 20)
    print(fill(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False))


def print_link(run: AnyRun) -> None:
    """Where to read on: the chapter of a run on its page, as terminals open it, or else its document."""
    from levelhead.pages.links import run_link

    print(f"Read on: {run_link(run)}")


def one_line(error: Exception | str, most: int = _LINE) -> str:
    """An error as one line of a few hundred characters, without what would steer a terminal.

    What is too long is cut in its middle: the end of a line says what to do.
    """

    def cut(text: str, most: int) -> str:
        start, end = most * 2 // 3, most - most * 2 // 3 - 1
        return text if len(text) <= most else f"{text[:start]}…{text[-end:]}"

    words = "".join(c if c.isprintable() else " " for c in str(error)).split()
    return cut(" ".join(cut(word, _WORD) for word in words), most)


def drop_unsent(refused: type[OSError]) -> None:
    """Send what standard output and errors still hold; drop it on such an error, after which Python would try
    once more at its end, and exit 120."""
    for output in (sys.stdout, sys.stderr):
        try:
            output.flush()
        except refused:
            os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


@contextmanager
def safe_output() -> Iterator[None]:
    """Standard output and errors that take any text: letters that they lack are shown by number, and so
    are control characters on standard output (errors are one line each, without any)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # who called us has closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it stays open to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with redirect_stdout(cast(TextIO, ShownControls(sys.stdout))):
        yield
