"""Files that are opened and written safely, also in folders where somebody else may have laid traps.

Writing: a file or folder appears whole or not at all. While it is written it has an unpredictable name that
begins with TEMPORARY, lies beside its target and is created by nobody but us (O_EXCL), so no link that waits
under a name that can be guessed is followed. The next writing of the same target removes the temporary file
of a writer that was killed.

Reading: a run folder can be a stranger's, and a name inside it a link, a second name of a file of the user's,
a pipe or a device. So every name inside a run is opened here, part by part from the run's own folder, and
judged by what was opened. The run's folder itself, and those above it, are the user's to choose.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath
from secrets import token_hex

from levelhead.errors import BadRun

if sys.platform != "win32":  # there, a killed writer's temporary file stays
    import fcntl

TEMPORARY = ".tmp-"
_MARKED = 4096  # bytes from the beginning in which a file of ours can be told
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
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


# ---- reading in a stranger's folder


def opened(folder: Path, name: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of an ordinary file inside a folder. FileNotFoundError where there is none.

    name: of a file, with / between the folders inside `folder` that lead to it.
    """
    *between, last = PurePosixPath(name).parts
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | _FOLDER) if _BY_PARTS else None
    try:
        for part in between:
            if handle is None:
                folder = subfolder(folder, part)
                continue
            folder = folder / part
            try:
                inner = os.open(part, os.O_RDONLY | _SAFELY | _FOLDER, dir_fd=handle)
            except OSError:
                subfolder(folder.parent, part)
                raise
            os.close(handle)
            handle = inner
        path = folder / last
        if handle is None:
            _refuse_trap(path)
        try:
            file = os.open(path if handle is None else last, flags | _SAFELY, 0o666, dir_fd=handle)
        except FileNotFoundError:
            raise
        except OSError:
            _refuse_trap(path)
            raise
    finally:
        if handle is not None:
            os.close(handle)
    if (fault := _fault(os.fstat(file))) is not None:  # what was opened, not what stood there before
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


def kind(path: Path) -> str | None:
    """What stands at `path`, links not followed; None for an ordinary file or nothing."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no ordinary file")


def _fault(state: os.stat_result) -> str | None:
    """What keeps a file from being opened; None for an ordinary file that has one name."""
    if not stat.S_ISREG(state.st_mode):
        return _KINDS.get(stat.S_IFMT(state.st_mode), "no ordinary file")
    return "a hard link" if state.st_nlink > 1 else None


def _refuse_trap(path: Path) -> None:
    """One line where something other than an ordinary file with one name stands; nothing there passes."""
    with suppress(FileNotFoundError):
        if (fault := _fault(path.lstat())) is not None:
            raise _refusal(path, fault)


def _refusal(path: Path, fault: str, wanted: str = "an ordinary file with one name") -> BadRun:
    return BadRun(
        f"{path} is {fault}, not {wanted}: nothing else is opened inside a run. Remove it, put a plain copy "
        "in its place, or give another folder."
    )


# ---- writing files


def write_whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file beside `path`, which takes that name once its bytes are on the disk.

    The temporary name ends like the target's, so that a writer sees the suffix that it expects.
    """
    path = path.expanduser()
    with writing(path):
        if (there := kind(path)) is not None:
            raise BadRun(f"Cannot write {path}: it is {there}. Remove it, or give another place.")
        path.parent.mkdir(parents=True, exist_ok=True)
        work = _beside(path)
        _remove_leftovers(path)
        # The lock, which lasts as long as we live, tells our file from that of a writer that was killed.
        handle = os.open(work, os.O_CREAT | os.O_EXCL | os.O_RDWR | _NO_LINK, 0o666)
        try:
            _lock(handle)
            write(work)
            with _descriptor(work) as filled:
                os.fsync(filled)
            os.replace(work, path)
        finally:
            os.close(handle)
            with suppress(OSError):  # where nothing can be written, nothing can be removed either
                work.unlink()
    return path


def write_text(path: Path, text: str) -> Path:
    """Write a text; the file appears whole or not at all."""
    return write_whole(path, lambda work: work.write_text(text, encoding="utf-8"))


def write_inside(folder: Path, name: str, write: Callable[[Path], object]) -> Path:
    """A file of a run folder as `write_whole` writes it; no link inside the run is followed on the way."""
    with writing(folder / name):
        inner, parts = folder, PurePosixPath(name).parts
        for part in parts[:-1]:
            inner = subfolder(inner, part)
            inner.mkdir(parents=True, exist_ok=True)
        path = inner / parts[-1]
        _refuse_trap(path)
        return write_whole(path, write)


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
    with reading(path.parent, path.name) as file:
        beginning = file.read(_MARKED).decode("utf-8", errors="replace")
    if not any(mark in beginning for mark in marks):
        raise BadRun(
            f"{path} is there and was not written by this command. Give another place, or --force to replace "
            "it."
        )


# ---- writing folders


@contextmanager
def new_folder(target: str | Path) -> Iterator[Path]:
    """A temporary folder beside `target` that takes its name when the block ends well, and else vanishes.

    A target that already holds something is refused: nothing of the user's is ever overwritten.
    """
    target = Path(target).expanduser().absolute()
    with writing(target):
        if os.path.lexists(target):
            if target.is_symlink() or not target.is_dir():
                raise BadRun(f"{target} is {kind(target) or 'a file'}. Give a new or empty folder.")
            if any(target.iterdir()):
                raise BadRun(f"{target} is not empty. Give a new or empty folder.")
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
    shortest = longest - len(prefix) - len("/12345678")  # what mkdtemp appends
    given = (tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR", ""), os.path.expanduser("~"))
    short = [path for path in given if path and len(os.fsencode(path)) <= shortest]
    place = next((path for path in short if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)), None)
    if place is None:
        raise BadRun(
            "No place for sockets: none of TMPDIR, /tmp, XDG_RUNTIME_DIR and the home folder can be written "
            f"and has at most {shortest} bytes. Set TMPDIR to such a folder."
        )
    with writing(Path(place)):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))  # which nobody else can enter
    try:
        with _held(folder):
            yield folder
    finally:
        for ended in (folder, *folder.parent.glob(f"{name}-*")):
            with suppress(OSError), _descriptor(ended) as handle:  # somebody else's stays
                if _lock(handle):
                    shutil.rmtree(ended, ignore_errors=True)


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


# ---- temporary names and locks


def _beside(target: Path) -> Path:
    return target.parent / f"{TEMPORARY}{token_hex(8)}-{target.name}"


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder, locked as long as we live, like a temporary file; Windows opens no folders."""
    if sys.platform == "win32":
        yield
        return
    with _descriptor(folder) as handle:
        _lock(handle)
        yield


@contextmanager
def _descriptor(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | _NO_LINK)
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
        with suppress(OSError), _descriptor(leftover) as handle:  # somebody else's file stays
            if _lock(handle):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _lock(handle: int) -> bool:
    """Whether the file could be locked: not while another living process has it locked."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
