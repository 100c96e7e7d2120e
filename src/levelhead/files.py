"""Files and folders that appear whole or not at all, also where somebody else may have laid traps.

What is being written has an unpredictable name that begins with TEMPORARY, lies beside its target and is
created by nobody but us (O_EXCL), so a link that waits under a name that can be guessed is never followed. A
writer that is killed leaves its temporary file; the next writing of the same target removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from levelhead.errors import BadRun
from levelhead.ordinary import A_FOLDER, kind, place, reading

if sys.platform != "win32":  # there, a killed writer's temporary file stays
    import fcntl

TEMPORARY = ".tmp-"
_MARKED = 4096  # bytes from the beginning in which a file of ours can be told
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag


def write_whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file beside `path`, which takes that name once its bytes are on the disk.

    The temporary name ends like the target's, so that a writer sees the suffix that it expects.
    """
    path = path.expanduser()
    with writing(path):
        _check_file(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(path) as work:
            write(work)
            _sync(work)
            os.replace(work, path)
    return path


def write_text(path: Path, text: str) -> Path:
    """Write a text; the file appears whole or not at all."""
    return write_whole(path, lambda work: work.write_text(text, encoding="utf-8"))


def write_inside(folder: Path, name: str, write: Callable[[Path], object]) -> Path:
    """A file of a run folder as `write_whole` writes it; no link inside the run is followed on the way."""
    with writing(folder / name):
        return write_whole(place(folder, name), write)


def write_text_inside(folder: Path, name: str, text: str) -> Path:
    """A text file of a run folder; it appears whole or not at all."""
    return write_inside(folder, name, lambda work: work.write_text(text, encoding="utf-8"))


def write_output(path: Path, text: str, mark: str, force: bool = False) -> Path:
    """Write a text where a user wants it, and replace only what levelhead wrote there before.

    mark: what every file of this kind says near its beginning. force: replace any ordinary file.
    """
    refuse_foreign(path, (mark,), force)
    return write_text(path, text)


def refuse_foreign(path: Path, marks: Sequence[str], force: bool) -> None:
    """Refuse to replace a file that has none of these marks near its beginning. force: replace any."""
    path = path.expanduser()
    if force or not path.is_file():
        return
    beginning = _beginning(path)
    if not any(mark in beginning for mark in marks):
        raise BadRun(
            f"{path} is there and was not written by this command. Give another place, or --force to replace "
            "it."
        )


def _beginning(path: Path) -> str:
    with reading(path.parent, path.name) as file:
        return file.read(_MARKED).decode("utf-8", errors="replace")


@contextmanager
def new_folder(target: str | Path) -> Iterator[Path]:
    """A temporary folder beside `target` that takes its name when the block ends well, and else vanishes.

    A target that already holds something is refused: nothing of the user's is ever overwritten.
    """
    target = Path(target).expanduser().absolute()
    with writing(target):
        _check_folder(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        work = _beside(target)
        work.mkdir()
        try:
            with _held(work):
                yield work
            os.replace(work, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def scratch_folder(name: str, longest: int) -> Iterator[Path]:
    """A folder among the system's temporary ones that is ours as long as we live, and closed to others.

    Those that killed processes left under the same name go with it. longest: bytes that its path may
    have, where sockets are to lie in it.
    """
    prefix = f"{name}-"
    place = _short_place(longest - len(prefix) - len("/12345678"))
    with writing(place):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))  # which nobody else can enter
    try:
        with _held(folder):
            yield folder
    finally:
        for ended in (folder, *folder.parent.glob(f"{name}-*")):
            with suppress(OSError), _opened_folder(ended) as handle:  # somebody else's stays
                if _lock(handle):
                    shutil.rmtree(ended, ignore_errors=True)


def _short_place(longest: int) -> Path:
    """The first place for temporary folders that we can write in and whose path is this short."""
    given = (tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR", ""), os.path.expanduser("~"))
    for path in (path for path in given if path and len(os.fsencode(path)) <= longest):
        if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
            return Path(path)
    raise BadRun(
        "No place for sockets: none of TMPDIR, /tmp, XDG_RUNTIME_DIR and the home folder can be written and "
        f"has at most {longest} bytes. Set TMPDIR to such a folder."
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk, or a place that is closed to us, into one line that names `path`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        raise BadRun(
            f"Cannot write {path}: {reason}. Make room, or give another place, and run the same command "
            "again."
        ) from error


def _check_file(path: Path) -> None:
    """Refuse a target that is there and is not an ordinary file."""
    if (there := kind(path)) is not None:
        raise BadRun(f"Cannot write {path}: it is {there}. Remove it, or give another place.")


def _check_folder(target: Path) -> None:
    """Refuse a target that is there and is not an empty folder."""
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        raise BadRun(f"{target} is {kind(target) or 'a file'}. Give a new or empty folder.")
    if any(target.iterdir()):
        raise BadRun(f"{target} is not empty. Give a new or empty folder.")


def _beside(target: Path) -> Path:
    return target.parent / f"{TEMPORARY}{token_hex(8)}-{target.name}"


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A new empty file beside `path` that is ours alone; afterwards it is gone, whatever happened.

    It is locked as long as we live, which tells it from the file of a writer that was killed.
    """
    work = _beside(path)
    _remove_leftovers(path)
    handle = os.open(work, os.O_CREAT | os.O_EXCL | os.O_RDWR | _NO_LINK, 0o666)
    try:
        _lock(handle)
        yield work
    finally:
        os.close(handle)
        with suppress(OSError):  # where nothing can be written, nothing can be removed either
            work.unlink()


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder, locked as long as we live, like a temporary file; Windows opens no folders."""
    if sys.platform == "win32":
        yield
        return
    with _opened_folder(folder) as handle:
        _lock(handle)
        yield


@contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | _NO_LINK)
    try:
        yield handle
    finally:
        os.close(handle)


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files and folders of this target whose writers are dead."""
    ours = re.compile(rf"{re.escape(TEMPORARY)}([0-9a-f]{{16}}-)?{re.escape(path.name)}")
    for leftover in path.parent.iterdir():
        if not ours.fullmatch(leftover.name) or kind(leftover) not in (None, A_FOLDER):
            continue
        with suppress(OSError):  # somebody else's file stays
            handle = os.open(leftover, os.O_RDONLY | _NO_LINK)
            try:
                if _lock(handle):
                    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
            finally:
                os.close(handle)


def _lock(handle: int) -> bool:
    """Whether the file could be locked: not while another living process has it locked."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync(work: Path) -> None:
    handle = os.open(work, os.O_RDONLY | _NO_LINK)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
