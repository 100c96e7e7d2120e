"""One input: what is done with it, under a clock and a watch, and what came of it."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Literal, get_args

from benchmarks.fuzz.watch import Watch
from levelhead.errors import LevelheadError

Outcome = Literal["accepted", "refused", "traceback", "hang", "foreign write", "socket"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
FINDINGS: tuple[Outcome, ...] = ("traceback", "hang", "foreign write", "socket")
LIMIT = 60  # seconds


class Refused(Exception):
    """The command line ended with the exit code of a mistake."""


class TimeOut(BaseException):
    """An input took longer than LIMIT; no handler of ordinary exceptions may catch it."""


@dataclass(frozen=True)
class Place:
    """The folders of one input: damaged things to read, and where outputs may go."""

    inputs: Path
    outputs: Path


@dataclass(frozen=True)
class Subject:
    """A kind of input. prepare writes a damaged one and returns what reads it."""

    name: str
    share: int  # how many of all inputs are of this kind, in parts of the sum of shares
    prepare: Callable[[Random, Place], Callable[[], object]]


@dataclass(frozen=True)
class Trial:
    """What came of one input."""

    subject: str
    seed: int
    outcome: Outcome
    details: str = ""  # the traceback, or what was written


def run_trial(subject: Subject, seed: int, place: Place, watch: Watch) -> Trial:
    """Prepare one input and let it be read."""
    use = subject.prepare(Random(f"{subject.name} {seed}"), place)
    before = _stamps(place.inputs)
    previous = signal.signal(signal.SIGALRM, _ring)
    signal.alarm(LIMIT)
    outcome: Outcome = "accepted"
    details = ""
    try:
        with watch.over(place.outputs):
            use()
    except (LevelheadError, Refused):
        outcome = "refused"
    except TimeOut:
        outcome, details = "hang", _shown()
    except KeyboardInterrupt:
        raise
    except BaseException:  # also the panics of libraries in Rust, which are no Exception
        outcome, details = "traceback", _shown()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    after = _stamps(place.inputs)
    touched = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    if (writes := [*watch.writes, *touched]) and outcome not in ("traceback", "hang"):
        outcome, details = "foreign write", ", ".join(writes)
    elif watch.sockets and outcome not in ("traceback", "hang"):
        outcome, details = "socket", ", ".join(watch.sockets)
    return Trial(subject.name, seed, outcome, details)


def _shown() -> str:
    """The last calls of the traceback, long values cut."""
    return "\n".join(line[:300] for line in traceback.format_exc(limit=-6).splitlines())


def _ring(_: int, __: FrameType | None) -> None:
    raise TimeOut


def _stamps(folder: Path) -> dict[str, tuple[int, int] | None]:
    return {str(path): _stamp(path) for path in folder.rglob("*") if not path.is_dir()}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns
