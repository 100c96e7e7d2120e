"""The entry point: every command, and how errors leave the application."""

from __future__ import annotations

import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

import typer

from levelhead import __version__
from levelhead.cli import (
    STOPPED,
    atlas,
    audit,
    cache,
    compare_heads,
    counteracts,
    debias,
    explore,
    glue,
    heads,
    measure,
    mitigate,
    models,
    planted,
    projections,
    report,
    reproduce,
    single,
    survey,
)
from levelhead.cli.app import DEBUG, app, one_line
from levelhead.cli.terminal import drop_unsent, safe_output
from levelhead.errors import Announcement, BadOption, BadPlugin, LevelheadError, NoReader, Stopped

COMMANDS: tuple[ModuleType, ...] = (
    models,
    cache,
    measure,
    heads,
    single,
    atlas,
    planted,
    compare_heads,
    projections,
    counteracts,
    debias,
    mitigate,
    explore,
    glue,
    audit,
    survey,
    reproduce,
    report,
)  # in the order of the help page
_UNFORESEEN = 200  # characters of an error that nobody foresaw, so that the place of its log fits behind them
_MISUSE: Any = typer.BadParameter.__mro__[
    1
]  # typer's UsageError, which lies elsewhere in each of its versions


def main() -> None:
    """Entry point: a user's mistake is one line on stderr; one of ours too, with where its log lies."""
    debug = DEBUG in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != DEBUG]
    try:
        with safe_output(), warnings.catch_warnings():
            warnings.showwarning = partial(_warn, warnings.showwarning)
            _run()
    except BadPlugin as error:
        if debug:
            raise
        _leave(f"{error} {DEBUG} shows where.", error.exit_code)
    except LevelheadError as error:
        _leave(str(error), error.exit_code)
    except _MISUSE as error:
        _leave(_misuse(error), BadOption.exit_code)
    except BrokenPipeError:
        _leave("", NoReader.exit_code)
    except KeyboardInterrupt:
        _leave(STOPPED, Stopped.exit_code)
    except Exception as error:
        if debug:
            raise
        line = _surroundings(error) or _unexpected(error)
        _leave(line, LevelheadError.exit_code)


def _run() -> None:
    """The command, and what it printed sent on its way: a full disk must not be noticed after the end."""
    code = app(prog_name=app.info.name, standalone_mode=False)
    if code == Stopped.exit_code:  # typer turns Ctrl-C into it
        raise KeyboardInterrupt
    sys.stdout.flush()
    _leave("", code)


def _warn(others: Callable[..., None], message: Warning | str, *about: Any, **more: Any) -> None:
    """A warning of ours as one line on stderr, without the place in the code; that of a library as ever."""
    if isinstance(message, Announcement):
        print(f"levelhead: {one_line(str(message))}", file=sys.stderr)
    else:
        others(message, *about, **more)


def _leave(line: str, code: int) -> NoReturn:
    """Say why on stderr and end. What both outputs still hold is dropped where it cannot be sent."""
    if line:
        with suppress(BrokenPipeError):  # `2>&1 | head`
            print(f"levelhead: {one_line(line)}", file=sys.stderr)
    drop_unsent(OSError)
    sys.exit(code)


def _misuse(error: Any) -> str:
    """One line about options and arguments that the command does not have, or not like this."""
    command = "levelhead" if error.ctx is None else error.ctx.command_path
    return f"{error.format_message().rstrip('.')}. `{command} --help` says what is allowed."


def _surroundings(error: Exception) -> str:
    """One line about a path, a name or a device that the system refuses; empty for other errors."""
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{str(error.filename)!r}: "
        return f"the system refuses: {place}{error.strerror}. Give another place, or make room."
    if isinstance(error, RuntimeError) and "home directory" in str(error):
        return "a path begins with ~ and the name of a user that this machine does not have. Write it out."
    if isinstance(error, UnicodeEncodeError):  # Python has bytes of a path that are no text as surrogates
        letters = error.object[error.start : error.end]
        return f"{letters!r} stands in a name, and is no text that can be written. Rename it."
    return ""


def _unexpected(error: Exception) -> str:
    """One line about an error that nobody foresaw; all that is known about it lies in a file."""
    options: Any = {"encoding": "utf-8", "errors": "backslashreplace"}  # arguments may be no text
    with tempfile.NamedTemporaryFile("w", prefix="levelhead-", suffix=".log", delete=False, **options) as log:
        log.write(f"levelhead {__version__}, Python {sys.version}\n{' '.join(sys.argv)}\n\n")
        traceback.print_exception(error, file=log)
    return (
        f"an unexpected {type(error).__name__} ({one_line(error, _UNFORESEEN)}). What was computed is kept. "
        f"Please report it with {log.name}; {DEBUG} shows it here."
    )
