"""One network answers one question at a time, whoever asks: threads, tasks, two models over one network.

Edits and null models are hooks on a live network, so two callers at once would read each other's. Each
network has one lock, which is taken by

    asking(network)     a question of the engine's, which ends by itself: others wait for it
    holding(network)    a `with` of the caller's, which ends when the caller likes: others wait while
                        something is run inside it, and for PATIENCE seconds beyond that

Locks belong to an *asker*: a thread, the asyncio task that runs in it, and its context (contextvars). Calls
that a server's pool runs in one thread, one after the other, differ in their contexts. An asker may take its
locks again. Where waiting could not end, the question is refused with Busy, in one line:

    the holder is another task of the same thread, or has itself started the thread or task that asks
    two askers wait for each other's networks
    the holder has run nothing for PATIENCE seconds

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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar, cast
from weakref import WeakKeyDictionary

from torch import nn

from levelhead.errors import Busy

T = TypeVar("T")
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
    holds: list[Hold] = field(default_factory=list)  # that it has now
    active: float = 0.0  # when it last took or gave back a lock
    waits: bool = False

    def comes_from(self, other: _Asker) -> bool:
        """Whether it was started inside the other's `with`."""
        return self.parent is not None and (self.parent is other or self.parent.comes_from(other))

    def __str__(self) -> str:
        task = "" if self.task is None else f"task {self.task.get_name()!r} of "
        return f"{task}thread {self.thread.name!r}"


_ASKER: ContextVar[_Asker | None] = ContextVar("levelhead_asker", default=None)
_WAITING: dict[threading.Thread, Lock] = {}  # a thread waits for one lock at a time


@dataclass(eq=False)
class Lock:
    """A lock that its asker may take again, given to others in the order of their coming."""

    name: str
    holds: list[Hold] = field(default_factory=list)  # the last one decides who may take it again
    _queue: deque[_Asker] = field(default_factory=deque)
    given_back: threading.Condition = field(default_factory=lambda: threading.Condition(_MUTEX))

    def asking(self) -> Hold:
        """The lock for a question, which ends by itself."""
        return Hold(self, ends_by_itself=True)

    def is_open_to(self, asker: _Asker) -> bool:
        """Whether an asker need not wait."""
        if not self.holds:
            return not self._queue or self._queue[0] is asker
        holder = self.holds[-1].asker
        # a loop that was started inside a `with` of plain code, which goes on when the loop has ended
        below = holder.task is None and holder.thread is asker.thread and asker.comes_from(holder)
        return holder is asker or below

    def wait(self, asker: _Asker) -> None:
        """Wait until the lock is open to an asker, or refuse."""
        self._queue.append(asker)
        _WAITING[asker.thread], asker.waits = self, True
        try:
            while not self.is_open_to(asker):
                if not self.holds:
                    self.given_back.wait(PATIENCE)
                    continue
                holder = self.holds[-1].asker
                held = f"{self.name} is held by a `with` in {holder}"
                if asker.comes_from(holder) or (holder.thread is asker.thread and holder.task is not None):
                    raise Busy(
                        f"{held}, which would never end if {asker} waited for it. Ask in the same task."
                    )
                # does the holder's thread wait for the asker's, directly or through others that wait?
                thread, seen = holder.thread, set[threading.Thread]()
                while thread is not asker.thread:
                    lock = _WAITING.get(thread)
                    if lock is None or not lock.holds or thread in seen:
                        break
                    seen.add(thread)
                    thread = lock.holds[-1].asker.thread
                # a thread that waits in itself, in another context, waits for nobody else
                if thread is asker.thread and seen:
                    raise Busy(
                        f"{held}, which waits for a model that {asker} holds. Hold one model at a time."
                    )
                runs = holder.waits or any(hold.ends_by_itself for hold in holder.holds)
                idle = 0.0 if runs else time.monotonic() - holder.active
                if idle >= PATIENCE:
                    raise Busy(f"{held}, where nothing was asked for {idle:.0f} s. Leave that `with` first.")
                self.given_back.wait(PATIENCE - idle)
        finally:
            self._queue.remove(asker)
            _WAITING.pop(asker.thread, None)
            asker.waits = False
            self.given_back.notify_all()  # the next in the queue, if this one was refused


@dataclass(eq=False)
class Hold:
    """One `with` on a lock; ends_by_itself: a question, and not a `with` of the caller's."""

    lock: Lock
    ends_by_itself: bool
    asker: _Asker = field(init=False)

    def __enter__(self) -> Self:
        thread = threading.current_thread()
        task = None if asyncio._get_running_loop() is None else asyncio.current_task()
        known = _ASKER.get()
        if known is None or known.thread is not thread or known.task is not task:
            known = _Asker(thread, task, known if known is not None and known.holds else None)
            _ASKER.set(known)
        self.asker = known
        try:
            with _MUTEX:
                if not self.lock.is_open_to(known):
                    self.lock.wait(known)
                known.active = time.monotonic()
                known.holds.append(self)
                self.lock.holds.append(self)
        except BaseException:  # Ctrl-C just after it was taken
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Let the next one have the lock; nothing happens where this hold did not have it."""
        with _MUTEX:
            for holds in (self.lock.holds, self.asker.holds):
                if self in holds:
                    holds.remove(self)
            self.asker.active = time.monotonic()
            self.lock.given_back.notify_all()


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


def asking(network: nn.Module) -> Hold:
    """`with asking(network): ...`: nobody else asks or changes the network inside."""
    return lock_of(network).asking()


def holding(network: nn.Module) -> Hold:
    """As `asking`, for a `with` whose end is up to the caller."""
    return Hold(lock_of(network), ends_by_itself=False)


# ---- work in other threads


def in_background(work: Callable[[], T]) -> Future[T]:
    """Begin with work that runs no model, in a thread of its own: hashes and statistics wait for no card.

    What it needs of the model must be there: models are run by one thread at a time.
    """
    thread = ThreadPoolExecutor(1, "levelhead background")
    begun = thread.submit(work)
    thread.shutdown(wait=False)
    return begun


# ---- settings of the process


@dataclass(eq=False)
class Together:
    """A setting of the whole process that several threads want at once: the first to come changes it, and the
    last to go puts back what was there. Decorates a context manager."""

    _changed: Callable[[], AbstractContextManager[None]]
    _inside: int = 0
    _undo: ExitStack = field(default_factory=ExitStack)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The setting as it is wanted."""
        with _MUTEX:
            if self._inside == 0:
                self._undo.enter_context(self._changed())
            self._inside += 1
        try:
            yield
        finally:
            with _MUTEX:
                self._inside -= 1
                if self._inside == 0:
                    self._undo.close()


if hasattr(os, "register_at_fork"):
    # another thread of the parent, which is not in the child, may have been inside
    for _mutex in (TOKENIZING, _MUTEX):
        os.register_at_fork(after_in_child=cast(Any, _mutex)._at_fork_reinit)
