"""Workers on one machine or many: the only room that knows Ray.

    driver   cuts a job into batches, puts it into the object store once, takes what they give in their order
    worker   holds the model, opens the job once, runs the batches that it is sent

Who runs which batch changes nothing: batches are cut as if nobody helped, each is run as if it were alone,
and what they give is added up by the driver, in their order. A worker that dies is replaced by Ray, and the
batches that it had are run again.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, TypeVar, cast

import torch

from levelhead.engine.daemons import DaemonWatch, ended_daemon, ended_line
from levelhead.engine.jobs import Order
from levelhead.engine.memory import Parcel
from levelhead.errors import BadOption, CannotDo, LevelheadError
from levelhead.files import scratch_folder
from levelhead.models.checkpoint_files import one_line
from levelhead.models.concurrency import WORKERS
from levelhead.models.placement import Workers

_RETRIES = 5  # workers that may die over one task; if more do, it is the task
_PATIENCE = 300.0  # seconds until a cluster has room for a first worker
_KNOCK = 10.0  # seconds until a cluster's head answers
_TICK = 2.0  # seconds between looks at whether Ray's own processes live
_SOCKET = 107 if sys.platform == "linux" else 103  # bytes of a socket's path, by the kernel
_INNER = len("/ray/session_2026-11-16_11-02-40_236669_1234567/sockets/plasma_store")
_TRAVELING = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # of the environment, to other machines
T = TypeVar("T")
Send = Callable[[Any], Any]  # sends a worker something to do, and gives what Ray knows the answer by


class Crew:
    """Workers who wait for something to do."""

    def __init__(self, workers: Workers) -> None:
        self._workers, self.hands, self._since = workers, list[_Hand](), time.monotonic()
        self.resize(workers.count)

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.hands)

    def resize(self, count: int) -> None:
        """Dismiss workers, or hire some."""
        ray = _ray()
        _check_daemons()
        for hand in self.hands[count:]:
            ray.kill(hand.actor)
        del self.hands[count:]
        self._since = time.monotonic()
        while len(self.hands) < count:
            self.hands.append(_hire(self._workers))

    @contextmanager
    def holding(self, order: Order) -> Iterator[Callable[[int, Any], Any]]:
        """The order in the object store; inside, what sends a batch of it, by its number, to a worker."""
        place, key = [self.share(order)], token_hex(8)
        yield lambda number, actor: actor.parcels.remote(place, key, number)

    def call(self, function: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> Iterator[T]:
        """What a function gives for each of these arguments, in order; each worker has one call at a time."""
        sends = [lambda actor, given=given: actor.call.remote(function, *given) for given in calls]
        return cast(Iterator[T], self.in_order(sends, each=1))

    def share(self, value: T) -> T:
        """A value that many calls are given, to be put among their arguments: it travels once."""
        _check_daemons()
        with _outages():
            return cast(T, _ray().put(value))

    def in_order(self, sends: Sequence[Send], each: int) -> Iterator[Any]:
        """What was sent for, in order, to one thread at a time. each: so many things a worker has at once."""
        with WORKERS.asking():
            if not self.hands:  # another thread has hired workers of another kind meanwhile
                self.resize(self._workers.count)
            yield from self._in_order(sends, each)

    def _in_order(self, sends: Sequence[Send], each: int) -> Iterator[Any]:
        waiting, flying, done = deque(enumerate(sends)), dict[Any, tuple[int, _Hand]](), dict[int, Any]()
        following, window = 0, 2 * each * self.size
        try:
            while following < len(sends):
                while waiting and waiting[0][0] < following + window and (hand := self._free(each)):
                    number, send = waiting.popleft()
                    hand.load += 1
                    flying[send(hand.actor)] = number, hand
                if following in done:
                    yield _accepted(done.pop(following))
                    following += 1
                else:
                    self._await(flying, done)
        finally:
            for _, hand in flying.values():
                hand.load -= 1

    def _free(self, each: int) -> _Hand | None:
        """The worker with least to do, of those who are here and have room."""
        free = [hand for hand in self.hands if hand.is_here and hand.load < each]
        return min(free, key=lambda hand: hand.load, default=None)

    def _await(self, flying: dict[Any, tuple[int, _Hand]], done: dict[int, Any]) -> None:
        """Wait until something arrives: an answer, or a worker."""
        _check_daemons()
        with _outages():
            ray = _ray()
            coming = {hand.hello: hand for hand in self.hands if not hand.is_here}
            (arrived, _) = ray.wait([*flying, *coming], num_returns=1, timeout=_TICK)
            for ref in arrived:
                answer = ray.get(ref)
                if ref in coming:
                    coming[ref].is_here, coming[ref].pid = True, answer
                else:
                    number, hand = flying.pop(ref)
                    hand.load -= 1
                    done[number] = answer
        if not arrived and len(coming) == self.size and time.monotonic() - self._since > _PATIENCE:
            raise CannotDo(_no_room(self._workers))


def _accepted(answer: Any) -> Any:
    """An answer, or the error that came in its place."""
    if isinstance(answer, _Refusal):
        raise answer.error
    return answer


def _no_room(workers: Workers) -> str:
    total = _ray().cluster_resources()
    has = f"{total.get('CPU', 0):g} CPUs and {total.get('GPU', 0):g} GPUs"
    return (
        f"No worker could begin in {_PATIENCE:.0f} s: {workers.count} with {workers.gpus} GPUs each were to; "
        f"the cluster has {has}. Ask for less, or wait until others are done."
    )


# ---- workers


@dataclass(eq=False)
class _Hand:
    """A worker as the driver knows it."""

    actor: Any
    hello: Any  # arrives when the process is there
    is_here: bool = False
    load: int = 0  # things that it was sent and has not answered
    pid: int = 0  # of its first process, once it is there


@dataclass(frozen=True)
class _Refusal:
    """An error of ours in place of an answer."""

    error: LevelheadError


class _Hired:
    """What a worker does. Ray makes a new one where one has died, which then opens the order once more."""

    def __init__(self, threads: int, folder: str) -> None:
        torch.set_num_threads(threads)
        with suppress(OSError):  # paths are the driver's, where its folder is there
            os.chdir(folder)
        self._key = ""
        self._order: Order | None = None

    def hello(self) -> int:
        """The id of this process."""
        return os.getpid()

    def parcels(self, place: list[Any], key: str, number: int) -> list[Parcel] | _Refusal:
        """What a batch gives. The order is fetched and opened once, however many of its batches follow."""
        if self._order is None or key != self._key:
            self._order, self._key = cast(Order, _ray().get(place[0])), key
        return self.call(self._order.parcels, number)

    def call(self, function: Callable[..., T], *given: Any) -> T | _Refusal:
        """What a function gives."""
        try:
            return function(*given)
        except LevelheadError as error:
            return _Refusal(error)


def _hire(workers: Workers) -> _Hand:
    threads = os.environ.get("OMP_NUM_THREADS", "")
    number = int(threads) if threads.isascii() and threads.isdigit() and int(threads) else 1
    traveling = {name: os.environ[name] for name in _TRAVELING if name in os.environ}
    actor = _ray().remote(_Hired)
    options = {
        "num_cpus": 0 if workers.address is None else number,  # here, as many as were asked for have room
        "num_gpus": workers.gpus,
        "max_restarts": -1,
        "max_task_retries": _RETRIES,
        "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(number), **traveling}},
    }
    hired = actor.options(**options).remote(number, os.getcwd())
    return _Hand(hired, hired.hello.remote())


@contextmanager
def _outages() -> Iterator[None]:
    """Errors of Ray as one line each; what went wrong inside a worker's code stays what it is."""
    from ray.exceptions import RayActorError, RayError, RayTaskError

    try:
        yield
    except RayTaskError:
        raise
    except RayError as error:
        _check_daemons()
        if isinstance(error, RayActorError):
            raise CannotDo(
                f"{_RETRIES + 1} workers died over the same piece of work: memory may have run out. Fewer "
                "workers, or a smaller --batch-tokens, would help."
            ) from error
        raise CannotDo(
            f"The Ray cluster is gone ({one_line(error)}). Run the same command again; it goes on."
        ) from error


