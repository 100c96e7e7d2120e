"""The entry point: every command, and how errors leave the application."""

from __future__ import annotations

import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import entry_points
from typing import Any, NoReturn

import typer

from levelhead import __version__
from levelhead.cli import STOPPED
from levelhead.cli.commands import DEBUG, STUDIES, app, listed, study_of
from levelhead.cli.endings import OUTPUT
from levelhead.cli.terminal import drop_unsent, one_line, safe_output
from levelhead.errors import Announcement, BadOption, BadPlugin, LevelheadError, NoReader, Stopped
from levelhead.options import options

_UNFORESEEN = 200  # characters of an error that nobody foresaw, so that the place of its log fits behind them
_MISUSE: Any = typer.BadParameter.__mro__[1]  # UsageError, which lies elsewhere in each version of typer


def main() -> None:
    """Entry point: a user's mistake is one line on stderr; one of ours too, with where its log lies."""
    debug = DEBUG in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != DEBUG]
    try:
        with safe_output(), warnings.catch_warnings():
            warnings.showwarning = partial(_warn, warnings.showwarning)
            if entry_points(group=STUDIES):
                from levelhead.runs.study import unusable_studies

                for line in unusable_studies().values():  # every other command works
                    warnings.warn(line, Announcement, stacklevel=2)
            sys.argv = _renamed(sys.argv)
            code = app(prog_name=app.info.name, standalone_mode=False)
            if code == Stopped.exit_code:  # typer turns Ctrl-C into it
                raise KeyboardInterrupt
            sys.stdout.flush()  # a full disk must not be noticed after the end
            _leave("", code)
    except BadPlugin as error:
        if debug:
            raise
        _leave(f"{error} {DEBUG} shows where.", error.exit_code)
    except LevelheadError as error:
        _leave(str(error), error.exit_code)
    except _MISUSE as error:
        command = "levelhead" if error.ctx is None else error.ctx.command_path
        said = error.format_message().rstrip(".")
        _leave(f"{said}. `{command} --help` says what is allowed.", BadOption.exit_code)
    except BrokenPipeError:
        _leave("", NoReader.exit_code)
    except KeyboardInterrupt:
        _leave(STOPPED, Stopped.exit_code)
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError) and error.strerror:
            place = "" if error.filename is None else f"{str(error.filename)!r}: "
            line = f"the system refuses: {place}{error.strerror}. Give another place, or make room."
        elif isinstance(error, RuntimeError) and "home directory" in str(error):
            line = "a path begins with ~ and the name of a user that this machine does not have. "
            line += "Write it out."
        elif isinstance(error, UnicodeEncodeError):
            # Python has bytes of a path that are no text as surrogates
            letters = error.object[error.start : error.end]
            line = f"{letters!r} stands in a name, and is no text that can be written. Rename it."
        else:  # nobody foresaw it: all that is known about it lies in a file
            options: Any = {"encoding": "utf-8", "errors": "backslashreplace"}  # arguments may be no text
            with tempfile.NamedTemporaryFile(
                "w", prefix="levelhead-", suffix=".log", delete=False, **options
            ) as log:
                log.write(f"levelhead {__version__}, Python {sys.version}\n{' '.join(sys.argv)}\n\n")
                traceback.print_exception(error, file=log)
            line = (
                f"an unexpected {type(error).__name__} ({one_line(error, _UNFORESEEN)}). What was computed "
                f"is kept. Please report it with {log.name}; {DEBUG} shows it here."
            )
        _leave(line, LevelheadError.exit_code)


def _renamed(words: list[str]) -> list[str]:
    """The command line with the names of today; those of version 0.2 are named in a warning."""
    place = next((i for i, word in enumerate(words) if i and not word.startswith("-")), None)
    if place is None:
        return words
    commands = {each.old_name: name for name, each in listed().items() if each.old_name}
    command = commands.get(words[place], words[place])
    known: dict[str, list[str]] = {}  # two words where a switch has become a value
    study = study_of(command) if command in listed() and any(word.startswith("-") for word in words) else None
    for each in options(study.settings_type).values() if study else ():
        switched = [] if each.option.on is True else [str(each.option.on)]
        known |= {flag: [each.flag, *switched] for flag in each.option.old}
    renamed, told = list(words[:place]), {words[place]: command}
    for before, word in zip(["", *words[place:]], words[place:], strict=False):
        name, equals, value = word.partition("=")
        if before in OUTPUT or name not in known:  # the name of a folder may be any word
            renamed.append(word)
            continue
        told[name] = " ".join(known[name])
        renamed += [f"{known[name][0]}={value}"] if equals else known[name]
    renamed[place] = command
    if named := [f"{old} is now called {new}" for old, new in told.items() if old != new]:
        text = f"{', '.join(named)}; version 0.4 will not know the old name{'s' * (len(named) > 1)}."
        warnings.warn(text, Announcement, stacklevel=2)
    return renamed


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
