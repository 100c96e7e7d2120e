"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from levelhead.errors import LevelheadError


@contextmanager
def new_folder(target: str | Path) -> Iterator[Path]:
    """A temporary folder beside `target` that takes its name when the block ends well, and vanishes when it
    does not.

    A target that already holds something is refused: nothing of the user's is ever overwritten.
    """
    target = Path(target).expanduser().absolute()
    if target.exists() and not target.is_dir():
        raise LevelheadError(f"{target} is a file. Give a new or empty folder.")
    if target.is_dir() and any(target.iterdir()):
        raise LevelheadError(f"{target} is not empty. Give a new or empty folder.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise LevelheadError(
            f"Cannot write beside {target}: {error.strerror}. Give another folder."
        ) from error
    try:
        work.chmod(0o777 & ~_umask())  # mkdtemp makes it private; an ordinary folder is what was asked for
        yield work
        os.replace(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
