"""A long command as one plan: stages in words, how much work each is, and one bar for the whole.

Work is counted in tokens that pass through all blocks of a model once: the engine says how many it has run
(`worked`), whoever is asking and for what. A pass back through the blocks counts as one and a half. What a
stage was planned to need and did not is no longer part of the whole, and what it needs beyond that is added,
so that the time that is left is the work that is left at the speed so far.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum

from levelhead.progress import Display, alone, display, duration, say, told_in_lines

BACK = 1.5  # passes forward that one pass back takes
_LETTERS = 4.6  # of a token
_NOW = "{} (now: {}), tokens"


class Stage(StrEnum):
    """What is asked, in words."""

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
    CHANGES = "which changes help"
    VERIFIED = "what the changes buy and cost"
    PROMPTS = "who does which job"
    CERTIFIED = "which change is certified"
    LEARNING = "what can still be learned"


def tokens_in(texts: Iterable[str]) -> float:
    """How many tokens texts have, about: a token has 4.6 letters, and a text three more tokens."""
    return sum(len(text) / _LETTERS + 3 for text in texts)


_LONG = 60.0  # seconds from which on work is long


def announces() -> bool:
    """Whether a command waits to hear how long it will take: a library is silent, and so is a part of
    something that was announced."""
    return told_in_lines() and _whole.get() is None


def announce(takes: Callable[[], tuple[float, str]]) -> None:
    """Say before long work how long it takes, and which option makes it shorter.

    takes: seconds, and what is shorter; it is called where a command waits to hear it.
    """
    if not announces():
        return
    seconds, shorter = takes()
    if seconds >= _LONG:
        rest = f"; {shorter}" if shorter else ""
        say(f"This takes about {duration(seconds)} on this machine ({cores()} cores){rest}.")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def announce_line(line: str) -> None:
    """Say something before work begins, where a command waits for it."""
    if announces():
        say(line)


class _Whole:
    """The plan of a command, and how far it has come."""

    def __init__(self, name: str, plan: Mapping[Stage, float], shown: Display) -> None:
        self._name, self._plan, self._shown = name, dict(plan), shown
        self._total = sum(plan.values())
        self._task = shown.add_task(name, total=self._total)
        self._stages: list[Stage] = []  # under way, the outermost first
        self._done = self._expected = 0.0  # of the outermost

    def worked(self, tokens: float) -> None:
        """Count work that was done."""
        self._done += tokens
        self._total += max(0.0, min(tokens, self._done - self._expected))
        self._shown.update(self._task, advance=tokens, total=self._total)

    def begin(self, stage: Stage) -> None:
        """Begin a stage; one inside another is a part of that."""
        if not self._stages:
            self._done, self._expected = 0.0, self._plan.pop(stage, 0.0)
        self._stages.append(stage)
        self._tell()

    def end(self) -> None:
        """End the last stage that has begun."""
        self._stages.pop()
        if self._stages:
            self._tell()
            return
        self._total -= max(0.0, self._expected - self._done)
        self._done = self._expected = 0.0
        self._shown.update(self._task, advance=0, total=self._total)

    def _tell(self) -> None:
        now = ": ".join(dict.fromkeys(self._stages))
        self._shown.update(self._task, advance=0, description=_NOW.format(self._name, now))


_whole: ContextVar[_Whole | None] = ContextVar("levelhead_whole", default=None)


@contextmanager
def whole(
    name: str, plan: Mapping[Stage, float], takes: Callable[[], tuple[float, str]] | None = None
) -> Iterator[None]:
    """Inside, one bar shows how much of the plan is done, and no other is shown; the outermost one wins.

    takes: seconds of the plan on this machine, and which option makes it shorter: said before it begins.
    """
    if _whole.get() is not None:
        yield
        return
    if takes is not None:
        announce(takes)
    with display() as shown, alone(), _not_looked_through():
        token = _whole.set(_Whole(name, plan, shown))
        try:
            yield
        finally:
            _whole.reset(token)


@contextmanager
def _not_looked_through() -> Iterator[None]:
    """Inside, Python's search for garbage leaves out what is there already: half a million objects of torch
    and transformers, which it would go through again and again."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def stage(name: Stage) -> Iterator[None]:
    """A stage of the whole, if there is one."""
    current = _whole.get()
    if current is None:
        yield
        return
    current.begin(name)
    try:
        yield
    finally:
        current.end()


def worked(tokens: float) -> None:
    """So many tokens have passed through all blocks of a model."""
    if (current := _whole.get()) is not None:
        current.worked(tokens)
