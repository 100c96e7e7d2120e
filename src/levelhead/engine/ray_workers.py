"""Workers on one machine or many: the only module that knows Ray.

    driver   cuts a job into batches, puts it into the object store once, takes what they give in their order
    worker   holds the model, opens the job once, runs the batches that it is sent

Who runs which batch changes nothing: batches are cut as without workers, and what they give is added up by
the driver, in their order. A worker that dies is replaced by Ray, and its batches are run again; what a
worker has whose machine left or stalls, another one is sent as well.

On a cluster all machines are compared with this one before any work (machines.py), and all workers load the
model before one of them begins; a machine that does not see its files is sent them (shipping.py).

Ray's calls wait for minutes for a process of Ray's own that is gone, and then end the program without a word.
So the driver checks before it calls; and where a call is waiting already, a thread beside it says the line
and ends the program. Nothing is lost by that: the same command goes on.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar, cast

import torch

from levelhead.engine import machines
from levelhead.engine.jobs import Order
from levelhead.engine.memory import Parcel
from levelhead.engine.shipping import Shipment
from levelhead.errors import BadOption, CannotDo, LevelheadError
from levelhead.models.cache import MOST
from levelhead.models.checkpoint_files import Trust, one_line
from levelhead.models.concurrency import WORKERS
from levelhead.models.placement import Workers
from levelhead.safe_files import scratch_folder

_RETRIES = 5  # workers that may die over one task; if more do, it is the task
_PATIENCE = 300.0  # seconds until a cluster has room for a first worker
_KNOCK = 10.0  # seconds until a cluster's head answers
_TICK = 2.0  # seconds between checks of whether Ray's own processes live
_GRACE = 60.0  # seconds in which the driver may find out by itself that one does not
_DAEMONS = ("gcs_server", "raylet")  # without either nothing goes on
_SOCKET = 107 if sys.platform == "linux" else 103  # bytes of a socket's path, by the kernel
_INNER = len("/ray/session_2026-11-16_11-02-40_236669_1234567/sockets/plasma_store")
_JOIN = 60.0  # seconds in which all workers of a cluster should have a model that one of them has
_SILENCE = 10.0  # seconds of a call after which Ray is asked whether its worker is there
_LATE = (60.0, 4)  # seconds, and times the longest call, after which another worker has it too
_TRAVELING = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", MOST)  # of the environment, to other machines
_SAME = "Install the same on all machines."
T = TypeVar("T")
Send = Callable[[Any], Any]  # sends a worker something to do, and gives what Ray knows the answer by


class Crew:
    """Workers who wait for something to do."""

    def __init__(self, workers: Workers) -> None:
        self._workers, self.hands, self._since = workers, list[_Hand](), time.monotonic()
        self._known, self._met = set[str](), set[str]()  # machines, and what all workers did
        self.resize(workers.count)
        self._compare_machines()

    def resize(self, count: int) -> None:
        """Dismiss workers, or hire some."""
        ray, workers = _ray(), self._workers
        _check_daemons()
        for hand in self.hands[count:]:
            ray.kill(hand.actor)
        del self.hands[count:]
        self._since = time.monotonic()
        threads = os.environ.get("OMP_NUM_THREADS", "")
        number = int(threads) if threads.isascii() and threads.isdigit() and int(threads) else 1
        traveling = {name: os.environ[name] for name in _TRAVELING if name in os.environ}
        options = {
            "num_cpus": 0 if workers.address is None else number,  # here, as many as were wanted have room
            "num_gpus": workers.gpus,
            "max_restarts": -1,
            "max_task_retries": _RETRIES,
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(number), **traveling}},
        }
        # a worker may come, or come back, on a machine that joins later, so it compares itself as well
        here = None if workers.address is None else machines.equipment()
        while len(self.hands) < count:
            hired = ray.remote(_Hired).options(**options).remote(number, os.getcwd(), here)
            self.hands.append(_Hand(hired, hired.hello.remote()))

    def call(self, function: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> Iterator[T]:
        """What a function gives for each of these arguments, in order; each worker has one call at a time."""
        sends = [lambda actor, given=given: actor.call.remote(function, *given) for given in calls]
        return cast(Iterator[T], self.in_order(sends, each=1))

    def share(self, value: T) -> T:
        """A value that many calls are given, to be put among their arguments: it travels once."""
        _check_daemons()
        with _outages():
            return cast(T, _ray().put(value))

    def shipment(self, place: Path | None, trust: Trust) -> Shipment | None:
        """How machines of a cluster get a model's files; None where all are on this one, or none are sent."""
        workers = self._workers
        if workers.address is None or workers.ships is False or place is None:
            return None
        here = _ray().get_runtime_context().get_node_id()
        part, digest = partial(_part, here), partial(_digest, here)
        return Shipment.of(place.absolute(), trust, part, bool(workers.ships), digest)

    def all_do(self, key: str, function: Callable[..., object], *given: Any) -> None:
        """On a cluster, let all workers do something once before any has other work: a machine that cannot
        ends the run before it begins. Workers that come later do it first."""
        if self._workers.address is None or key in self._met:
            return
        with WORKERS.asking(), _outages():
            self._compare_machines()
            waiting = {hand.actor.first.remote(function, *given) for hand in self.hands}
            began, first = time.monotonic(), 0.0
            while waiting and not (first and time.monotonic() - first > _JOIN):
                arrived, _ = _ray().wait(list(waiting), num_returns=1, timeout=_TICK)
                for ref in arrived:
                    waiting.remove(ref)
                    if isinstance(answer := _ray().get(ref), _Refusal):
                        raise answer.error
                    first = first or time.monotonic()
                if not first and time.monotonic() - began > _PATIENCE and not any(map(_is_there, self.hands)):
                    raise self._nobody()
            self._met.add(key)

    def _compare_machines(self) -> None:
        """Refuse a machine that could have a worker and has other versions than this one."""
        if self._workers.address is None:
            return
        ray = _ray()
        pending = {}
        for node in ray.nodes():
            has = node["Resources"]
            if (
                node["Alive"]
                and node["NodeID"] not in self._known
                and has.get("CPU", 0)
                and (has.get("GPU", 0) >= self._workers.gpus)
            ):
                pending[_on(node["NodeID"], machines.equipment)] = node
        here, end = machines.equipment() if pending else {}, time.monotonic() + _JOIN
        while pending and time.monotonic() < end:  # a machine that stalls is compared the next time
            arrived, _ = ray.wait(list(pending), num_returns=1, timeout=_TICK)
            alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
            for ref in arrived or [ref for ref, node in pending.items() if node["NodeID"] not in alive]:
                node = pending.pop(ref)
                if node["NodeID"] not in alive:
                    continue
                try:
                    there = ray.get(ref)
                except ray.exceptions.RayError:  # it leaves
                    continue
                if line := machines.lacking(here, there):
                    raise CannotDo(f"Node {_name(node)} {line}. {_SAME}")
                self._known.add(node["NodeID"])

    def _nobody(self) -> CannotDo:
        total, workers = _ray().cluster_resources(), self._workers
        has = f"{total.get('CPU', 0):g} CPUs and {total.get('GPU', 0):g} GPUs"
        cards = max((node["Resources"].get("GPU", 0) for node in _ray().nodes() if node["Alive"]), default=0)
        return CannotDo(
            f"No worker could begin in {_PATIENCE:.0f} s: {workers.count} with {workers.gpus} GPUs each were "
            f"to; the cluster has {has}, at most {cards:g} GPUs on one machine. Ask for less, or wait until "
            "others are done."
        )

    def in_order(self, sends: Sequence[Send], each: int) -> Iterator[Any]:
        """What was sent for, in order, to one thread at a time. each: so many things a worker has at once.

        What a worker has that is gone, or is far slower than others, another one is sent too: it gives the
        same, and the first answer counts.
        """
        with WORKERS.asking():
            if not self.hands:  # another thread has hired workers of another kind meanwhile
                self.resize(self._workers.count)
            waiting, done, flying = deque(enumerate(sends)), dict[int, Any](), dict[Any, _Flight]()
            following, window = 0, 2 * each * len(self.hands)
            self._since, longest = time.monotonic(), 0.0
            self._take_back()
            try:
                while following < len(sends):
                    while waiting and waiting[0][0] < following + window:
                        free = [hand for hand in self.hands if hand.is_here and hand.load < each]
                        free = [hand for hand in free if not hand.is_lost]
                        if not free:
                            break
                        number, send = waiting.popleft()
                        if number < following or number in done:  # a worker that was given up has answered
                            continue
                        hand = min(free, key=lambda hand: hand.load)  # the one with least to do
                        hand.load += 1
                        flying[send(hand.actor)] = _Flight(number, hand, time.monotonic())
                    if following not in done:
                        landed = self._await(flying)
                        for flight in landed:
                            if isinstance(flight.answer, _Late):
                                waiting.appendleft((flight.number, sends[flight.number]))
                            elif flight.number >= following:
                                done.setdefault(flight.number, flight.answer)
                                longest = max(longest, time.monotonic() - flight.since)
                        if not landed:
                            self._take_back()
                        for flight in [] if landed else self._late(flying, longest):
                            waiting.appendleft((flight.number, sends[flight.number]))
                        continue
                    answer = done.pop(following)
                    if isinstance(answer, _Refusal):
                        raise answer.error
                    yield answer
                    following += 1
            finally:
                for flight in flying.values():
                    flight.hand.load -= 1

    def _await(self, flying: dict[Any, _Flight]) -> list[_Flight]:
        """Wait until something arrives: answers, or a worker."""
        _check_daemons()
        with _outages():
            ray, landed = _ray(), list[_Flight]()
            coming = {hand.hello: hand for hand in self.hands if not hand.is_here}
            (arrived, _) = ray.wait([*flying, *coming], num_returns=1, timeout=_TICK)
            for ref in arrived:
                if ref in coming:
                    try:
                        coming[ref].pid = ray.get(ref)
                    except ray.exceptions.RayError:  # on a machine that came later, perhaps
                        self._compare_machines()
                        raise
                    coming[ref].is_here = True
                    continue
                flight = flying.pop(ref)
                flight.hand.load -= 1
                flight.hand.is_lost = False
                try:
                    flight.answer = ray.get(ref)
                except ray.exceptions.ObjectLostError:  # its machine has left with it
                    flight.answer = _Late()
                landed.append(flight)
        if arrived:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > _PATIENCE and all(
            hand.is_lost or not hand.is_here for hand in self.hands
        ):
            raise self._nobody()
        return landed

    def _take_back(self) -> None:
        """Workers that were given up and have nothing to answer any more have work again once they are there:
        others have answered in their place, so that no answer of theirs would say it."""
        now = time.monotonic()
        for hand in self.hands:
            if hand.is_lost and not hand.load and now - hand.checked > _SILENCE:
                hand.checked, hand.is_lost = now, not _is_there(hand)

    def _late(self, flying: dict[Any, _Flight], longest: float) -> list[_Flight]:
        """What workers have that are gone by now, or take much longer than the longest call; once each."""
        late, now = list[_Flight](), time.monotonic()
        for flight in flying.values():
            hand, waited = flight.hand, now - flight.since
            if flight.is_late or waited < _SILENCE:
                continue
            if not hand.is_lost and now - hand.checked > _SILENCE:
                hand.checked = now
                is_slow = bool(longest) and waited > max(_LATE[0], _LATE[1] * longest)
                hand.is_lost = is_slow or not _is_there(hand)
            if hand.is_lost:
                flight.is_late = True
                late.append(flight)
        return sorted(late, key=lambda flight: -flight.number)


