"""Models that were converted once, each in a folder named by the hash of all that it follows from.

An entry appears whole or not at all and holds the sha256 of each of its files, which is checked at every use:
what is damaged is made anew. Whoever uses an entry has its folder locked, so that it stays meanwhile;
whoever makes one has the lock of its name. The folder of all entries is the user's alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelhead.errors import BadOption, BadRun
from levelhead.files import TEMPORARY, new_folder

if sys.platform != "win32":  # there, nothing is locked
    import fcntl

PLACE, MOST = "LEVELHEAD_CACHE", "LEVELHEAD_CACHE_GIB"
_GIB = 20.0
_ABOUT = "entry.json"
_LOCK = ".lock"
_CHUNK = 1 << 20
_LARGEST_ABOUT = 1 << 20  # bytes
_OPENED = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class Entry:
    """A converted model on the disk."""

    folder: Path
    source: str  # the file that it was converted from
    dtype: str
    size: int  # bytes
    used: float  # seconds since 1970


@dataclass(frozen=True)
class Held:
    """An entry that stays where it is until it is released."""

    folder: Path
    is_new: bool
    _handle: int | None = None

    def release(self) -> None:
        """Let the entry be removed when room is needed."""
        if self._handle is not None:
            with suppress(OSError):  # a process that forked may have closed it
                os.close(self._handle)


def cache_folder() -> Path:
    """Where entries lie: $LEVELHEAD_CACHE, else $XDG_CACHE_HOME/levelhead, else ~/.cache/levelhead."""
    given, shared = os.environ.get(PLACE), os.environ.get("XDG_CACHE_HOME")
    own = Path(given).expanduser() if given else Path(shared or Path.home() / ".cache") / "levelhead"
    return own.absolute() / "gguf"


def most_bytes() -> int:
    """How large all entries together may get: $LEVELHEAD_CACHE_GIB, else 20 GiB."""
    given = os.environ.get(MOST) or str(_GIB)
    try:
        gib = float(given)
    except ValueError:
        gib = -1.0
    if not 0 <= gib < 2**30:
        raise BadOption(f"{MOST}={given[:80]!r} came; give a number of GiB, e.g. 20.")
    return int(gib * 2**30)


def file_hash(path: Path) -> str:
    """sha256 of a file; what is no ordinary file, or has a second name, is an OSError."""
    handle = os.open(path, _OPENED)
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            raise OSError(0, "no ordinary file with one name", str(path))
        return content_hash(file)


def content_hash(file: Any) -> str:
    """sha256 of what is left of an open file."""
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def obtain(key: str, about: Mapping[str, str], size: int, write: Callable[[Path], object]) -> Held:
    """The entry of this key; where there is none that is whole, `write` fills a new folder.

    about: what to store beside its files. size: bytes that it will have, for which room is made.
    BadRun where the cache cannot be used: the place is somebody else's, a link, or full.
    """
    root = own_folder(cache_folder())
    if (held := _use(root / key, is_new=False)) is not None:
        return held
    if size > most_bytes():
        raise BadRun(f"{size / 2**30:.1f} GiB are more than {MOST}={most_bytes() / 2**30:g} allows")
    with _waiting(root / f"{key}{_LOCK}"):
        if (held := _use(root / key, is_new=False)) is not None:  # another process made it meanwhile
            return held
        _remove(root / key)
        _make_room(root, size)
        with new_folder(root / key) as work:
            work.chmod(0o700)
            write(work)
            _seal(work, about)
        held = _use(root / key, is_new=True)
    if held is None:
        raise BadRun(f"{root / key} was damaged as soon as it was written. Check the disk.")
    return held


def entries() -> list[Entry]:
    """All entries, the least recently used first."""
    root = cache_folder()
    if root.is_symlink() or not root.is_dir():
        return []
    found = [_entry(folder) for folder in root.iterdir() if _is_entry(folder)]
    return sorted(found, key=lambda entry: (entry.used, entry.folder.name))


def clear() -> list[Entry]:
    """Remove all entries that nobody uses just now; those that were removed."""
    gone = [entry for entry in entries() if _remove_unused(entry.folder)]
    for lock in cache_folder().glob(f"*{_LOCK}"):
        if not lock.with_suffix("").exists():
            lock.unlink(missing_ok=True)
    return gone


# ---- entries


def own_folder(root: Path) -> Path:
    """The folder of all entries, for nobody but the user."""
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
        about = root.lstat()
    except OSError as error:
        raise BadRun(f"{root} cannot be made ({error.strerror})") from error
    if not stat.S_ISDIR(about.st_mode):
        raise BadRun(f"{root} is no folder, or a link to one")
    if hasattr(os, "geteuid") and (about.st_uid != os.geteuid() or about.st_mode & 0o077):
        raise BadRun(f"{root} is open to others. It must be yours alone (chmod 700)")
    return root


def _use(folder: Path, is_new: bool) -> Held | None:
    """The entry, locked against removal and marked as used; None where it is not there or not whole."""
    try:
        handle = _locked(folder, shared=True)
    except OSError:
        return None
    held = Held(folder, is_new, handle)
    if not _is_whole(folder):
        held.release()
        return None
    with suppress(OSError):  # it is used nevertheless
        os.utime(folder)
    return held


def _seal(work: Path, about: Mapping[str, str]) -> None:
    """Bring all bytes to the disk, and note the checksums."""
    files = {path.name: file_hash(path) for path in sorted(work.iterdir())}
    (work / _ABOUT).write_text(json.dumps({"about": dict(about), "files": files}, indent=1), encoding="utf-8")
    for path in (*work.iterdir(), work):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_whole(folder: Path) -> bool:
    """Whether an entry has its files and no others, each with the bytes that were written."""
    stored = _stored(folder)
    files = stored.get("files")
    if not isinstance(files, dict) or {*files, _ABOUT} != set(os.listdir(folder)):
        return False
    try:
        with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads:
            found = list(threads.map(lambda name: file_hash(folder / name), files))
    except OSError:
        return False
    return found == list(files.values())


def _stored(folder: Path) -> dict[str, object]:
    """What an entry says about itself; empty where that cannot be read."""
    path = folder / _ABOUT
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size > _LARGEST_ABOUT:
            return {}
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _is_entry(folder: Path) -> bool:
    return not folder.name.startswith(TEMPORARY) and not folder.is_symlink() and folder.is_dir()


def _entry(folder: Path) -> Entry:
    about = _stored(folder).get("about")
    said = about if isinstance(about, dict) else {}
    size = sum(path.lstat().st_size for path in folder.iterdir())
    source, dtype = (str(said.get(name, "?"))[:200] for name in ("source", "dtype"))
    return Entry(folder, source, dtype, size, folder.stat().st_mtime)


# ---- room and locks


def _make_room(root: Path, size: int) -> None:
    """Remove what was used least recently until so many bytes fit under the limit and on the disk."""
    found = entries()
    taken = sum(entry.size for entry in found)
    for entry in found:
        if taken + size <= most_bytes() and shutil.disk_usage(root).free >= size:
            return
        if _remove_unused(entry.folder):
            taken -= entry.size
    if taken + size > most_bytes() or shutil.disk_usage(root).free < size:
        raise BadRun(f"{size / 2**30:.1f} GiB do not fit into {root}, where the rest is in use")


def _remove_unused(folder: Path) -> bool:
    """Remove an entry, unless somebody uses it."""
    try:
        handle = _locked(folder, shared=False)
    except OSError:
        return False
    try:
        _remove(folder)
    finally:
        Held(folder, False, handle).release()
    return not folder.exists()


def _remove(folder: Path) -> None:
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path, shared: bool) -> int | None:
    """A handle of a folder that has it locked; OSError where others have."""
    if sys.platform == "win32":
        return None
    handle = os.open(folder, _OPENED | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


@contextmanager
def _waiting(path: Path) -> Iterator[None]:
    """The lock of a name: one process makes the entry, others wait for it."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
