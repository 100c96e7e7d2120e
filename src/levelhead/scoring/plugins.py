"""What installed packages bring along: imported once, by the name of an entry-point group."""

from __future__ import annotations

import traceback
from importlib.metadata import entry_points
from pathlib import Path

from levelhead.errors import BadOption, LevelheadError


def load_installed(group: str) -> None:
    """Import what installed packages name under an entry-point group; importing it registers it.

    The group's last word says in an error what it is: levelhead.measures, levelhead.benchmarks.
    """
    for point in entry_points(group=group):
        try:
            point.load()
        except Exception as error:  # an installed package can fail in any way
            raise BadOption(
                f"The {group.rpartition('.')[2]} of {point.value}, which an installed package brings along, "
                f"do not load: {fault(error, None)}. Repair or uninstall the package."
            ) from error


def fault(error: Exception, file: str | None) -> str:
    """An error as one line, with the last line of the user's file that was running."""
    text = " ".join(str(error).split())[:160]
    if isinstance(error, LevelheadError):
        return text
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"
