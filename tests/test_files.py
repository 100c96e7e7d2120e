"""Files and folders appear whole or not at all, and no trap in a folder leads a writer elsewhere."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from levelhead import safe_files
from levelhead.errors import BadRun
from levelhead.safe_files import new_folder, scratch_folder, write_output, write_whole

HOLD = """
import sys, time
from pathlib import Path
from levelhead.safe_files import write_whole

def write(work):
    work.write_text("slow")
    print(work.name, flush=True)
    sys.stdin.readline()

write_whole(Path(sys.argv[1]), write)
"""


def whole(work: Path) -> None:
    work.write_text("whole")


def refusal(path: Path, write: Callable[[Path], object] = whole) -> str:
    with pytest.raises(BadRun) as caught:
        write_whole(path, write)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- one file


def test_a_writer_sees_a_new_file_beside_the_target_with_the_targets_ending(tmp_path: Path) -> None:
    seen: list[Path] = []

    def write(work: Path) -> None:
        seen.append(work)
        assert work.stat().st_size == 0
        whole(work)

    target = tmp_path / "deep" / "table.csv"
    for _ in range(2):
        assert write_whole(target, write) == target
    assert target.read_text() == "whole"
    assert all(re.fullmatch(r"\.tmp-[0-9a-f]{16}-table\.csv", work.name) for work in seen)
    assert {work.parent for work in seen} == {target.parent}
    assert seen[0].name != seen[1].name  # nobody can guess it
    assert names(target.parent) == ["table.csv"]


def test_a_written_file_has_the_rights_that_any_other_new_file_has(tmp_path: Path) -> None:
    whole(tmp_path / "plain")
    write_whole(tmp_path / "ours", whole)
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_whole(target, whole)

    def half(work: Path) -> None:
        work.write_text("half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_whole(target, half)
    assert target.read_text() == "whole"
    assert names(tmp_path) == ["page.html"]


def test_a_file_gets_its_name_only_after_its_bytes_have_reached_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "page.html"
    at_sync: list[bool] = []
    sync = os.fsync

    def watched(handle: int) -> None:
        at_sync.append(target.exists())
        assert os.fstat(handle).st_size == len("whole")
        sync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    write_whole(target, whole)
    assert at_sync == [False]
    assert target.exists()


@pytest.mark.parametrize(
    ("trap", "what"),
    [
        (lambda path: path.symlink_to(path.parent / "elsewhere.txt"), "a symbolic link"),
        (lambda path: path.symlink_to("/dev/null"), "a symbolic link"),
        (lambda path: os.mkfifo(path), "a named pipe"),
        (lambda path: path.mkdir(), "a folder"),
    ],
    ids=["link to a file", "link to a device", "named pipe", "folder"],
)
def test_a_target_that_is_no_ordinary_file_is_refused_untouched(
    tmp_path: Path, trap: Callable[[Path], None], what: str
) -> None:
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_text("mine")
    target = tmp_path / "page.html"
    trap(target)
    before = target.lstat()
    assert f"page.html: it is {what}." in refusal(target, never)
    assert target.lstat() == before
    assert elsewhere.read_text() == "mine"
    assert names(tmp_path) == ["elsewhere.txt", "page.html"]


def never(work: Path) -> None:
    raise AssertionError("written")


def test_a_device_is_refused() -> None:
    assert "/dev/null: it is a device." in refusal(Path("/dev/null"), never)


def test_a_link_that_waits_under_the_temporary_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_text("mine")
    monkeypatch.setattr(safe_files, "token_hex", lambda size: "0" * 2 * size)  # a name that was guessed
    (tmp_path / f".tmp-{'0' * 16}-page.html").symlink_to(elsewhere)
    (tmp_path / ".tmp-page.html").symlink_to(elsewhere)
    assert "File exists" in refusal(tmp_path / "page.html", never)
    assert elsewhere.read_text() == "mine"


def test_what_a_killed_writer_left_goes_with_the_next_writing_of_the_same_file(tmp_path: Path) -> None:
    for name in (".tmp-page.html", f".tmp-{'a1' * 8}-page.html"):
        (tmp_path / name).write_text("half")
    others = [".tmp-notes.txt", f".tmp-{'a1' * 8}-other.html", ".tmp-old-page.html"]
    for name in others:
        (tmp_path / name).write_text("not ours, or of another target")
    write_whole(tmp_path / "page.html", whole)
    assert names(tmp_path) == sorted([*others, "page.html"])


def test_what_another_living_writer_is_writing_stays(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    command = [sys.executable, "-c", HOLD, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        temporary = other.stdout.readline().strip()
        write_whole(target, whole)
        assert names(tmp_path) == sorted([temporary, "page.html"])
        other.communicate("go on\n")
    assert other.returncode == 0
    assert target.read_text() == "slow"
    assert names(tmp_path) == ["page.html"]


# --- a folder


def test_a_folder_appears_whole_with_the_rights_of_any_other_new_folder(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with new_folder(tmp_path / "deep" / "out") as work:
        assert work.parent == tmp_path / "deep"
        assert re.fullmatch(r"\.tmp-[0-9a-f]{16}-out", work.name)
        whole(work / "a.txt")
        assert not (tmp_path / "deep" / "out").exists()
    assert names(tmp_path / "deep") == ["out"]
    assert (tmp_path / "deep" / "out" / "a.txt").read_text() == "whole"
    mode = stat.S_IMODE((tmp_path / "deep" / "out").stat().st_mode)
    assert mode == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def fill(target: Path, error: Exception | None = None) -> None:
    with new_folder(target) as work:
        whole(work / "a.txt")
        if error is not None:
            raise error


def test_a_scratch_folder_goes_with_its_block_and_takes_those_of_dead_processes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "work-dead").mkdir()
    (tmp_path / "other-dead").mkdir()
    with scratch_folder("work", 200) as living:
        with scratch_folder("work", 200) as folder:
            (folder / "file").write_text("a")
        assert names(tmp_path) == ["other-dead", living.name]
    assert names(tmp_path) == ["other-dead"]


def test_a_scratch_folder_is_private_and_has_a_short_path_wherever_temporary_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "a" / ("b" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with scratch_folder("work", 200) as folder:
        assert folder.parent == deep
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with scratch_folder("work", 40) as folder:
        assert folder.parent != deep
        assert len(str(folder)) <= 40
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with pytest.raises(BadRun, match=r"^No place for sockets: [^\n]*at most 1 bytes[^\n]*$"):
        scratch_folder("work", len("work-12345678/") + 1).__enter__()


def test_a_folder_that_fails_midway_vanishes_and_its_reason_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stopped"):
        fill(tmp_path / "out", RuntimeError("stopped"))
    with pytest.raises(BadRun, match=r"^Cannot write [^\n]*out: No space left on device\. [^\n]*$"):
        fill(tmp_path / "out", OSError(28, "No space left on device"))
    with pytest.raises(BadRun, match=r"^Cannot write [^\n]*out: no such model\. [^\n]*$"):
        fill(tmp_path / "out", OSError("no such model\nsee the manual"))  # as transformers words it
    assert names(tmp_path) == []


@pytest.mark.parametrize("target", ["link to a folder", "link to nothing", "file", "full"])
def test_a_folder_that_is_a_link_a_file_or_full_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    whole(tmp_path / "full" / "mine.txt")
    whole(tmp_path / "file")
    (tmp_path / "link to a folder").symlink_to(tmp_path / "empty")
    (tmp_path / "link to nothing").symlink_to(tmp_path / "nowhere")
    before = names(tmp_path)
    with pytest.raises(
        BadRun, match=r"is (a symbolic link|a file|not empty)\. Give a new or empty folder\.$"
    ):
        fill(tmp_path / target)
    assert names(tmp_path) == before
    assert names(tmp_path / "empty") == []
    fill(tmp_path / "empty")
    assert names(tmp_path / "empty") == ["a.txt"]


def test_a_home_is_written_out_and_that_of_nobody_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert write_output(Path("~/x.csv"), "a,b\n", "a,b") == tmp_path / "home" / "x.csv"
    with pytest.raises(RuntimeError, match="home directory"):  # which a command tells in one line
        write_output(Path("~nobody-of-that-name/x.csv"), "a,b\n", "a,b")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