# ---- workers


@dataclass(eq=False)
class _Hand:
    """A worker as the driver knows it."""

    actor: Any
    hello: Any  # arrives when the process is there
    is_here: bool = False
    load: int = 0  # things that it was sent and has not answered
    pid: int = 0  # of its first process, once it is there
    is_lost: bool = False  # gone or stalled, until it answers
    checked: float = 0.0  # when Ray was asked last whether it is there


def _is_there(hand: _Hand) -> bool:
    """Whether Ray has a process for a worker now."""
    with _outages():
        state = _ray()._private.state.actors(hand.actor._actor_id.hex())
    return cast(bool, state.get("State") == "ALIVE")


@dataclass(eq=False)
class _Flight:
    """Something that a worker was sent."""

    number: int
    hand: _Hand
    since: float
    is_late: bool = False  # another worker has it too
    answer: Any = None


class _Late:
    """In place of an answer that was lost on its way."""


@dataclass(frozen=True)
class _Refusal:
    """An error of ours in place of an answer."""

    error: LevelheadError


class _Hired:
    """What a worker does. Ray makes a new one where one has died, which then opens the order once more."""

    def __init__(self, threads: int, folder: str, driver: dict[str, str] | None = None) -> None:
        torch.set_num_threads(threads)
        self._lacks = "" if driver is None else machines.lacking(driver, machines.equipment())
        with suppress(OSError):  # paths are the driver's, where its folder is there
            os.chdir(folder)
        self._key = ""
        self._order: Order | None = None

    def hello(self) -> int:
        return os.getpid()

    def parcels(self, place: list[Any], key: str, number: int) -> list[Parcel] | _Refusal:
        """What a batch gives. The order is fetched and opened once, however many of its batches follow."""
        if self._order is None or key != self._key:
            self._order, self._key = cast(Order, _ray().get(place[0])), key
        return self.call(self._order.parcels, number)

    def call(self, function: Callable[..., T], *given: Any) -> T | _Refusal:
        """What a function gives."""
        if self._lacks:
            return _Refusal(CannotDo(f"Node {_own_name()} {self._lacks}. {_SAME}"))
        try:
            return function(*given)
        except LevelheadError as error:
            return _Refusal(error)

    def first(self, function: Callable[..., object], *given: Any) -> _Refusal | None:
        """What comes before any work; a refusal names this machine."""
        given_back = self.call(function, *given)
        if not isinstance(given_back, _Refusal):
            return None
        if self._lacks:
            return given_back
        return _Refusal(type(given_back.error)(f"Node {_own_name()}: {given_back.error}"))


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


