"""A run survives being killed, and never mixes with another."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.errors import BadRun
from levelhead.files import write_whole
from levelhead.measures.measurement import Measurement
from levelhead.results import folder as runs
from levelhead.results.folder import Run, file_hash, read_run, text_hash

SETTINGS = {"model": "lh:bert-mini", "seed": 3, "gates": {"layers": [1, 2]}}

CHILD = """
import sys, time
from pathlib import Path
from levelhead.results.folder import Run

with Run.open(sys.argv[1], {"seed": 7}, hashes={"weights": "abc"}) as run:
    print("ready", flush=True)
    for i in range(60):
        def compute():
            time.sleep(float(sys.argv[2]))
            return [{"i": i, "part": j, "value": (i + j) / 7, "text": "é" * 2000} for j in range(4)]
        run.result(f"head {i}", compute)
    run.artifact("table.txt", lambda path: path.write_text("done"))
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(BadRun) as caught:
        Run.open(*arguments, **options).close()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def never() -> dict[str, Any]:
    raise AssertionError("computed again")


def test_killed_at_ten_random_moments_a_run_ends_byte_identical_to_an_unbroken_one(tmp_path: Path) -> None:
    def start(name: str, pause: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD, str(tmp_path / name), str(pause)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    unbroken = start("unbroken", 0)
    unbroken.communicate()
    assert unbroken.returncode == 0

    moments, sizes = random.Random(0), []
    for _ in range(10):
        child = start("killed", 0.02)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0, 0.1))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert child.returncode == -signal.SIGKILL
        path = tmp_path / "killed" / "results.jsonl"
        sizes.append(path.stat().st_size if path.exists() else 0)
    assert sizes == sorted(sizes)
    assert 0 < sizes[-1] < (tmp_path / "unbroken" / "results.jsonl").stat().st_size

    last = start("killed", 0)
    last.communicate()
    assert last.returncode == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "unbroken")


def test_a_last_line_cut_at_any_byte_is_dropped_and_written_again(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        with Run.open(folder, SETTINGS) as run:
            run.result("a", lambda: {"value": 0.1, "name": "naïve"})
            run.result("b", lambda: [{"value": 1 / 3}, {"value": 2}])

    fill(tmp_path)
    path = tmp_path / "results.jsonl"
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        path.write_bytes(whole[:cut])
        assert list(read_run(tmp_path).results) == ["a"]
        fill(tmp_path)
        assert path.read_bytes() == whole


def test_a_stored_result_is_not_computed_again_and_equals_the_fresh_one(tmp_path: Path) -> None:
    measured = Measurement("SEAT", np.float64(0.1), interval=(0.0, 0.2), n=3)

    def compute() -> dict[str, Any]:
        return {"m": measured, "x": np.float32(0.5), "heads": np.arange(3), "path": Path("a") / "b"}

    with Run.open(tmp_path, SETTINGS) as run:
        assert "k" not in run
        fresh = run.result("k", compute)
        assert "k" in run
        fresh[0]["x"] = "spoilt"
        again = run.result("k", never)
    with Run.open(tmp_path, SETTINGS) as run:
        stored = run.result("k", never)
    expected = {"m": measured.to_json(), "x": 0.5, "heads": [0, 1, 2], "path": "a/b"}
    assert again == [expected]
    assert stored == [expected]


def test_every_float_comes_back_to_the_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.arange(-500, 500).clip(-300, 300)
    with Run.open(tmp_path, SETTINGS) as run:
        run.result("k", lambda: {"values": values})
    assert np.array_equal(np.array(read_run(tmp_path).rows[0]["values"]), values)


def test_rows_carry_their_key_in_the_order_of_computing(tmp_path: Path) -> None:
    with Run.open(tmp_path, SETTINGS, hashes={"data": "d"}) as run:
        run.result("z", lambda: [{"n": 1}, {"n": 2}])
        run.result("a", lambda: {"n": 3})
        run.result("nothing", list)
    data = read_run(tmp_path)
    assert data.rows == [{"key": "z", "n": 1}, {"key": "z", "n": 2}, {"key": "a", "n": 3}]
    assert list(data.results) == ["z", "a", "nothing"]
    assert data.settings == SETTINGS
    assert data.hashes == {"data": "d"}
    assert {"python", "torch", "transformers", "numpy", "levelhead"} == set(data.versions)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("nan"), object(), {1, 2}, "\ud800"])