def _check_daemons() -> None:
    """CannotDo where a process of our own Ray was ended by others; then the rest of it is ended as well.

    Ray itself would wait for a minute and end this process, or blame the workers.
    """
    if name := ended_daemon(_ray()):
        dismiss(_pids())
        raise CannotDo(ended_line(name))


def _pids() -> list[int]:
    """Processes of workers that have begun."""
    return [hand.pid for present in _CREWS.values() for hand in present.hands if hand.pid]


# ---- Ray itself

_CREWS: dict[tuple[int, str | None], Crew] = {}  # by cards of a worker and address: one at a time
_TOKEN = token_hex(32)  # Ray reads it once in a process, also if it is begun again
_SCRATCH = ExitStack()  # what our own Ray writes and who watches it, as long as it runs


def crew(workers: Workers) -> Crew:
    """The crew of this process, as large as is asked for; one of another kind is dismissed first."""
    kind = workers.gpus, workers.address
    with WORKERS.asking():
        if kind not in _CREWS:
            for other in _CREWS.values():
                other.resize(0)
            _CREWS.clear()
            _start(workers)
            _ray()._private.worker._worker_logs_enabled = False  # on standard output, which is for results
            _CREWS[kind] = Crew(workers)
        if _CREWS[kind].size != workers.count:
            _CREWS[kind].resize(workers.count)
        return _CREWS[kind]


