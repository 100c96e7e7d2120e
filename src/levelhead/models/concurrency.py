"""One network answers one question at a time, whoever asks: threads, tasks, two models over one network.

Edits and null models are hooks on a live network, so two callers at once would read each other's. Each
network has one lock, which is taken by

    asking(network)     a question of the engine's, which ends by itself: others wait for it
    holding(network)    a `with` of the caller's, which ends when the caller likes: others wait while
                        something is asked inside it, and for PATIENCE seconds beyond that

Locks belong to an *asker*: a thread, the asyncio task that runs in it, and its context (contextvars). Calls
that a server's pool runs in one thread, one after the other, differ in their contexts. An asker may take its
locks again. Where waiting could not end, the question is refused with Busy, in one line:

    the holder is another task of the same thread, or has itself started the thread or task that asks
    two askers wait for each other's networks
    the holder has asked nothing for PATIENCE seconds

A lock is given back by whoever leaves the `with`, also in another thread. Locks are kept beside the networks,
not in them, so that networks can be copied and pickled.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self, cast
from weakref import WeakKeyDictionary

from torch import nn

from levelhead.errors import Busy

PATIENCE = 60.0  # seconds that a `with` may be open without a question while others wait for it
# fast tokenizers keep how they cut and pad in themselves, and refuse to be changed while they work; several
# networks may share one. Nothing else is waited for inside.
TOKENIZING = threading.RLock()
_MUTEX = threading.RLock()  # of all that is written below; garbage collection may leave a `with` inside it


@dataclass(eq=False)
class _Asker:
    """Who asks: a thread, a task, a context. parent: the asker inside whose `with` this one was started."""

    thread: threading.Thread
    task: asyncio.Task[Any] | None
    parent: _Asker | None
    turns: list[Turn] = field(default_factory=list)  # that it has now
    active: float = 0.0  # when it last took or gave back a lock
    waits: bool = False

    def comes_from(self, other: _Asker) -> bool:
        """Whether it was started inside the other's `with`."""
        return self.parent is not None and (self.parent is other or self.parent.comes_from(other))

    def idle(self) -> float | None:
        """Seconds since something was asked; None while it asks, or waits for another network."""
        busy = self.waits or any(turn.ends_by_itself for turn in self.turns)
        return None if busy else time.monotonic() - self.active

    def __str__(self) -> str:
        task = "" if self.task is None else f"task {self.task.get_name()!r} of "
        return f"{task}thread {self.thread.name!r}"


_ASKER: ContextVar[_Asker | None] = ContextVar("levelhead_asker", default=None)
_WAITING: dict[threading.Thread, Lock] = {}  # a thread waits for one lock at a time


def _asker() -> _Asker:
    """Who asks now."""
    known, thread = _ASKER.get(), threading.current_thread()
    task = None if asyncio._get_running_loop() is None else asyncio.current_task()
    if known is not None and known.thread is thread and known.task is task:
        return known
    asker = _Asker(thread, task, known if known is not None and known.turns else None)
    _ASKER.set(asker)
    return asker


