"""Progress on stderr: bars on a terminal, plain lines where commands ask for them, else nothing.

Plain lines are for logs: one for each stage when it begins, and one a minute with the time that is left.

A long command is one plan (`whole`): stages in words, how much work each is, and one bar for all of it. Work
is counted in tokens that pass through all blocks of a model once, which the engine reports (`worked`). What a
stage was planned to need and did not is no longer part of the whole, and what it needs beyond that is added:
the time that is left is the work that is left at the speed so far.
"""

from __future__ import annotations

import gc
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, islice
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from levelhead.escaping import escaped

BACK = 1.5  # passes forward that one pass back takes
_WHOLE = 7 * 86_400.0  # seconds that a bar's speed is taken over; a slow model's batch exceeds rich's 30
_MINUTE = 60.0  # seconds between plain lines
_LONG = 60.0  # seconds from which on work is long, so that it is announced
_EVERY = 1000  # items between two updates: each costs more than reading a line
LETTERS = 4.6  # of a token
_T = TypeVar("_T")

_display: ContextVar[Progress | None] = ContextVar("levelhead_progress", default=None)
_alone: ContextVar[bool] = ContextVar("levelhead_one_bar", default=False)
_plain: ContextVar[bool] = ContextVar("levelhead_plain_progress", default=False)
_planning: ContextVar[bool] = ContextVar("levelhead_planning", default=False)
_drawing = threading.Lock()  # bars of two threads would draw over each other: one has some, the others none


@contextmanager
def plain_lines() -> Iterator[None]:
    """Inside, progress is printed as plain lines where stderr is no terminal: commands do, a library is
    silent."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


@contextmanager
def display() -> Iterator[Progress]:
    """A display that all steps inside share; the outermost one wins."""
    shared = _display.get()
    if shared is not None:
        yield shared
        return
    console = Console(stderr=True)
    shown: Progress
    with ExitStack() as stack:
        if _plain.get() and not console.is_terminal:
            # a line whenever a stage begins, and one a minute: a slow batch must not seem dead
            shown = lines = _Lines()
            ended = threading.Event()

            def remind() -> None:
                while not ended.wait(_MINUTE):
                    lines.tell()

            reminder = threading.Thread(target=remind, name="levelhead progress", daemon=True)
            reminder.start()
            stack.callback(reminder.join)
            stack.callback(ended.set)
        else:
            drawn = console.is_terminal and _drawing.acquire(blocking=False)
            if drawn:
                stack.callback(_drawing.release)
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            shown = stack.enter_context(
                Progress(
                    *columns, console=console, transient=True, disable=not drawn, speed_estimate_period=_WHOLE
                )
            )
        token = _display.set(shown)
        stack.callback(_display.reset, token)
        yield shown


class _Lines(Progress):
    """Tasks under way, the outermost first, told in plain lines; rich draws nothing of them."""

    def __init__(self) -> None:
        super().__init__(disable=True, get_time=time.monotonic)
        self._named: set[str] = set()
        self._began = time.monotonic()

    def add_task(self, description: str, *args: Any, **fields: Any) -> TaskID:
        """Begin a loop; its first time is a stage, which has a line."""
        with self._lock:
            task = super().add_task(description, *args, **fields)
            new = description not in self._named
            self._named.add(description)
        if new:
            self.tell()
        return task

    def tell(self) -> None:
        """One line: every loop under way, how long it took so far, and how long the outermost will take."""
        tasks = self.tasks
        if not tasks:
            return
        named = ", ".join(f"{each.description} {each.completed:,.0f} of {each.total:,.0f}" for each in tasks)
        left = next((seconds for each in tasks if (seconds := seconds_left(each)) is not None), None)
        so_far = duration(time.monotonic() - self._began)
        rest = "" if left is None else f", about {duration(left)} left"
        print(f"levelhead: {named}; {so_far} so far{rest}", file=sys.stderr, flush=True)


def seconds_left(task: Task) -> float | None:
    """Seconds until a loop is done, at the speed so far; None before its first step."""
    if not task.completed:
        return None
    return max(0.0, (task.elapsed or 0.0) * ((task.total or 0.0) - task.completed) / task.completed)


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, as people say them."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def say(line: str) -> None:
    """One line on stderr, above the bars where there are some."""
    line = escaped(line)
    shown = _display.get()
    if shown is not None and not shown.disable:
        shown.console.print(f"levelhead: {line}", markup=False, highlight=False, soft_wrap=True)
    else:
        print(f"levelhead: {line}", file=sys.stderr, flush=True)


# ---- loops


@contextmanager
def steps(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far a loop has come: call what you get with the number of steps just done.

    Inside a whole no steps are shown: that has one bar.
    """
    if _alone.get():
        yield lambda done: None
        return
    with display() as progress:
        task = progress.add_task(label, total=total)
        try:
            yield lambda done: progress.update(task, advance=done)
        finally:
            progress.remove_task(task)


