"""A run survives being killed, never mixes with another, and reads back what was written, type by type."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.edits.sites import Head
from levelhead.errors import BadRun
from levelhead.runs import folder as module
from levelhead.runs.folder import FORMAT, Layout, Run, file_hash, read_run, text_hash
from levelhead.runs.study import Key, studies
from levelhead.safe_files import write_whole
from levelhead.studies.audit import Audit
from levelhead.studies.heads import Heads
from tests.runs.cases import (
    NOTES,
    SHEET,
    TABLE,
    Answer,
    Case,
    CaseSettings,
    Later,
    LaterSettings,
    Line,
)
from tests.sealing import reseal

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = CaseSettings()
ONE, TWO = Answer("one", 1.0), Answer("two", 2.0, (Head(7, 5),))

KILLED = """
import json, os, pathlib, random, signal, sys, time
from levelhead.runs.folder import Run
from tests.runs.cases import NOTES, Answer, Case, CaseSettings

place = pathlib.Path(sys.argv[1])

def written(name, pause, ready):
    with Run.open(place / name, Case, CaseSettings(seed=7), hashes={"weights": "abc"}) as run:
        os.write(ready, b"ready")
        for i in range(60):
            def compute():
                time.sleep(pause)
                return [Answer("é" * 2000, (i + j) / 7) for j in range(4)]
            run.results(Case.part.of(str(i)), compute)
        run.file(NOTES.of("end"), "done")

def started(name, pause):  # a process of its own, a copy of this one, which has read all modules already
    reading, ready = os.pipe()
    if (child := os.fork()) == 0:
        try:
            written(name, pause, ready)
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(ready)
    assert os.read(reading, 5) == b"ready"
    os.close(reading)
    return child

assert os.waitpid(started("unbroken", 0), 0)[1] == 0
moments, sizes = random.Random(0), []
for _ in range(10):
    child = started("killed", 0.02)
    time.sleep(moments.uniform(0, 0.1))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    path = place / "killed" / "results.jsonl"
    sizes.append(path.stat().st_size if path.exists() else 0)
