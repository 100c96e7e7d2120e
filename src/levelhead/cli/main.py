"""The entry point: every command, and how errors leave the application."""

from __future__ import annotations

import sys
import tempfile
import traceback
from types import ModuleType

from levelhead import __version__
from levelhead.cli import (
    audit,
    compare_heads,
    counteracts,
    debias,
    glue,
    heads,
    models,
    planted,
    projections,
    report,
    reproduce,
)
from levelhead.cli.app import DEBUG, app, one_line
from levelhead.errors import LevelheadError

COMMANDS: tuple[ModuleType, ...] = (
    models,
    heads,
    planted,
    compare_heads,
    projections,
    counteracts,
    debias,
    glue,
    audit,
    reproduce,
    report,
)  # in the order of the help page
_INTERRUPTED = 130  # Ctrl-C, as shells say it


def main() -> None:
    """Entry point: a user's mistake is one line on stderr; one of ours too, with where its log lies."""
    debug = DEBUG in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != DEBUG]
    try:
        app()
    except LevelheadError as error:
        print(f"levelhead: {one_line(error)}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)  # the reader has gone, e.g. `| head`
    except (KeyboardInterrupt, SystemExit) as end:  # typer turns the first into the second
        if isinstance(end, KeyboardInterrupt) or end.code == _INTERRUPTED:
            print("levelhead: stopped; run the same command again to go on.", file=sys.stderr)
            sys.exit(_INTERRUPTED)
        raise
    except Exception as error:
        if debug:
            raise
        print(f"levelhead: {_unexpected(error)}", file=sys.stderr)
        sys.exit(LevelheadError.exit_code)


def _unexpected(error: Exception) -> str:
    """One line about an error that nobody foresaw; all that is known about it lies in a file."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="levelhead-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        log.write(f"levelhead {__version__}, Python {sys.version}\n{' '.join(sys.argv)}\n\n")
        traceback.print_exception(error, file=log)
    return (
        f"an unexpected {type(error).__name__} ({one_line(error)}). What was computed is kept. "
        f"Please report it with {log.name}; {DEBUG} shows it here."
    )