def _on(node: str, function: Callable[..., object], *given: object) -> Any:
    """A call of a function of machines.py on a machine, which need not have levelhead."""
    from ray import cloudpickle
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    cloudpickle.register_pickle_by_value(machines)
    there = _ray().remote(function).options(num_cpus=0, scheduling_strategy=On(node, soft=False))
    return there.remote(*given)


def _part(node: str, path: str, start: int, size: int) -> bytes:
    """Part of a file of another machine; it is in the object store of both until it is written."""
    return cast(bytes, _ray().get(_on(node, machines.part, path, start, size)))


def _digest(node: str, path: str) -> str:
    """The hash of a file of another machine."""
    return cast(str, _ray().get(_on(node, machines.digest, path)))


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeName']} ({node['NodeManagerHostname']})"


def _own_name() -> str:
    own = _ray().get_runtime_context().get_node_id()
    return next(_name(node) for node in _ray().nodes() if node["NodeID"] == own)


def _pids() -> list[int]:
    return [hand.pid for present in _CREWS.values() for hand in present.hands if hand.pid]


# ---- Ray itself

_CREWS: dict[tuple[int, str | None], Crew] = {}  # by cards of a worker and address: one at a time
_TOKEN = token_hex(32)  # Ray reads it once in a process, also if it is begun again
_SCRATCH = ExitStack()  # what our own Ray writes and who watches it, as long as it runs