class Lock:
    """A lock that its asker may take again, given to others in the order of their coming."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.turns: list[Turn] = []  # the last one decides who may take it again
        self._queue: deque[_Asker] = deque()
        self._given_back = threading.Condition(_MUTEX)

    def asking(self) -> Turn:
        """The lock for a question, which ends by itself."""
        return Turn(self, ends_by_itself=True)

    def holding(self) -> Turn:
        """The lock for a `with` of the caller's."""
        return Turn(self, ends_by_itself=False)

    def take(self, turn: Turn) -> None:
        """Wait for the lock, or refuse."""
        asker = turn.asker
        with _MUTEX:
            if not self._is_open_to(asker):
                self._wait(asker)
            asker.active = time.monotonic()
            asker.turns.append(turn)
            self.turns.append(turn)

    def give_back(self, turn: Turn) -> None:
        """Let the next one have it; nothing happens where the turn did not have it."""
        with _MUTEX:
            for turns in (self.turns, turn.asker.turns):
                if turn in turns:
                    turns.remove(turn)
            turn.asker.active = time.monotonic()
            if self._queue:
                self._given_back.notify_all()

    def _is_open_to(self, asker: _Asker) -> bool:
        if not self.turns:
            return not self._queue or self._queue[0] is asker
        holder = self.turns[-1].asker
        # a loop that was started inside a `with` of plain code, which goes on when the loop has ended
        below = holder.task is None and holder.thread is asker.thread and asker.comes_from(holder)
        return holder is asker or below

    def _wait(self, asker: _Asker) -> None:
        self._queue.append(asker)
        _WAITING[asker.thread], asker.waits = self, True
        try:
            while not self._is_open_to(asker):
                self._given_back.wait(self._patience(asker))
        finally:
            self._queue.remove(asker)
            _WAITING.pop(asker.thread, None)
            asker.waits = False
            self._given_back.notify_all()  # the next in the queue, if this one was refused

    def _patience(self, asker: _Asker) -> float:
        """Seconds to wait before looking again; Busy where waiting could not end."""
        if not self.turns:
            return PATIENCE
        holder = self.turns[-1].asker
        held = f"{self.name} is held by a `with` in {holder}"
        if asker.comes_from(holder) or (holder.thread is asker.thread and holder.task is not None):
            raise Busy(f"{held}, which would never end if {asker} waited for it. Ask in the same task.")
        if self._waits_for(holder.thread, asker.thread):
            raise Busy(f"{held}, which waits for a model that {asker} holds. Hold one model at a time.")
        idle = holder.idle()
        if idle is not None and idle >= PATIENCE:
            raise Busy(f"{held}, where nothing was asked for {idle:.0f} s. Leave that `with` first.")
        return PATIENCE if idle is None else PATIENCE - idle

    @staticmethod
    def _waits_for(one: threading.Thread, other: threading.Thread) -> bool:
        """Whether a thread waits for another, directly or through others that wait."""
        seen = set[threading.Thread]()
        while one is not other:
            lock = _WAITING.get(one)
            if lock is None or not lock.turns or one in seen:
                return False
            seen.add(one)
            one = lock.turns[-1].asker.thread
        return bool(seen)  # a thread that waits in itself, in another context, waits for nobody else


class Turn:
    """One `with` on a lock."""

    __slots__ = ("_lock", "asker", "ends_by_itself")

    def __init__(self, lock: Lock, *, ends_by_itself: bool) -> None:
        self._lock, self.ends_by_itself = lock, ends_by_itself
        self.asker: _Asker

    def __enter__(self) -> Self:
        self.asker = _asker()
        try:
            self._lock.take(self)
        except BaseException:  # Ctrl-C just after it was taken
            self._lock.give_back(self)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.give_back(self)


# ---- what has a lock

_LOCKS: WeakKeyDictionary[nn.Module, Lock] = WeakKeyDictionary()
# loading, new heads and training use random numbers and a default dtype of the whole process
MAKING = Lock("The making of networks in this process")
WORKERS = Lock("The crew of workers")


def lock_of(network: nn.Module) -> Lock:
    """The lock of a network; heads over one base model, which carries the hooks, share it."""
    base = cast(nn.Module, getattr(network, "base_model", network))
    with _MUTEX:
        lock = _LOCKS.get(base)
        if lock is None:
            lock = _LOCKS[base] = Lock(f"The network ({type(network).__name__})")
        return lock


def asking(network: nn.Module) -> Turn:
    """`with asking(network): ...`: nobody else asks or changes the network inside."""
    return lock_of(network).asking()


def holding(network: nn.Module) -> Turn:
    """As `asking`, for a `with` whose end is up to the caller."""
    return lock_of(network).holding()


# ---- settings of the process


class Together:
    """A setting of the whole process that several threads want at once: the first to come changes it, and the
    last to go puts back what was there.

    change: makes the change, and gives what undoes it.
    """

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change, self._inside = change, 0
        self._undo: Callable[[], None] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The setting as it is wanted."""
        with _MUTEX:
            if self._inside == 0:
                self._undo = self._change()
            self._inside += 1
        try:
            yield
        finally:
            with _MUTEX:
                self._inside -= 1
                if self._inside == 0 and self._undo is not None:
                    self._undo()


def _after_fork() -> None:
    """Another thread of the parent, which is not in the child, may have been inside."""
    for mutex in (TOKENIZING, _MUTEX):
        cast(Any, mutex)._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
