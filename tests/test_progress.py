"""Progress in logs: a line a stage, a line a minute, and an estimate for slow models; one bar for the whole
of a command: in words, in tokens, with an estimate of the time that is left."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.progress import Progress

from levelhead import progress
from levelhead.engine.readings import SentenceVectors
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text
from levelhead.progress import (
    Plan,
    Stage,
    announce,
    announced,
    display,
    plain_lines,
    seconds_left,
    stage,
    steps,
    whole,
    worked,
)
from tests.tiny import tiny


def test_a_library_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with steps("SEAT", 3) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


def test_a_command_writes_one_line_for_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_lines(), steps("Audit", 2) as advance:
        for label in ("SEAT", "SEAT", "LPBS"):
            with steps(label, 1200) as inner:
                inner(1200)
        advance(1)
        with steps("Fluency", 10):
            pass
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(";")[0] for line in lines] == [
        "levelhead: Audit 0 of 2",
        "levelhead: Audit 0 of 2, SEAT 0 of 1,200",
        "levelhead: Audit 0 of 2, LPBS 0 of 1,200",
        "levelhead: Audit 1 of 2, Fluency 0 of 10",
    ]
    assert re.search(r"; \d+ s so far, about \d+ s left$", lines[-1])


def test_a_minute_without_a_step_has_its_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_MINUTE", 0.01)
    with plain_lines(), steps("Training", 4) as advance:
        advance(1)
        lines: list[str] = []
        while len(lines) < 3:
            time.sleep(0.01)
            lines += capsys.readouterr().err.splitlines()
    assert re.match(r"levelhead: Training 1 of 4; \d+ s so far, about \d+ s left$", lines[-1])


def test_bars_of_a_second_thread_are_not_drawn_over_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    def drawn() -> bool:
        with display() as shown:
            assert isinstance(shown, Progress)
            return not shown.disable

    with ThreadPoolExecutor(1) as pool:
        with display():
            assert not pool.submit(drawn).result()
        assert pool.submit(drawn).result()


def test_bars_take_the_speed_of_the_whole_loop_not_of_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # by which rich takes any stream for a terminal
    now = [0.0]
    with display() as shown:
        assert isinstance(shown, Progress)
        monkeypatch.setattr(shown, "get_time", lambda: now[0])
        task = shown.add_task("SEAT", total=10)
        for _ in range(3):
            now[0] += 100.0  # a slow model: one batch takes longer than rich's own window
            shown.update(task, advance=1)
        assert shown.tasks[0].time_remaining is not None


# ---- the whole of a command

PLAN = {Stage.WORDS: 150_000.0, Stage.NULLS: 400_000.0, Stage.SENTENCES: 250_000.0, Stage.PROMPTS: 90_000.0}


class Clock:
    """Seconds that pass when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def left() -> float:
    """Seconds that the lines say are left."""
    with display() as shown:
        (task,) = shown.tasks
    seconds = seconds_left(task)
    assert seconds is not None
    return seconds


def simulated(
    clock: Clock, needed: Mapping[Stage, float], pace: Mapping[Stage, float]
) -> Iterator[tuple[Stage, float, float]]:
    """Work through the stages: at which stage, when, and how many seconds are said to be left."""
    for name, tokens in needed.items():
        with stage(name):
            for _ in range(100):
                clock.now += tokens / 100 * pace[name]
                worked(tokens / 100)
                yield name, clock.now, left()


def test_after_a_minute_the_time_that_is_left_is_right_within_a_quarter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    wrong = dict(zip(PLAN, (0.9, 1.08, 0.92, 1.1), strict=True))  # of what was planned
    pace = dict(zip(PLAN, (0.00050, 0.00055, 0.00047, 0.00050), strict=True))  # seconds a token
    needed = {name: wrong[name] * tokens for name, tokens in PLAN.items()}
    with plain_lines(), whole("Audit", PLAN):
        said = list(simulated(clock, needed, pace))
    end = clock.now
    assert end > 300
    later = [(end - now, told) for _, now, told in said if now > 60]
    assert len(later) > 100
    assert all(abs(told - true) <= max(0.25 * true, 10) for true, told in later)


