"""Where the command `levelhead` begins: before its modules are read, so that Ctrl-C then is one line too."""

from __future__ import annotations

import sys

from levelhead.cli import STOPPED


def main() -> None:
    """Read the modules of the command line, and run it."""
    try:
        from levelhead.cli.main import main as command
    except KeyboardInterrupt:
        print(f"levelhead: {STOPPED}", file=sys.stderr)
        sys.exit(130)
    command()
