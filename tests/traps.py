"""What somebody can lay at a name of a run folder: each kind, by what it is called."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

from levelhead.errors import LevelheadError

MINE = "mine.txt"  # a file of the user's
ABSENT = "absent.txt"  # a name in the user's folder that nothing has
Lay = Callable[[Path, Path], object]  # at a path, against a folder of the user's


def _socket(path: Path, _: Path) -> None:
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as made:  # a whole path can be too long for one
        made.bind(path.name)


TRAPS: dict[str, Lay] = {
    "link to a file": lambda path, home: path.symlink_to(home / MINE),
    "link to nothing": lambda path, home: path.symlink_to(home / ABSENT),
    "link to a device": lambda path, _: path.symlink_to("/dev/zero"),
    "link to a folder": lambda path, home: path.symlink_to(home),
    "hard link": lambda path, home: os.link(home / MINE, path),
    "named pipe": lambda path, _: os.mkfifo(path),
    "socket": _socket,
    "folder": lambda path, _: path.mkdir(),
}


def users_folder(folder: Path) -> Path:
    """A folder with a file that no command may touch; it looks like a file of a run as far as it can."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MINE).write_text("a text of the user's, without an end of line", encoding="utf-8")
    return folder


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """What lies in the user's folder, to the byte, and when each file was changed."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def lay(kind: str, path: Path, home: Path) -> None:
    """Take away what stands at a path, and lay a trap there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    TRAPS[kind](path, home)


def refusal(use: Callable[[], object]) -> str:
    """The one line with which something is refused; empty where it is not."""
    line = ""
    try:
        use()
    except LevelheadError as error:
        line = str(error)
    assert "\n" not in line
    return line