def counted(
    items: Iterable[_T], label: str, total: int, size: Callable[[_T], int] = lambda _: 1
) -> Iterator[_T]:
    """The items one by one, and how far they have come; size: what an item counts of the total.

    Few items are there before anybody could read how many there are: nothing is shown of them.
    """
    left, done = iter(items), 0
    for item in islice(left, _EVERY):
        yield item
        done += size(item)
    for following in islice(left, 1):
        with steps(label, total) as advance:
            advance(done)
            done = 0
            for number, item in enumerate(chain([following], left), start=1):
                yield item
                done += size(item)
                if number % _EVERY == 0:
                    advance(done)
                    done = 0


# ---- a long command as one plan


class Stage(StrEnum):
    """What is evaluated, in words."""

    LOOK = "a first look"
    WORDS = "how close words lie to each other"
    NULLS = "the same in null models"
    HEADS = "which heads carry it"
    ATTENTION = "where heads look"
    BLANKS = "how blanks are filled in"
    SENTENCES = "which next sentence is likelier"
    INFERENCES = "what is concluded about people"
    TEXT = "how well text is predicted"
    OWN = "measures of your own"
    PROMPTS = "who does which job"
    WRITING = "what the model writes"
    CERTIFIED = "which mitigation is certified"
    VERIFIED = "what the recommended one changes"
    LEARNING = "what can still be learned"
    ALL = ""  # of a command of one kind of work


def tokens_in(texts: Iterable[str]) -> float:
    """How many tokens texts have, about: a token has 4.6 letters, and a text three more tokens."""
    return sum(len(text) / LETTERS + 3 for text in texts)


@dataclass(frozen=True)
class Plan:
    """What a command takes: of a model on this machine, or of one behind a server."""

    tokens: float = 0.0  # through all blocks, a way back as BACK
    passes: float = 0.0  # batches through all blocks
    seconds: float = 0.0
    memory: int | None = None  # MiB at its peak; None: not measured
    shorter: str = ""  # which option makes it shorter
    requests: int = 0  # to servers, at most
    read: float = 0.0  # tokens that servers read
    written: float = 0.0  # tokens that servers write, at most

    def __add__(self, other: Plan) -> Plan:
        """Both, one after the other."""
        peaks = [each.memory for each in (self, other) if each.memory is not None]
        return Plan(
            self.tokens + other.tokens,
            self.passes + other.passes,
            self.seconds + other.seconds,
            max(peaks, default=None),
            self.shorter or other.shorter,
            self.requests + other.requests,
            self.read + other.read,
            self.written + other.written,
        )

    def times(self, factor: float) -> Plan:
        """The same work so many times."""
        more = {
            name: getattr(self, name) * factor for name in ("tokens", "passes", "seconds", "read", "written")
        }
        return replace(self, **more, requests=math.ceil(self.requests * factor))

    def price(self, read: float, written: float) -> float:
        """What servers take for it. read, written: of a million tokens."""
        return (read * self.read + written * self.written) / 1e6


class Planned(BaseException):
    """The way out of a command that was only to be planned; it is no error, so nothing handles it as one."""

    def __init__(self, plan: Plan) -> None:
        super().__init__("planned")
        self.plan = plan


def planned(command: Callable[[], object]) -> Plan:
    """What a command takes: it runs as far as that is known, and ends there."""
    token = _planning.set(True)
    try:
        command()
    except Planned as found:
        return found.plan
    finally:
        _planning.reset(token)
    return Plan()


def planning() -> bool:
    """Whether a command is only planned, so that nothing may be sent or written."""
    return _planning.get()


def plan_ends(takes: Callable[[], Plan]) -> None:
    """End here where a command is only planned."""
    if _planning.get():
        raise Planned(takes())


def cores() -> int:
    """How many cores this process may use."""
    own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return len(own) or os.cpu_count() or 1


def announce(takes: Callable[[], Plan]) -> None:
    """Say before long work how long it takes, and which option makes it shorter; what is only planned ends.

    takes: called where somebody waits to hear it.
    """
    plan_ends(takes)
    # A library is silent, and so is a part of something that was announced.
    if not _plain.get() or _whole.get() is not None:
        return
    plan = takes()
    if plan.requests:
        say(f"At most {plan.requests:,} requests{f'; {plan.shorter}' if plan.shorter else ''}.")
    elif plan.seconds >= _LONG:
        rest = f"; {plan.shorter}" if plan.shorter else ""
        say(f"This takes about {duration(plan.seconds)} on this machine ({cores()} cores){rest}.")