def crew(workers: Workers) -> Crew:
    """The crew of this process, as large as is wanted; one of another kind is dismissed first."""
    kind = workers.gpus, workers.address
    with WORKERS.asking():
        if kind not in _CREWS:
            for other in _CREWS.values():
                other.resize(0)
            _CREWS.clear()
            _start(workers)
            _ray()._private.worker._worker_logs_enabled = False  # on standard output, which is for results
            _CREWS[kind] = Crew(workers)
        if len(_CREWS[kind].hands) != workers.count:
            _CREWS[kind].resize(workers.count)
        return _CREWS[kind]


def _ray() -> Any:
    import ray  # of the extra `ray`; placement.py refuses workers without it

    return ray


def _start(workers: Workers) -> None:
    """Ray on this machine, or a connection to a cluster; nothing, where this process has one already."""
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if workers.address is not None:
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # a cluster that is open to all is for who says so
        try:
            if not _ray().is_initialized():
                host, _, port = workers.address.partition(":")
                if port:  # Ray itself would try for minutes where nobody listens
                    socket.create_connection((host, int(port)), timeout=_KNOCK).close()
                _read_settings_again()
                _ray().init(address=workers.address, **quiet)
        except Exception as error:  # what Ray raises depends on what listens there
            raise BadOption(
                f"No Ray cluster at {workers.address!r} for this command ({one_line(error)}). Begin one with "
                "`ray start --head`, give its RAY_AUTH_TOKEN (docs/clusters.md), or leave ray out."
            ) from error
        return
    # our own Ray is closed to others: it listens on this machine only, and to who has this token
    own = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # its only way to make it listen on 127.0.0.1 alone
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": _TOKEN,
        "RAY_gcs_rpc_server_reconnect_timeout_s": "600",  # until then we notice ourselves that it is gone
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's own 15 is for machines that do something else as well
    }
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        if _ray().is_initialized():
            return
        # Ray opens its own folder to everybody (0777), so that it lies in one which only we can enter (0700)
        private = _SCRATCH.enter_context(scratch_folder("lh-ray", _SOCKET - _INNER))
        _SCRATCH.callback(watch_daemons(_ray(), _end_lost))
        atexit.register(dismiss)
        place = str(private / "ray")
        _read_settings_again()
        constants = _ray()._private.ray_constants
        everywhere, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
        try:
            _ray().init("local", num_cpus=0, include_dashboard=False, _temp_dir=place, **quiet)
            if (own_ip := _ray().util.get_node_ip_address()) not in ("127.0.0.1", "::1"):
                raise RuntimeError(f"it would listen on {own_ip}")
        except Exception as error:  # of many kinds
            dismiss()
            raise CannotDo(
                f"Ray cannot begin on this machine ({one_line(error)}). Leave workers out, or try again."
            ) from error
        finally:
            constants.ENABLE_RAY_CLUSTER = everywhere
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _read_settings_again() -> None:
    """Let Ray read its variables of the environment as they are now: it does so when it is imported, which a
    program may have done before."""
    _ray()
    with suppress(ImportError):  # Ray keeps these for itself
        from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()


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


