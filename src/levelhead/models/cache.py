"""Models that were converted once, each in a folder named by the hash of all that it follows from.

An entry appears whole or not at all and holds the sha256 of each of its files, which is checked at every use:
what is damaged is made anew. An entry in use is locked, as is the name of one that is made. The folder of all
entries is the user's alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from levelhead.errors import BadOption, BadRun
from levelhead.safe_files import TEMPORARY, new_folder

if sys.platform != "win32":  # there, nothing is locked
    import fcntl

PLACE, MOST = "LEVELHEAD_CACHE", "LEVELHEAD_CACHE_GIB"
_GIB = 20.0
_ABOUT = "entry.json"
_LOCK = ".lock"
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
        raise BadOption(f"{MOST} must be a number of GiB, such as 20 (got {given[:80]!r}).")
    return int(gib * 2**30)


def file_hash(path: Path) -> str:
    """sha256 of a file; what is no ordinary file, or has a second name, is an OSError."""
    handle = os.open(path, _OPENED)
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            raise OSError(0, "no ordinary file with one name", str(path))
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    # one process makes the entry, others wait for it
    making = Held(root, False, _locked(root / f"{key}{_LOCK}", shared=False, waits=True))
    try:
        if (held := _use(root / key, is_new=False)) is not None:  # another process made it meanwhile
            return held
        _remove(root / key)
        # what was used least recently goes, until so many bytes fit under the limit and on the disk
        unused = entries()
        taken = sum(entry.size for entry in unused)
        for entry in unused:
            if taken + size <= most_bytes() and shutil.disk_usage(root).free >= size:
                break
            if _remove_unused(entry.folder):
                taken -= entry.size
        if taken + size > most_bytes() or shutil.disk_usage(root).free < size:
            raise BadRun(f"{size / 2**30:.1f} GiB do not fit into {root}, where the rest is in use")
        with new_folder(root / key) as work:
            work.chmod(0o700)
            write(work)
            files = {path.name: file_hash(path) for path in sorted(work.iterdir())}
            sealed = json.dumps({"about": dict(about), "files": files}, indent=1)
            (work / _ABOUT).write_text(sealed, encoding="utf-8")
            for path in (*work.iterdir(), work):  # all bytes reach the disk before the entry has its name
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        held = _use(root / key, is_new=True)
    finally:
        making.release()
    if held is None:
        raise BadRun(f"{root / key} was damaged as soon as it was written. Check the disk.")
    return held


def entries() -> list[Entry]:
    """All entries, the least recently used first."""
    root = cache_folder()
    if root.is_symlink() or not root.is_dir():
        return []
    found = []
    for folder in root.iterdir():
        if folder.name.startswith(TEMPORARY) or folder.is_symlink() or not folder.is_dir():
            continue
        about = _stored(folder).get("about")
        said = about if isinstance(about, dict) else {}
        size = sum(path.lstat().st_size for path in folder.iterdir())
        source, dtype = (str(said.get(name, "?"))[:200] for name in ("source", "dtype"))
        found.append(Entry(folder, source, dtype, size, folder.stat().st_mtime))
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
    files = _stored(folder).get("files")
    try:  # it has its files and no others, each with the bytes that were written
        whole = isinstance(files, dict) and {*files, _ABOUT} == set(os.listdir(folder))
        if whole and isinstance(files, dict):
            with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads:
                found = list(threads.map(lambda name: file_hash(folder / name), files))
            whole = found == list(files.values())
    except OSError:
        whole = False
    if not whole:
        held.release()
        return None
    with suppress(OSError):  # it is used nevertheless
        os.utime(folder)
    return held


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


# ---- room and locks


def _remove_unused(folder: Path) -> bool:
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


def _locked(path: Path, shared: bool, waits: bool = False) -> int | None:
    """A handle that has an entry locked; OSError where others have.

    waits: the path is a file instead, which is made where there is none, and others are waited for.
    """
    if sys.platform == "win32":
        return None
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW if waits else _OPENED | os.O_DIRECTORY
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB))
    except BaseException:
        os.close(handle)
        raise
    return handle