def _ray() -> Any:
    import ray  # of the extra `ray`; placement.py refuses workers without it

    return ray


def _start(workers: Workers) -> None:
    """Ray on this machine, or a connection to a cluster; nothing, where this process has one already."""
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if workers.address is not None:
        try:
            if not _ray().is_initialized():
                _check_listening(workers.address)
                _ray().init(address=workers.address, **quiet)
        except Exception as error:  # what Ray raises depends on what listens there
            raise BadOption(
                f"No Ray cluster at {workers.address!r} ({one_line(error)}). Begin one with `ray start "
                "--head`, or leave ray out."
            ) from error
        return
    # our own Ray is closed to others: it listens on this machine only, and to who has this token
    own = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": _TOKEN,
        "RAY_gcs_rpc_server_reconnect_timeout_s": "600",  # until then we notice ourselves that it is gone
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's own 15 is for machines that do something else as well
    }
    with _environment(own):
        if _ray().is_initialized():
            return
        # Ray opens its own folder to everybody (0777), so that it lies in one which only we can enter (0700)
        private = _SCRATCH.enter_context(scratch_folder("lh-ray", _SOCKET - _INNER))
        _SCRATCH.callback(DaemonWatch(_ray(), _end_lost).dismiss)
        atexit.register(dismiss)
        place = str(private / "ray")
        try:
            _ray().init("local", num_cpus=0, include_dashboard=False, _temp_dir=place, **quiet)
        except Exception as error:  # of many kinds
            dismiss()
            raise CannotDo(
                f"Ray cannot begin on this machine ({one_line(error)}). Leave workers out, or try again."
            ) from error


def _check_listening(address: str) -> None:
    """OSError where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.partition(":")
    if port:
        socket.create_connection((host, int(port)), timeout=_KNOCK).close()


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def dismiss(lost: Sequence[int] = ()) -> None:
    """Send all workers away and end Ray, or the connection to its cluster.

    lost: processes here whose Ray was ended by others. They would try for minutes to reach it, and write.
    """
    atexit.unregister(dismiss)
    _CREWS.clear()
    _ray().shutdown()
    _end_lost(lost)


def _end_lost(lost: Sequence[int] | None = None) -> None:
    """End processes, by default those of all workers, and take away what Ray wrote."""
    for pid in _pids() if lost is None else lost:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    _SCRATCH.close()