def test_a_stage_that_ends_early_leaves_the_estimate_right(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    needed = {**PLAN, Stage.NULLS: 0.3 * PLAN[Stage.NULLS]}
    with plain_lines(), whole("Audit", PLAN):
        said = list(simulated(clock, needed, dict.fromkeys(PLAN, 0.0005)))
    after = [(clock.now - now, told) for name, now, told in said if name == Stage.PROMPTS]
    assert all(told == pytest.approx(true, rel=0.1, abs=1.0) for true, told in after)


def test_a_log_says_in_words_what_is_asked_and_shows_no_other_bar(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with plain_lines(), whole("Audit", PLAN):
        with stage(Stage.LOOK), stage(Stage.WORDS):
            worked(5)
        with stage(Stage.NULLS), steps("Null models", 19) as advance:
            advance(1)
    lines = capsys.readouterr().err.splitlines()
    assert not any("of 19" in line or "0 of 5" in line for line in lines)
    assert f"now: {Stage.LOOK}: {Stage.WORDS}" in lines[2]
    assert f"now: {Stage.NULLS}" in lines[-1]
    assert "5 of 890,005" in lines[-1]


def test_the_engine_counts_every_token_that_passes_through_all_blocks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = ["The nurse said that she was tired.", "He gave her a book."]
    model = tiny("bert")
    rows = [len(model.tokenizer(text)["input_ids"]) for text in texts]
    with plain_lines(), whole("Audit", {Stage.WORDS: 1.0}):
        with stage(Stage.WORDS):
            for text in texts:
                read_one(model, SentenceVectors([Text(text)], "mean"))
        with stage(Stage.HEADS):
            pass
    assert f" {sum(rows)} of {sum(rows)};" in capsys.readouterr().err.splitlines()[-1]


def test_what_was_there_before_a_long_command_is_left_out_of_the_search_for_garbage_while_it_lasts() -> None:
    before = gc.get_freeze_count()
    with whole("Audit", PLAN):
        assert gc.get_freeze_count() > 10_000
        with whole("Inside", PLAN):
            pass
        assert gc.get_freeze_count() > 10_000
    assert gc.get_freeze_count() <= before


def test_a_command_says_before_long_work_how_long_it_takes_and_what_is_shorter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    with plain_lines():
        with whole("Audit", PLAN, lambda: Plan(seconds=1440.0, shorter="--quick takes about 6 min")):
            announce(lambda: Plan(seconds=900.0, shorter="a part of what was announced"))
        announce(lambda: Plan(seconds=20.0, shorter="short work needs no line"))
    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if "This takes" in line]
    assert said == [
        "levelhead: This takes about 24 min on this machine (2 cores); --quick takes about 6 min."
    ]
    assert lines[0] == said[0]


def test_a_command_of_one_kind_of_work_shows_the_time_that_is_left_of_its_plan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("levelhead.progress.time.monotonic", clock.monotonic)
    plan = Plan(tokens=1000.0, seconds=200.0, shorter="--null 0 takes about 1 min")
    with plain_lines(), announced("Atlas", lambda: plan):
        for _ in range(2):
            with steps("a loop inside", 5):
                clock.now += 30.0
                worked(200.0)
        assert left() == pytest.approx(90.0)  # 600 of 1,000 tokens at 400 a minute
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("levelhead: This takes about 3 min on this machine")
    assert not [line for line in lines if "a loop inside" in line]
    with announced("Atlas", lambda: pytest.fail("a library measures no speed")):
        pass


def test_a_library_is_silent_and_measures_no_speed(capsys: pytest.CaptureFixture[str]) -> None:
    def never() -> Plan:
        raise AssertionError("nobody waits to hear it")

    announce(never)
    with whole("Audit", PLAN, never):
        pass
    assert capsys.readouterr().err == ""
