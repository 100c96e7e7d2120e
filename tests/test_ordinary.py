"""Inside a run folder only ordinary files are opened, whatever somebody laid there, to read and to write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from levelhead import safe_files
from levelhead.errors import BadRun
from levelhead.safe_files import check_tree, opened, read_bytes, subfolder, write_text_inside
from tests.traps import TRAPS, lay, refusal, state, users_folder

KINDS = {
    "link to a file": "a symbolic link",
    "link to nothing": "a symbolic link",
    "link to a device": "a symbolic link",
    "link to a folder": "a symbolic link",
    "hard link": "a hard link",
    "named pipe": "a named pipe",
    "socket": "a socket",
    "folder": "a folder",
}


def _append(folder: Path, name: str) -> None:
    handle = opened(folder, name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, b"more")
    os.close(handle)


def _truncate(folder: Path, name: str) -> None:
    handle = opened(folder, name, os.O_WRONLY)
    os.truncate(handle, 0)
    os.close(handle)


USES: dict[str, Callable[[Path, str], object]] = {
    "read": read_bytes,
    "append": _append,
    "truncate": _truncate,
    "replace": lambda folder, name: write_text_inside(folder, name, "new"),
    "another library reads": lambda folder, _: check_tree(folder),
}


@pytest.fixture(params=[True, False], ids=["part by part", "by path"])
def by_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a system opens names inside an open folder, and as where it does not."""
    monkeypatch.setattr(safe_files, "_BY_PARTS", request.param)


def test_a_kind_is_known_of_every_trap() -> None:
    assert KINDS.keys() == TRAPS.keys()


@pytest.mark.usefixtures("by_parts")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", ["results.jsonl", "tables/table.csv"])
def test_a_trap_is_refused_in_one_line_with_its_kind_and_nothing_is_touched(
    name: str, trap: str, use: str, tmp_path: Path
) -> None:
    home, run = users_folder(tmp_path / "home"), tmp_path / "run"
    (run / name).parent.mkdir(parents=True)
    lay(trap, run / name, home)
    before, there = state(home), (run / name).lstat()
    line = refusal(lambda: USES[use](run, name))
    if (trap, use) == ("folder", "another library reads"):
        assert line == ""  # which finds a folder there, and says so itself
    else:
        assert line.startswith(f"{run / name} is {KINDS[trap]}, not an ordinary file")
    assert state(home) == before
    assert (run / name).lstat() == there


@pytest.mark.usefixtures("by_parts")
@pytest.mark.parametrize("use", [name for name in USES if name != "truncate"])
@pytest.mark.parametrize("trap", [name for name in TRAPS if name != "folder"])
def test_a_trap_in_the_place_of_a_folder_is_refused(trap: str, use: str, tmp_path: Path) -> None:
    home, run = users_folder(tmp_path / "home"), tmp_path / "run"
    run.mkdir()
    (home / "table.csv").write_text("mine too")
    lay(trap, run / "tables", home)
    before = state(home)
    assert refusal(lambda: USES[use](run, "tables/table.csv")).startswith(f"{run / 'tables'} is ")
    assert state(home) == before


@pytest.mark.usefixtures("by_parts")
def test_ordinary_files_are_read_appended_and_replaced_also_below_a_link_of_the_users_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "disk")
    for run in (tmp_path / "here" / "run", tmp_path / "here"):
        write_text_inside(run, "tables/a.csv", "old")
        write_text_inside(run, "tables/a.csv", "new")
        _append(run, "tables/a.csv")
        assert read_bytes(run, "tables/a.csv") == b"newmore"
        assert read_bytes(run, "tables/b.csv") is read_bytes(run, "none/b.csv") is None
        assert subfolder(run, "tables") == run / "tables"
    check_tree(tmp_path / "disk")


def test_a_file_without_rights_is_an_error_of_the_system_and_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    with pytest.raises(NotADirectoryError):
        read_bytes(tmp_path / "a", "b")
    with pytest.raises(BadRun, match="a is a file, not a folder"):
        subfolder(tmp_path, "a")


def test_a_link_that_comes_after_the_look_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = users_folder(tmp_path / "home")
    lay("link to a file", tmp_path / "results.jsonl", home)
    monkeypatch.setattr(Path, "lstat", lambda _: (home / "mine.txt").stat())  # whoever looks sees a file
    monkeypatch.setattr(safe_files, "_BY_PARTS", True)
    with pytest.raises(OSError, match="symbolic links"):
        read_bytes(tmp_path, "results.jsonl")