def test_what_is_no_finite_plain_data_is_refused_and_nothing_is_written(
    tmp_path: Path, value: object
) -> None:
    with Run.open(tmp_path, SETTINGS) as run:
        run.result("good", lambda: {"value": 1})
        before = contents(tmp_path)
        with pytest.raises(BadRun, match=r"^result 'bad' cannot be stored: [^\n]*$"):
            run.result("bad", lambda: {"value": value})
        assert "bad" not in run
    assert contents(tmp_path) == before


def test_a_result_that_fails_leaves_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    with Run.open(tmp_path, SETTINGS) as run:
        with pytest.raises(ZeroDivisionError):
            run.result("k", lambda: {"value": 1 / 0})
        assert run.result("k", lambda: {"value": 1}) == [{"value": 1}]


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_takes_back_the_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Run.open(tmp_path, SETTINGS) as run:
        run.result("a", lambda: {"value": 1})
        before = contents(tmp_path)
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(BadRun, match="No space left"):
            run.result("b", lambda: {"value": 2})
    assert contents(tmp_path) == before


def test_a_full_disk_is_one_line_for_settings_and_for_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert "settings.json: No space left on device. Make room" in refusal(tmp_path, SETTINGS)
    assert contents(tmp_path) == {}
    with Run.open(tmp_path, SETTINGS) as run:
        before = contents(tmp_path)
        for write in (full, lambda path: path.write_text("half") and full()):
            with pytest.raises(
                BadRun, match=r"^Cannot write [^\n]*words\.json: No space left on device\. [^\n]*$"
            ):
                run.artifact("words.json", write)
        assert contents(tmp_path) == before


def test_a_place_that_cannot_be_written_is_one_line_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Run.open(tmp_path, SETTINGS) as run:
        (tmp_path / "figures").write_text("a file")
        (tmp_path / "table.csv").mkdir()
        (tmp_path / "results.jsonl").mkdir()
        for name in ("figures/heads.svg", "table.csv"):
            with pytest.raises(BadRun, match=rf"^Cannot write [^\n]*{name}: [^\n]*$"):
                run.artifact(name, lambda path: path.write_text("whole"))
        with pytest.raises(BadRun, match=r"^Cannot write [^\n]*results\.jsonl: Is a directory\. [^\n]*$"):
            run.result("a", lambda: {"value": 1})
    assert not list(tmp_path.glob(".tmp-*"))
    assert "Cannot write" in refusal(tmp_path / "figures" / "run", SETTINGS)
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "figures" / "page.html", tmp_path / "table.csv", Path()):
        with pytest.raises(BadRun, match=r"^Cannot write"):
            write_whole(path, lambda work: work.write_text("whole"))


# --- settings


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({**SETTINGS, "seed": 4}, "seed 3 there, 4 here"),
        ({**SETTINGS, "gates": {"layers": [1, 5]}}, "gates.layers.1 2 there, 5 here"),
        ({**SETTINGS, "k": None}, "k absent there, null here"),
        ({"model": "lh:bert-mini", "seed": 3, "gates": {}}, "gates"),
    ],
)
def test_other_settings_are_refused_by_name(tmp_path: Path, other: dict[str, Any], told: str) -> None:
    Run.open(tmp_path, SETTINGS).close()
    before = contents(tmp_path)
    assert told in refusal(tmp_path, other)
    assert contents(tmp_path) == before


def test_other_hashes_and_other_versions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Run.open(tmp_path, SETTINGS, hashes={"weights": "a"}).close()
    assert 'hashes.weights "a" there, "b" here' in refusal(tmp_path, SETTINGS, hashes={"weights": "b"})
    monkeypatch.setattr(runs, "version", lambda package: "99")
    assert "versions.levelhead" in refusal(tmp_path, SETTINGS, hashes={"weights": "a"})


def test_the_same_settings_may_come_in_another_order_and_as_tuples(tmp_path: Path) -> None:
    Run.open(tmp_path, SETTINGS).close()
    Run.open(tmp_path, {"gates": {"layers": (1, 2)}, "seed": 3, "model": "lh:bert-mini"}).close()


