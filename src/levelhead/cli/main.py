"""The entry point: every command, and how errors leave the application."""

from __future__ import annotations

import sys
from types import ModuleType

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
from levelhead.cli.app import app, one_line
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


def main() -> None:
    """Entry point: a user's mistake is one line on stderr and exit 1; never a traceback."""
    try:
        app()
    except LevelheadError as error:
        print(f"levelhead: {one_line(error)}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)  # the reader has gone, e.g. `| head`
    except KeyboardInterrupt:
        print("levelhead: stopped; run the same command again to go on.", file=sys.stderr)
        sys.exit(130)
