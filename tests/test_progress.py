"""Progress in logs: a line a stage, a line a minute, and an estimate for slow models."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.progress import Progress

from levelhead import progress
from levelhead.progress import display, plain_lines, steps


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