def test_a_run_that_must_not_be_resumed_is_refused_where_one_is(tmp_path: Path) -> None:
    Run.open(tmp_path / "new", SETTINGS, resume=False).close()
    assert "already holds a run" in refusal(tmp_path / "new", SETTINGS, resume=False)


# --- folders


def test_a_folder_with_other_things_and_a_file_are_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert "not a run (it has thesis.txt)" in refusal(tmp_path, SETTINGS)
    assert "is a file" in refusal(tmp_path / "thesis.txt", SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_run_killed_before_its_settings_were_whole_starts_afresh(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".tmp-settings.json").write_text('{"settings": {"mod')
    Run.open(tmp_path, SETTINGS).close()
    assert read_run(tmp_path).settings == SETTINGS
    assert set(contents(tmp_path)) == {"settings.json"}


def test_a_second_writer_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with Run.open(tmp_path, SETTINGS):
        assert "Another process is writing" in refusal(tmp_path, SETTINGS)
        assert read_run(tmp_path).rows == []
    Run.open(tmp_path, SETTINGS).close()


def test_a_refused_opening_gives_the_lock_back(tmp_path: Path) -> None:
    Run.open(tmp_path, SETTINGS).close()
    refusal(tmp_path, {"seed": 1})
    Run.open(tmp_path, SETTINGS).close()


@pytest.mark.parametrize(
    "damage", [b"{half\n", b"[]\n", b'{"key": "a", "rows": []}\n', b'{"key": "c"}\n', b"\x00\x00\n", b"\n"]
)
def test_a_damaged_line_is_named(tmp_path: Path, damage: bytes) -> None:
    with Run.open(tmp_path, SETTINGS) as run:
        run.result("a", lambda: {"value": 1})
    with (tmp_path / "results.jsonl").open("ab") as file:
        file.write(damage)
    assert "damaged at line 2" in refusal(tmp_path, SETTINGS)
    with pytest.raises(BadRun, match="damaged at line 2"):
        read_run(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"settings": 1, "hashes": {}, "versions": {}}', "{}"])
def test_damaged_settings_are_told(tmp_path: Path, text: str) -> None:
    Run.open(tmp_path, SETTINGS).close()
    (tmp_path / "settings.json").write_text(text)
    assert "is damaged" in refusal(tmp_path, SETTINGS)
    with pytest.raises(BadRun, match="is damaged"):
        read_run(tmp_path)


def test_reading_where_no_run_is(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadRun, match="is not a run folder"):
            read_run(folder)


# --- artifacts


def test_an_artifact_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def half(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("killed")

    with Run.open(tmp_path, SETTINGS) as run:
        path = run.artifact("figures/heads.svg", lambda work: work.write_text(f"<svg/> as {work.suffix}"))
        assert path.read_text() == "<svg/> as .svg"
        with pytest.raises(RuntimeError):
            run.artifact("figures/heads.svg", half)
        assert [p.name for p in path.parent.iterdir()] == ["heads.svg"]
        assert path.read_text() == "<svg/> as .svg"


@pytest.mark.parametrize(
    "name", ["../outside.txt", "/tmp/outside.txt", "results.jsonl", "./settings.json", "", "a/.."]
)
def test_an_artifact_stays_in_its_run_and_spares_the_runs_own_files(tmp_path: Path, name: str) -> None:
    with Run.open(tmp_path / "run", SETTINGS) as run:
        before = contents(run.folder)
        with pytest.raises(BadRun, match="no name for a file of the run"):
            run.artifact(name, lambda path: path.write_text("bad"))
    assert contents(tmp_path / "run") == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


# --- hashes, imports


def test_hashes_are_sha256_and_know_where_a_text_ends(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert (
        file_hash(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )  # FIPS 180's example
    assert text_hash(["ab", "c"]) != text_hash(["a", "bc"])
    assert text_hash("abc") == text_hash(["abc"])


def test_runs_imports_neither_torch_nor_numpy() -> None:
    source = Path(runs.__file__)
    code = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("alone", {str(source)!r})
module = importlib.util.module_from_spec(spec); sys.modules["alone"] = module
before = set(sys.modules); spec.loader.exec_module(module)
print(sorted({{"torch", "transformers", "numpy"}} & (set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_settings_are_readable_json(tmp_path: Path) -> None:
    Run.open(tmp_path, SETTINGS).close()
    assert json.loads((tmp_path / "settings.json").read_text())["settings"] == SETTINGS
