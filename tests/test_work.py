"""One bar for the whole of a command: in words, in tokens, with an estimate of the time that is left."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping

import pytest

from levelhead import progress
from levelhead.engine.readings import SentenceVectors
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text
from levelhead.progress import plain_lines, steps
from levelhead.work import Stage, announce, stage, whole, worked
from tests.tiny import tiny

PLAN = {Stage.WORDS: 150_000.0, Stage.NULLS: 400_000.0, Stage.SENTENCES: 250_000.0, Stage.PROMPTS: 90_000.0}


class Clock:
    """Seconds that pass when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def left() -> float:
    """Seconds that the lines say are left."""
    (task,) = progress._display.get()._tasks.values()  # type: ignore[union-attr]
    assert task.left is not None
    return float(task.left)


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
    monkeypatch.setattr("levelhead.work.cores", lambda: 2)
    with plain_lines():
        with whole("Audit", PLAN, lambda: (1440.0, "--quick takes about 6 min")):
            announce(lambda: (900.0, "a part of what was announced"))
        announce(lambda: (20.0, "short work needs no line"))
    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if "This takes" in line]
    assert said == [
        "levelhead: This takes about 24 min on this machine (2 cores); --quick takes about 6 min."
    ]
    assert lines[0] == said[0]


def test_a_library_is_silent_and_measures_no_speed(capsys: pytest.CaptureFixture[str]) -> None:
    def never() -> tuple[float, str]:
        raise AssertionError("nobody waits to hear it")

    announce(never)
    with whole("Audit", PLAN, never):
        pass
    assert capsys.readouterr().err == ""