# ---- Ray's own processes on this machine


def _ended_daemon(ray: Any) -> str:
    """What a user is told where a process that was begun by this program was ended by others; else ""."""
    node = ray._private.worker._global_node
    started = {} if node is None else node.all_processes
    for name in _DAEMONS:
        if any(each.process.poll() is not None for each in started.get(name, ())):
            return (
                f"{name}, a process of Ray's on this machine, was ended by others. Run the same command "
                "again; it goes on."
            )
    return ""


def _check_daemons() -> None:
    """CannotDo where a process of our own Ray was ended by others; then the rest of it is ended as well.

    Ray itself would wait for a minute and end this process, or blame the workers.
    """
    if line := _ended_daemon(_ray()):
        dismiss(_pids())
        raise CannotDo(line)


def watch_daemons(
    ray: Any, last: Callable[[], None], every: float = _TICK, grace: float = _GRACE
) -> Callable[[], None]:
    """Look after the daemons in a thread until what is returned is called; `last` runs before it ends the
    program."""
    dismissed = threading.Event()

    def watch() -> None:
        while not dismissed.wait(every):
            if not (line := _ended_daemon(ray)) or dismissed.wait(grace):
                continue
            sys.stderr.write(f"levelhead: {line}\n")
            sys.stderr.flush()
            for each in (
                each for some in ray._private.worker._global_node.all_processes.values() for each in some
            ):
                with suppress(OSError):
                    os.kill(each.process.pid, signal.SIGKILL)
            last()
            os._exit(1)

    threading.Thread(target=watch, name="levelhead: Ray's processes", daemon=True).start()
    return dismissed.set
