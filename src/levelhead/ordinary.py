"""The one way to open a file of a folder that came from somebody else: ordinary files only, links never.

A run folder can be a stranger's. A name inside it may then be a link to a file of the user's, a second name
of one, a pipe on which a reader waits for ever, or a device that never ends. So every name inside a run is
opened here, part by part from the run's own folder, and judged by what was opened, not by what stood there
before. The run's folder itself, and those above it, are the user's to choose: they may be links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath

from levelhead.errors import BadRun

_FLAGS = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT")  # as far as a system has them
_SAFELY = sum(getattr(os, name, 0) for name in _FLAGS)
_BY_PARTS = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")  # not on Windows
_FOLDER = getattr(os, "O_DIRECTORY", 0)
A_FOLDER = "a folder"
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: A_FOLDER,
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def opened(folder: Path, name: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of an ordinary file inside a folder. FileNotFoundError where there is none.

    name: of a file, with / between the folders inside `folder` that lead to it.
    """
    *between, last = PurePosixPath(name).parts
    with _inner(folder, between) as (handle, inner):
        path = inner / last
        if handle is None:
            _refuse_trap(path)
        try:
            file = os.open(path if handle is None else last, flags | _SAFELY, 0o666, dir_fd=handle)
        except FileNotFoundError:
            raise
        except OSError:
            _refuse_trap(path)
            raise
    if (fault := _fault(os.fstat(file))) is not None:
        os.close(file)
        raise _refusal(path, fault)
    return file


def reading(folder: Path, name: str) -> BufferedReader:
    """An ordinary file inside a folder, open for reading. FileNotFoundError where there is none."""
    return open(opened(folder, name), "rb")  # the caller closes it


def read_bytes(folder: Path, name: str) -> bytes | None:
    """What an ordinary file inside a folder holds; None where there is none."""
    try:
        with reading(folder, name) as file:
            return file.read()
    except FileNotFoundError:
        return None


def place(folder: Path, name: str) -> Path:
    """Where a file inside a folder is to be written: the folders on the way are made, and nothing is a trap.

    What is written there must appear under a name of its own first, as `files.write_whole` does it.
    """
    inner, parts = folder, PurePosixPath(name).parts
    for part in parts[:-1]:
        inner = subfolder(inner, part)
        inner.mkdir(parents=True, exist_ok=True)
    path = inner / parts[-1]
    _refuse_trap(path)
    return path


def subfolder(folder: Path, name: str) -> Path:
    """A folder inside a folder, there or not; one line where something else has its name."""
    path = folder / name
    if os.path.lexists(path) and (there := kind(path)) != A_FOLDER:
        raise _refusal(path, there or "a file", A_FOLDER)
    return path


def check_tree(folder: Path) -> None:
    """Refuse a folder with anything but ordinary files and folders in it, at any depth.

    For what other libraries open by name. A folder that is not there passes.
    """
    left = [subfolder(folder.parent, folder.name)] if os.path.lexists(folder) else []
    while left:
        for path in left.pop().iterdir():
            if kind(path) == A_FOLDER:
                left.append(path)
            else:
                _refuse_trap(path)


@contextmanager
def _inner(folder: Path, between: list[str]) -> Iterator[tuple[int | None, Path]]:
    """The innermost folder as a descriptor and as a path; without a descriptor where a system opens none."""
    if not _BY_PARTS:
        for part in between:
            folder = subfolder(folder, part)
        yield None, folder
        return
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | _FOLDER)
    try:
        for part in between:
            folder = folder / part
            try:
                inner = os.open(part, os.O_RDONLY | _SAFELY | _FOLDER, dir_fd=handle)
            except OSError:
                subfolder(folder.parent, part)
                raise
            os.close(handle)
            handle = inner
        yield handle, folder
    finally:
        os.close(handle)


def kind(path: Path) -> str | None:
    """What stands at `path`, links not followed; None for an ordinary file or nothing."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(state.st_mode) else _kind_of(state)


def _refuse_trap(path: Path) -> None:
    """One line where something other than an ordinary file with one name stands; nothing there passes."""
    with suppress(FileNotFoundError):
        if (fault := _fault(path.lstat())) is not None:
            raise _refusal(path, fault)


def _fault(state: os.stat_result) -> str | None:
    """What keeps a file from being opened; None for an ordinary file that has one name."""
    if not stat.S_ISREG(state.st_mode):
        return _kind_of(state)
    return "a hard link" if state.st_nlink > 1 else None


def _kind_of(state: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(state.st_mode), "no ordinary file")


def _refusal(path: Path, fault: str, wanted: str = "an ordinary file with one name") -> BadRun:
    return BadRun(
        f"{path} is {fault}, not {wanted}: nothing else is opened inside a run. Remove it, put a plain copy "
        "in its place, or give another folder."
    )
