"""The fuzzer: a short run without findings, and that it would see one."""

from __future__ import annotations

import gc
import os
import re
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from benchmarks.fuzz import trial
from benchmarks.fuzz.__main__ import subjects, summary, trials
from benchmarks.fuzz.files import file_subjects
from benchmarks.fuzz.mutations import mutated
from benchmarks.fuzz.options import COMMANDS, Options
from benchmarks.fuzz.renamed import renamed
from benchmarks.fuzz.trial import FINDINGS, Place, Subject, Trial, run_trial
from benchmarks.fuzz.watch import Watch

from levelhead.cli.commands import listed
from levelhead.errors import BadProbe
from levelhead.runs.study import Scratch
from tests.report.synthetic import write_heads

SLOW = ("traps", "threads", "chat template", "device map")  # tests of their own try these
HARMFUL = ("options", "adapter", *SLOW)  # made up, not damaged


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="module")
def everything(sandbox: Path) -> list[Subject]:
    return subjects(sandbox)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in ("inputs", "outputs"):
        (tmp_path / name).mkdir()
    return Place(tmp_path / "inputs", tmp_path / "outputs")


def outcome(use: Callable[[], object], place: Place, watch: Watch) -> str:
    return run_trial(Subject("own", 1, lambda *_: use), 0, place, watch).outcome


@pytest.mark.nightly
@pytest.mark.slow
def test_200_damaged_inputs_of_every_kind_are_accepted_or_refused_in_one_line(
    everything: list[Subject], sandbox: Path
) -> None:
    quick = [each for each in everything if each.name not in SLOW]
    results = list(trials(quick, 2026, 200, float("inf"), sandbox))
    assert [each for each in results if each.outcome in FINDINGS] == []
    assert {each.outcome for each in results} == {"accepted", "refused"}
    assert len({each.subject for each in results}) > 30


def test_what_earlier_work_left_behind_is_no_write_of_an_input(place: Place) -> None:
    left = Scratch()
    folder, left.itself = left.path, left  # type: ignore[attr-defined]  # a circle, as results are
    gc.disable()
    try:
        del left
        assert folder.exists()
        assert outcome(gc.collect, place, Watch()) == "accepted"
        assert not folder.exists()
    finally:
        gc.enable()


def test_every_command_is_fuzzed_and_a_report_as_a_pdf_too() -> None:
    assert {name for name, *_ in COMMANDS} == {*listed()}
    assert any(name == "report" and "--pdf" in arguments for name, *arguments in COMMANDS)