def announce_line(line: str) -> None:
    """Say something before work begins, where a command waits for it."""
    if _plain.get() and _whole.get() is None:
        say(line)


class _Whole:
    """The plan of a command, and how far it has come."""

    def __init__(self, name: str, plan: Mapping[Stage, float], shown: Progress) -> None:
        self._name, self._plan, self._shown = name, dict(plan), shown
        self._total = sum(plan.values())
        self._task = shown.add_task(name, total=self._total)
        self._stages: list[Stage] = []  # under way, the outermost first
        self._done = self._expected = 0.0  # of the outermost

    def worked(self, tokens: float) -> None:
        """Count work that was done."""
        self._done += tokens
        self._total += max(0.0, min(tokens, self._done - self._expected))  # what was not planned
        self._shown.update(self._task, advance=tokens, total=self._total)

    def replan(self, name: Stage, tokens: Callable[[], float]) -> None:
        """Plan another amount of work for the stage under way, from its beginning, if it is this one."""
        if self._stages and self._stages[0] == name:
            before, self._expected = self._expected, tokens()
            self._total += max(self._expected, self._done) - max(before, self._done)
            self._shown.update(self._task, total=self._total)

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        """A stage; one inside another is a part of that."""
        if not self._stages:
            self._done, self._expected = 0.0, self._plan.pop(name, 0.0)
        self._stages.append(name)
        self._tell()
        try:
            yield
        finally:
            self._stages.pop()
            if self._stages:
                self._tell()
            else:
                self._total -= max(0.0, self._expected - self._done)
                self._done = self._expected = 0.0
                self._shown.update(self._task, total=self._total)

    def _tell(self) -> None:
        now = ": ".join(filter(None, dict.fromkeys(self._stages)))
        stated = f"{self._name} (now: {now})" if now else self._name
        self._shown.update(self._task, description=f"{stated}, tokens")
        if isinstance(self._shown, _Lines):  # a loop that goes on under another name is a new stage
            self._shown.tell()


_whole: ContextVar[_Whole | None] = ContextVar("levelhead_whole", default=None)
_counting: ContextVar[list[float] | None] = ContextVar("levelhead_counting", default=None)


@contextmanager
def whole(name: str, plan: Mapping[Stage, float], takes: Callable[[], Plan] | None = None) -> Iterator[None]:
    """Inside, one bar shows how much of the plan is done, and no other is shown; the outermost one wins.

    takes: what the plan is on this machine, said before it begins.
    """
    if _whole.get() is not None:
        yield
        return
    if takes is not None:
        announce(takes)
    with display() as shown:
        alone = _alone.set(True)
        # Python's search for garbage leaves out what is there already: half a million objects of torch and
        # transformers, which it would go through again and again.
        gc.freeze()
        token = _whole.set(_Whole(name, plan, shown))
        try:
            yield
        finally:
            _whole.reset(token)
            gc.unfreeze()
            _alone.reset(alone)


@contextmanager
def announced(
    name: str, takes: Callable[[], Plan], work: Callable[[], Mapping[Stage, float]] | None = None
) -> Iterator[None]:
    """Announce a command, and show inside how much of its plan is done, where a command waits for it.

    work: stage by stage; None: it is of one kind.
    """
    plan_ends(takes)
    if not _plain.get() or _whole.get() is not None:
        yield
        return
    plan = takes()
    if work is not None:
        with whole(name, work(), lambda: plan):
            yield
        return
    with whole(name, {Stage.ALL: plan.tokens}, lambda: plan), stage(Stage.ALL):
        yield


def replan(name: Stage, tokens: Callable[[], float]) -> None:
    """How much work the stage under way is, now that more is known; nothing where it is a part of another."""
    if (current := _whole.get()) is not None:
        current.replan(name, tokens)


def stage(name: Stage) -> AbstractContextManager[None]:
    """A stage of the whole, if there is one."""
    current = _whole.get()
    return nullcontext() if current is None else current.stage(name)


@contextmanager
def counted_work() -> Iterator[list[float]]:
    """Inside, work is counted in what comes back, one number after the other, and in no bar."""
    done: list[float] = []
    token, alone = _counting.set(done), _alone.set(True)
    try:
        yield done
    finally:
        _counting.reset(token)
        _alone.reset(alone)


def worked(tokens: float) -> None:
    """So many tokens have passed through all blocks of a model."""
    if (counting := _counting.get()) is not None:
        counting.append(tokens)
        return
    if (current := _whole.get()) is not None:
        current.worked(tokens)