assert os.waitpid(started("killed", 0), 0)[1] == 0
print(json.dumps(sizes))
"""


def opened(folder: Path, settings: CaseSettings = SETTINGS, **options: Any) -> Run[CaseSettings]:
    return Run.open(folder, Case, settings, **options)


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(BadRun) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def opening_refusal(folder: Path, settings: CaseSettings = SETTINGS, **options: Any) -> str:
    return refusal(lambda: opened(folder, settings, **options).close())


def never() -> list[Answer]:
    raise AssertionError("computed again")


# ---- resuming


@pytest.mark.slow
def test_killed_at_ten_random_moments_a_run_ends_byte_identical_to_an_unbroken_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    sizes = json.loads(done.stdout)
    assert sizes == sorted(sizes)
    assert 0 < sizes[-1] < (tmp_path / "unbroken" / "results.jsonl").stat().st_size
    assert contents(tmp_path / "killed") == contents(tmp_path / "unbroken")


def test_a_last_line_cut_at_any_byte_is_dropped_and_written_again(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        with opened(folder) as run:
            run.result(Case.first, lambda: Answer("naïve", 0.1))
            run.results(Case.second, lambda: [Answer("a", 1 / 3), Answer("b", 2)])

    fill(tmp_path)
    path = tmp_path / "results.jsonl"
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        path.write_bytes(whole[:cut])
        assert list(read_run(tmp_path, [Case]).results) == ["first"]
        fill(tmp_path)
        assert path.read_bytes() == whole


def test_a_stored_result_is_not_computed_again_and_equals_the_fresh_one(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        assert (Case.first in run, run.stored(Case.first)) == (False, ())
        fresh = run.results(Case.first, lambda: [ONE, TWO])
        assert Case.first in run
        assert run.results(Case.first, never) == fresh == (ONE, TWO)
    with opened(tmp_path) as run:
        assert run.results(Case.first, never) == fresh
        assert run.stored(Case.first) == fresh
        assert run.data().records(Case.first) == fresh


def test_a_single_result_is_one_record(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        assert run.result(Case.first, lambda: ONE) == ONE
        assert run.result(Case.first, lambda: TWO) == ONE


def test_a_result_that_fails_leaves_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    def fail() -> Answer:
        raise ZeroDivisionError

    with opened(tmp_path) as run:
        with pytest.raises(ZeroDivisionError):
            run.result(Case.first, fail)
        assert run.result(Case.first, lambda: ONE) == ONE


# ---- what may be stored


@pytest.mark.parametrize(
    "answer",
    [
        Answer("x", float("nan")),
        Answer("x", float("inf")),
        Answer("x", np.float32(1)),  # type: ignore[arg-type]
        Answer("x", "1"),  # type: ignore[arg-type]
        Answer(1, 1.0),  # type: ignore[arg-type]
        Answer("\ud800", 1.0),
        Answer("x", 1.0, (Head(-1, 0),)),
    ],
    ids=repr,
)
def test_what_is_no_record_of_its_key_is_refused_and_nothing_is_written(
    tmp_path: Path, answer: Answer
) -> None:
    with opened(tmp_path) as run:
        run.result(Case.first, lambda: ONE)
        before = contents(tmp_path)
        message = refusal(lambda: run.results(Case.second, lambda: [answer]))
        assert message.startswith("Result 'second' cannot be stored: ")
        assert Case.second not in run
    assert contents(tmp_path) == before


@pytest.mark.parametrize("key", [Key("other", Answer), Key("first", Line)])
def test_a_key_that_the_study_does_not_have_is_a_mistake_in_the_program(
    tmp_path: Path, key: Key[Any]
) -> None:
    with opened(tmp_path) as run, pytest.raises(TypeError, match="is no result of levelhead case"):
        run.results(key, list)


def test_records_are_read_in_the_order_of_computing_with_their_addresses(tmp_path: Path) -> None:
    with opened(tmp_path, hashes={"data": "d"}) as run:
        run.results(Case.part.of("z"), lambda: [ONE, TWO])
        run.result(Case.first, lambda: ONE)
        run.results(Case.part.of("a"), list)
    data = read_run(tmp_path, [Case])
    assert list(data.results) == ["part/z", "first", "part/a"]
    assert data.labeled("part") == {"z": (ONE, TWO), "a": ()}
    assert (data.records(Case.first), data.records(Case.second)) == ((ONE,), ())
    assert [data.address(each) for each in data.records(Case.part.of("z"))] == ["part/z#0", "part/z#1"]
    assert data.address(Answer("one", 1.0)) is None
    assert (data.settings, data.hashes) == (SETTINGS, {"data": "d"})
    assert set(data.versions) == {"python", "torch", "transformers", "numpy", "levelhead"}


def test_settings_are_readable_json(tmp_path: Path) -> None:
    opened(tmp_path).close()
    stored = json.loads((tmp_path / "settings.json").read_text())
    loading = {"dtype": None, "allow_pickle": False, "trust_remote_code": False, "in_python": False}
    about = {"study": "case", "models": ["lh:bert-mini"], "in_memory": [], "loading": loading}
    assert stored["settings"] == {"seed": 3, "ks": [1, 2], **about}


# ---- a full disk


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_takes_back_the_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as run:
        run.result(Case.first, lambda: ONE)
        before = contents(tmp_path)
        monkeypatch.setattr(os, "fsync", full)
        assert "No space left" in refusal(lambda: run.result(Case.second, lambda: TWO))
    assert contents(tmp_path) == before


def test_a_full_disk_is_one_line_for_settings_and_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert "settings.json: No space left" in opening_refusal(tmp_path)
    assert contents(tmp_path) == {}
    with opened(tmp_path) as run:
        before = contents(tmp_path)
        monkeypatch.setattr(os, "fsync", full)
        assert "sheet.json: No space left" in refusal(lambda: run.file(SHEET, ONE))
        assert contents(tmp_path) == before


# ---- other settings, other studies, other formats


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (replace(SETTINGS, seed=4), "seed 3 there, 4 here"),
        (
            replace(SETTINGS, models=("lh:gpt-mini",)),
            'models.0 "lh:bert-mini" there, "lh:gpt-mini" here',
        ),
        (replace(SETTINGS, ks=(1, 5)), "ks.1 2 there, 5 here"),
        (replace(SETTINGS, ks=(1, 2, 3)), "ks.2 absent there, 3 here"),
        (replace(SETTINGS, ks=()), "ks.0 1 there, absent here"),
    ],
)
def test_other_settings_are_refused_by_name(tmp_path: Path, other: CaseSettings, difference: str) -> None:
    opened(tmp_path).close()
    before = contents(tmp_path)
    assert difference in opening_refusal(tmp_path, other)
    assert contents(tmp_path) == before


def test_a_run_from_before_an_option_was_known_is_refused_by_its_name(tmp_path: Path) -> None:
    opened(tmp_path).close()
    message = refusal(lambda: Run.open(tmp_path, Later, LaterSettings()))
    assert "k absent there, null here" in message


def test_other_hashes_and_other_versions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path, hashes={"weights": "a"}).close()
    assert 'hashes.weights "a" there, "b" here' in opening_refusal(tmp_path, hashes={"weights": "b"})
    monkeypatch.setattr(module, "version", lambda package: "99")
    assert "versions.levelhead" in opening_refusal(tmp_path, hashes={"weights": "a"})


def test_a_run_that_must_not_be_resumed_is_refused_where_one_is(tmp_path: Path) -> None:
    opened(tmp_path / "new", resume=False).close()
    assert "already holds a run" in opening_refusal(tmp_path / "new", resume=False)


def test_a_run_of_another_study_is_refused_with_the_command_that_is_meant(tmp_path: Path) -> None:
    opened(tmp_path).close()
    others: list[Layout] = [Heads, Audit]
    message = refusal(lambda: read_run(tmp_path, others))
    assert all(term in message for term in ("'case'", "`levelhead heads`, `levelhead audit`"))


@pytest.mark.parametrize("number", [1, 2, 3, FORMAT + 1, "new", None])
def test_a_run_of_another_format_is_refused_with_both_numbers(tmp_path: Path, number: object) -> None:
    opened(tmp_path).close()
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": number}))
    for act in (lambda: opened(tmp_path), lambda: read_run(tmp_path, [Case])):
        assert f"has format {number}; this levelhead reads format {FORMAT}" in refusal(act)


def test_a_run_of_levelhead_0_1_which_wrote_no_format_has_format_1(tmp_path: Path) -> None:
    text = json.dumps({"settings": {"study": "heads"}, "hashes": {}, "versions": {}})
    (tmp_path / "settings.json").write_text(text)
    assert "has format 1; this levelhead reads" in refusal(
        lambda: read_run(tmp_path, tuple(studies().values()))
    )


# ---- folders


def test_a_folder_with_other_things_and_a_file_are_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert "thesis.txt" in opening_refusal(tmp_path)
    assert "is a file" in opening_refusal(tmp_path / "thesis.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_run_killed_before_its_settings_were_whole_starts_afresh(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".tmp-settings.json").write_text('{"settings": {"mod')
    opened(tmp_path).close()
    assert read_run(tmp_path, [Case]).settings == SETTINGS
    assert set(contents(tmp_path)) == {"settings.json"}


def test_a_second_writer_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with opened(tmp_path):
        assert "Another process is writing" in opening_refusal(tmp_path)
        assert read_run(tmp_path, [Case]).results == {}
    opened(tmp_path).close()


def test_a_refused_opening_gives_the_lock_back(tmp_path: Path) -> None:
    opened(tmp_path).close()
    opening_refusal(tmp_path, replace(SETTINGS, seed=1))
    opened(tmp_path).close()


def test_reading_where_no_run_is(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert "is not a run folder" in refusal(partial(read_run, folder, [Case]))


# ---- damage


def damaged(folder: Path, line: bytes) -> None:
    """A run whose second line of results is this one."""
    with opened(folder) as run:
        run.result(Case.first, lambda: ONE)
    with (folder / "results.jsonl").open("ab") as file:
        file.write(line + b"\n")
    reseal(folder)


@pytest.mark.parametrize(
    "line",
    [b"{half", b"[]", b'{"key": "first", "rows": []}', b'{"key": "second"}', b"\x00\x00", b"", b"\xff"],
)
def test_a_damaged_line_is_named_by_file_and_number(tmp_path: Path, line: bytes) -> None:
    damaged(tmp_path, line)
    for act in (lambda: opened(tmp_path), lambda: read_run(tmp_path, [Case])):
        assert "results.jsonl is damaged at line 2 (" in refusal(act)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"key": "third", "rows": []}', "'third' is no result of levelhead case"),
        ('{"key": "second", "rows": [{"text": "x", "heads": []}]}', "value"),
        ('{"key": "second", "rows": [{"text": "x", "value": NaN, "heads": []}]}', "Out of range"),
        ('{"key": "second", "rows": [{"text": "x", "value": 1e999, "heads": []}]}', "Out of range"),
        ('{"key": "second", "rows": [{"text": "x", "value": "1", "heads": []}]}', "value"),
        ('{"key": "second", "rows": [{"text": "x", "value": true, "heads": []}]}', "value"),
        ('{"key": "second", "rows": [{"text": "x", "value": 1, "heads": ["0-1"]}]}', "heads.0"),
        ('{"key": "second", "rows": [{"text": "x", "value": 1, "heads": [], "more": 1}]}', "more"),
        ('{"key": "second", "rows": [{"text": "\\ud800", "value": 1, "heads": []}]}', ""),
        ('{"key": "part/a", "rows": [{}]}', "text"),
        ('{"key": "second", "rows": [1]}', "no mapping"),
        ('{"key": "second", "rows": ' + "[" * 100_000 + "]" * 100_000 + "}", "Recursion"),
    ],
    ids=lambda each: each[:60],
)
def test_a_line_that_holds_something_else_is_named_by_file_number_and_fault(
    tmp_path: Path, line: str, fault: str
) -> None:
    damaged(tmp_path, line.encode())
    message = refusal(lambda: read_run(tmp_path, [Case]))
    assert "results.jsonl is damaged at line 2 (" in message
    assert fault in message


def test_a_stored_result_that_was_changed_by_hand_is_not_taken_for_a_fresh_one(tmp_path: Path) -> None:
    damaged(tmp_path, b'{"key": "second", "rows": [{"text": 1, "value": 1, "heads": []}]}')
    with opened(tmp_path) as run:
        assert "damaged at line 2 (" in refusal(lambda: run.results(Case.second, never))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": 5}',
        '{"format": 5, "settings": 1, "hashes": {}, "versions": {}}',
        '{"format": 5, "settings": {}, "hashes": {"a": 1}, "versions": {}}',
        '{"format": 5, "settings": {}, "hashes": {}, "versions": {}}',
    ],
)
def test_damaged_settings_are_named(tmp_path: Path, text: str) -> None:
    opened(tmp_path).close()
    (tmp_path / "settings.json").write_text(text)
    for act in (lambda: opened(tmp_path), lambda: read_run(tmp_path, [Case])):
        assert "settings.json is damaged (" in refusal(act)


@pytest.mark.parametrize("change", [{"seed": "3"}, {"ks": 1}, {"more": 1}, {"seed": None}])
def test_settings_that_are_none_of_the_study_are_named(tmp_path: Path, change: dict[str, object]) -> None:
    opened(tmp_path).close()
    path = tmp_path / "settings.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "settings": {**stored["settings"], **change}}))
    reseal(tmp_path)
    message = refusal(lambda: read_run(tmp_path, [Case]))
    assert "settings.json is damaged (" in message
    assert next(iter(change)) in message


# ---- values that were changed and still fit


def filled(folder: Path) -> Path:
    """A run with three results and a file of each kind."""
    with opened(folder) as run:
        run.result(Case.first, lambda: ONE)
        run.results(Case.second, lambda: [ONE, TWO])
        run.results(Case.part.of("a"), lambda: [TWO])
        run.file(SHEET, TWO)
        run.file(TABLE, [Line("x", 1.5)])
    return folder


def changed(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (b'"one", "value": 1.0', b'"one", "value": 1.5', 1),
        (b'"two", "value": 2.0', b'"two", "value": 2.1', 2),
        (b'"part/a"', b'"part/b"', 3),
        (b'"8-6"', b'"8-5"', 2),
    ],
)
def test_a_number_that_was_changed_is_named_by_file_and_line(
    tmp_path: Path, old: bytes, new: bytes, line: int
) -> None:
    changed(filled(tmp_path) / "results.jsonl", old, new)
    for act in (lambda: opened(tmp_path), lambda: read_run(tmp_path, [Case])):
        assert f"damaged at line {line} (ValueError: its checksum" in refusal(act)
    reseal(tmp_path)
    read_run(tmp_path, [Case])


def test_a_line_that_is_gone_or_has_changed_places_is_noticed_where_the_next_one_stands(
    tmp_path: Path,
) -> None:
    path = filled(tmp_path) / "results.jsonl"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    for lines, number in (((first, third), 2), ((second, third), 1), ((first, third, second), 2)):
        path.write_bytes(b"".join(lines))
        assert f"damaged at line {number} (" in refusal(lambda: read_run(tmp_path, [Case]))
    path.write_bytes(first + second)
    assert list(read_run(tmp_path, [Case]).results) == ["first", "second"]


def test_a_setting_that_was_changed_is_noticed_and_another_layout_of_the_same_is_not(tmp_path: Path) -> None:
    path = filled(tmp_path) / "settings.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    read_run(tmp_path, [Case])
    changed(path, b'"seed": 3', b'"seed": 4')
    for act in (lambda: opened(tmp_path), lambda: read_run(tmp_path, [Case])):
        assert "settings.json is damaged (ValueError" in refusal(act)


def test_a_file_that_was_changed_is_named_and_written_again_by_the_study(tmp_path: Path) -> None:
    changed(filled(tmp_path) / "table.csv", b"1.5", b"1.6")
    changed(tmp_path / "sheet.json", b"2.0", b"2.1")
    assert "table.csv is damaged (its checksum" in refusal(lambda: TABLE.read(tmp_path))
    assert "sheet.json is damaged (" in refusal(lambda: SHEET.read(tmp_path))
    filled(tmp_path)
    assert (TABLE.read(tmp_path), SHEET.read(tmp_path)) == ([Line("x", 1.5)], TWO)


def test_checksums_of_files_are_those_of_sha256sum(tmp_path: Path) -> None:
    filled(tmp_path)
    subprocess.run(["sha256sum", "--check", "--strict", "files.sha256"], cwd=tmp_path, check=True)
    names = [line.split()[1] for line in (tmp_path / "files.sha256").read_text().splitlines()]
    assert names == ["sheet.json", "table.csv"]


@pytest.mark.parametrize("killed_at", range(1, 4))
def test_a_file_is_never_there_with_the_checksum_of_another_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    """The second text: its old checksum goes, the file comes, the new checksum comes."""
    filled(tmp_path)
    replaced = os.replace
    steps = iter(range(1, 9))

    def killed(*paths: Path) -> None:
        if next(steps) == killed_at:
            raise KeyboardInterrupt
        replaced(*paths)

    with opened(tmp_path) as run:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                run.file(TABLE, [Line("y", 2.5)])
        assert TABLE.read(tmp_path) == [Line("x", 1.5) if killed_at < 3 else Line("y", 2.5)]
        run.file(TABLE, [Line("y", 2.5)])
    assert TABLE.read(tmp_path) == [Line("y", 2.5)]
    assert len((tmp_path / "files.sha256").read_text().splitlines()) == 2


def test_damaged_checksums_of_files_are_named(tmp_path: Path) -> None:
    (filled(tmp_path) / "files.sha256").write_text("half\n")
    assert "files.sha256 is damaged (" in refusal(lambda: TABLE.read(tmp_path))


# ---- files


def test_files_of_every_kind_appear_under_their_names(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        notes = run.file(NOTES.of("a/b"), "é")
        run.file(SHEET, TWO)
        run.file(TABLE, [Line("=1", None)])
    assert notes.parent == tmp_path / "notes"
    assert NOTES.of("a/b").read(tmp_path) == "é"
    assert SHEET.read(tmp_path) == TWO
    assert TABLE.read(tmp_path) == [Line("=1", None)]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def half(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("killed")

    path = write_whole(tmp_path / "figures" / "heads.svg", lambda work: work.write_text(f"as {work.suffix}"))
    assert path.read_text() == "as .svg"
    with pytest.raises(RuntimeError):
        write_whole(path, half)
    assert [each.name for each in path.parent.iterdir()] == ["heads.svg"]
    assert path.read_text() == "as .svg"


# ---- hashes, imports


def test_hashes_are_sha256_and_know_where_a_text_ends(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    fips_180 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_hash(path) == fips_180
    assert text_hash(["ab", "c"]) != text_hash(["a", "bc"])
    assert text_hash("abc") == text_hash(["abc"])


def test_reading_runs_imports_no_torch() -> None:
    code = "import sys; import levelhead.runs.study; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
