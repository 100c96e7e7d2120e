"""What takes longer than a page waits for: jobs with their progress, which give way to questions.

A job asks the model in small portions. Between two of them it lets waiting questions pass, and ends where it
was canceled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from levelhead.errors import LevelheadError
from levelhead.runs.records import Record

Advance = Callable[[int, int], None]  # portions done, of so many
Work = Callable[[Advance], object]
_JOBS = 32  # that are remembered, and that may run at once
_PATIENCE = 5.0  # seconds that a portion waits for questions at most


class Canceled(Exception):
    """A job that nobody wants any more."""


@dataclass(frozen=True)
class Progress(Record):
    """How far a job has come. key: what it computes."""

    key: str
    label: str
    done: int
    total: int
    finished: bool
    line: str  # why it has no result


@dataclass(eq=False)
class _Job:
    progress: Progress
    work: Work
    result: object = None
    canceled: threading.Event = field(default_factory=threading.Event)


class Background:
    """The jobs of a page, each under the name of its kind: a new one of a kind cancels the one before."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._worker = ThreadPoolExecutor(_JOBS, "levelhead explore")  # nobody waits for a job of another
        self._lock = threading.Lock()
        self._asking = 0
        self._quiet = threading.Event()
        self._quiet.set()

    @contextmanager
    def question(self) -> Iterator[None]:
        """While somebody asks a question, jobs wait."""
        with self._lock:
            self._asking += 1
            self._quiet.clear()
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                if not self._asking:
                    self._quiet.set()

    def give_way(self) -> None:
        """Wait while somebody asks a question."""
        self._quiet.wait(_PATIENCE)

    def start(self, kind: str, key: str, label: str, work: Work) -> None:
        """Begin a job; one that runs for the same key goes on."""
        with self._lock:
            before = self._jobs.get(kind)
            if before is not None and before.progress.key == key and not before.progress.line:
                return
            if before is not None:
                before.canceled.set()
            self._jobs.pop(kind, None)
            self._jobs[kind] = job = _Job(Progress(key, label, 0, 1, False, ""), work)
            for oldest in list(self._jobs)[:-_JOBS]:
                self._jobs.pop(oldest).canceled.set()
        self._worker.submit(self._run, job)

    def _run(self, job: _Job) -> None:
        def advance(done: int, total: int) -> None:
            job.progress = replace(job.progress, done=done, total=total)
            if job.canceled.is_set():
                raise Canceled
            self.give_way()

        line = ""
        try:
            advance(0, 1)
            job.result = job.work(advance)
        except Canceled:
            line = "canceled"
        except LevelheadError as error:
            line = str(error)
        finally:
            job.progress = replace(job.progress, finished=True, line=line)

    def progress(self, kind: str) -> Progress | None:
        job = self._jobs.get(kind)
        return None if job is None else job.progress

    def result(self, kind: str) -> Any:
        """What the latest job of a kind gave; None before its end."""
        job = self._jobs.get(kind)
        return None if job is None else job.result

    def close(self) -> None:
        with self._lock:
            for job in self._jobs.values():
                job.canceled.set()
        self._worker.shutdown(wait=False, cancel_futures=True)