@pytest.mark.parametrize("pdf", [False, True])
def test_a_command_that_is_fuzzed_is_accepted_as_long_as_nothing_is_damaged(
    pdf: bool, tmp_path: Path, place: Place, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_heads(tmp_path / "whole")
    report = next(each for each in COMMANDS if each[0] == "report" and ("--pdf" in each) == pdf)
    monkeypatch.setattr("benchmarks.fuzz.options.COMMANDS", (report,))
    monkeypatch.setattr(Random, "random", lambda _: 0.9)  # no argument is replaced
    monkeypatch.setattr(Random, "randint", lambda *_: 0)  # and none is added
    (options,) = Options(tmp_path / "no-model", run).subjects()
    assert run_trial(options, 0, place, watch).outcome == "accepted"
    assert (place.outputs / "report.html").is_file()
    assert (place.outputs / "report.pdf").exists() == pdf


def test_the_same_seed_damages_a_file_in_the_same_way() -> None:
    data = b'{"a": [1, 2, "x"]}\n' * 5
    first, second = ([mutated(Random(seed), data) for seed in range(50)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 40


@pytest.mark.nightly
@pytest.mark.slow
def test_every_file_run_and_model_can_be_read_before_it_is_damaged(
    everything: list[Subject], place: Place, monkeypatch: pytest.MonkeyPatch, watch: Watch
) -> None:
    for module in ("files", "models"):
        monkeypatch.setattr(f"benchmarks.fuzz.{module}.mutated", lambda _, data: data)
    monkeypatch.setattr("benchmarks.fuzz.models.flipped", lambda _, data: data)
    for module in ("runs", "models"):
        monkeypatch.setattr(f"benchmarks.fuzz.{module}.damage", lambda *_: None)
    monkeypatch.setattr("benchmarks.fuzz.renamed.renamed", lambda _, text: text)
    whole = [each for each in everything if each.name not in HARMFUL]
    results = []
    for each in whole:
        shutil.rmtree(place.inputs)
        place.inputs.mkdir()
        results.append(run_trial(each, 0, place, watch))
    assert [each for each in results if each.outcome != "accepted"] == []


def test_an_error_that_is_not_ours_is_a_finding_and_one_of_ours_is_not(place: Place, watch: Watch) -> None:
    def refuse() -> None:
        raise BadProbe("no")

    assert outcome(lambda: 1 // 0, place, watch) == "traceback"
    assert outcome(refuse, place, watch) == "refused"


def test_an_input_that_takes_too_long_is_a_finding(
    place: Place, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "LIMIT", 1)
    assert outcome(lambda: time.sleep(30), place, watch) == "hang"


def test_what_is_made_through_a_link_is_a_finding_though_its_name_is_an_output(
    place: Place, watch: Watch
) -> None:
    (place.outputs / "results.jsonl").symlink_to(place.inputs / "absent")
    assert outcome(lambda: (place.outputs / "results.jsonl").write_text("a"), place, watch) == "foreign write"


@pytest.mark.parametrize("name", ["inputs", "outputs"])
def test_a_file_that_is_opened_inside_an_open_folder_is_judged_by_its_whole_path(
    name: str, place: Place, watch: Watch
) -> None:
    folder = os.open(place.inputs.parent / name, os.O_RDONLY)

    def write() -> None:
        os.close(os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=folder))

    result = outcome(write, place, watch)
    os.close(folder)
    assert result == ("accepted" if name == "outputs" else "foreign write")


def test_a_socket_is_a_finding_of_its_own(place: Place, watch: Watch) -> None:
    def connect() -> None:
        with suppress(OSError), socket.socket() as made:
            made.connect(("127.0.0.1", 1))

    assert outcome(connect, place, watch) == "socket"


def test_a_changed_name_is_another_name_and_nothing_else() -> None:
    text = '{"key": "seat", "rows": [{"name": "seat", "value": 1.5}]}\n{"key": "lpbs", "rows": []}\n'
    changed = [renamed(Random(seed), text) for seed in range(50)]
    assert len(set(changed)) > 20
    assert all("1.5" in each and each.count("\n") == 2 for each in changed)


def test_the_last_line_adds_up_what_came_of_all_inputs() -> None:
    counts = Counter({("a", "refused"): 3, ("b", "refused"): 1, ("b", "hang"): 2, ("c", "foreign write"): 1})
    line = summary(counts, 10)
    assert [int(number) for number in re.findall(r"\d+", line)] == [10, 16, 7, 4, 0, 0, 2, 1, 0]
    assert all(term in line for term in ("4 refused", "2 hangs", "1 touched files"))


@pytest.mark.parametrize("name", ["inputs/kept", "elsewhere", "outputs/new"])
def test_what_is_written_outside_of_outputs_is_a_finding(name: str, place: Place, watch: Watch) -> None:
    (place.inputs / "kept").write_text("mine")
    path = place.inputs.parent / name
    result = outcome(lambda: path.write_text("changed"), place, watch)
    assert result == ("accepted" if name == "outputs/new" else "foreign write")


def test_the_input_of_a_finding_comes_again_by_its_subject_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipes = [each for each in file_subjects() if each.name == "recipe"]

    def read(seed: int) -> tuple[Trial, bytes]:
        (result,) = trials(recipes, seed, 1, float("inf"), tmp_path)
        return result, (tmp_path / "inputs" / "own.toml").read_bytes()

    assert read(7) == read(7) != read(8)
