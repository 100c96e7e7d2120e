"""Nodes of Ray on this machine: each with a home, a temporary folder and a working directory of its own.

They listen on 127.0.0.1 only and behind a token. A node does not see the folders that are hidden from it: it
has an empty one in their place (a mount namespace of its own).
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

import pytest
from benchmarks.processes import alive, below

ROOT = Path(__file__).parents[1]
START = 240.0  # seconds: Ray's processes take long where other programs use the cores
_CODE = f"{ROOT / 'src'}{os.pathsep}{ROOT}"


@dataclass(eq=False)
class Node:
    """The process that began a node; all others of the node are below it."""

    place: Path
    process: subprocess.Popen[bytes]

    def members(self) -> list[int]:
        return [self.process.pid, *below(self.process.pid)]

    def kill(self) -> None:
        """End all processes at once, as a machine that loses its power."""
        for pid in self.members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, go_on: bool = False) -> None:
        """Let all processes stall, or go on."""
        for pid in self.members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT if go_on else signal.SIGSTOP)


@dataclass(eq=False)
class Cluster:
    """A head without workers, on which drivers run, and nodes for the workers."""

    place: Path
    hidden: Sequence[Path] = ()
    cpus: int = 1  # of each node: so many workers
    brings: tuple[Path, Path] | None = None  # a folder that new nodes have in another one's place
    port: int = 0
    nodes: list[Node] = field(default_factory=list)
    token: str = field(default_factory=lambda: token_hex(32))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def environment(self, place: Path, **more: str) -> dict[str, str]:
        """What programs of a node, or a driver, find in their environment."""
        for each in (place / "home", place / "tmp"):
            each.mkdir(parents=True, exist_ok=True)
        names = ("PATH", "LANG", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        return {
            **kept,
            "HOME": str(place / "home"),
            "TMPDIR": str(place / "tmp"),
            "PYTHONPATH": _CODE,
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # all listen on 127.0.0.1
            **more,
        }

    def add(self, cpus: int = 1, gpus: int = 0, **environment: str) -> Node:
        """Begin a node; the first one is the head."""
        place = self.place / f"n{len(self.nodes)}"
        place.mkdir(parents=True)
        what = [str(self.port) if self.nodes else "head", str(cpus if self.nodes else 0), str(gpus)]
        program = [sys.executable, "-m", "tests.cluster", *what, str(place)]
        covered = self.hidden if self.nodes else ()
        covers = [f"mount -t tmpfs none {shlex.quote(str(each))}" for each in covered]
        if self.brings is not None:
            copied, at = (shlex.quote(str(each)) for each in self.brings)
            covers.append(f"cp -r {copied} {at}")
        if covers:
            private = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
            program = [*private, "sh", "-c", " && ".join([*covers, f"exec {shlex.join(program)}"])]
        with (place / "node.log").open("wb") as log:
            process = subprocess.Popen(
                program,
                env=self.environment(place, **environment),
                cwd=place,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        node = Node(place, process)
        self.nodes.append(node)
        ready = place / "ready"
        wait_until(lambda: ready.exists() or process.poll() is not None, START)
        assert ready.exists(), (place / "node.log").read_text()[-2000:]
        self.port = self.port or int(ready.read_text())
        return node

    def driver(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """A command of levelhead, on the head, that uses this cluster."""
        place = self.place / "driver"
        return subprocess.Popen(
            [sys.executable, "-m", "levelhead", *arguments, "--ray", self.address],
            env=self.environment(place, **environment),
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def finished(driver: subprocess.Popen[str], seconds: float = 600.0) -> tuple[int, str]:
    """The exit code and what was said on standard error."""
    _, errors = driver.communicate(timeout=seconds)
    return driver.returncode, errors


def listening(pids: Sequence[int]) -> dict[str, bool]:
    """Where processes listen, as the kernel writes it, and whether that is on 127.0.0.1 or ::1 alone."""
    sockets = set()
    for pid in pids:
        with suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    sockets.add(os.readlink(link))
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            local = fields[1].partition(":")[0]
            loopback = local.endswith("0100007F") and set(local[:-8]) <= set("0F")
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found[fields[1]] = loopback or local == "0" * 24 + "01000000"
    return found


def wait_until(happened: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def cluster(
    place: Path, nodes: int, hidden: Sequence[Path] = (), cpus: int = 1, gpus: int = 0
) -> Iterator[Cluster]:
    """A head and so many nodes; all of their processes are gone afterwards."""
    made = Cluster(place, hidden, cpus)
    try:
        made.add()
        for _ in range(nodes):
            made.add(cpus, gpus)
        yield made
    finally:
        left = [pid for node in made.nodes for pid in node.members()]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for node in made.nodes:
            node.process.wait()
        wait_until(lambda: not any(map(alive, left)), 30)
        for link in place.glob("n*/tmp/ray"):
            shutil.rmtree(link.resolve(), ignore_errors=True)


def require_namespaces() -> None:
    """Skip a test where a process may not have a file system of its own."""
    private = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    tried = subprocess.run(
        [*private, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    if tried.returncode:
        pytest.skip("no mount namespaces here")


def _run(what: str, cpus: int, gpus: int, place: Path, given: int = 0) -> None:
    """Be a node until somebody ends this process. given: the port of a head."""
    from ray._private.node import Node as RayNode
    from ray._private.parameter import RayParams
    from ray._raylet import persist_port  # type: ignore[attr-defined]

    class Prompt(RayNode):  # type: ignore[misc]
        """A raylet ends where agents take over 15 s to say that they have no port; so it is said for them."""

        def start_raylet(self, *args: object, **options: object) -> None:
            for name in ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"):
                persist_port(self._session_dir, self._node_id, name, -1)
            super().start_raylet(*args, **options)

    def free() -> int:
        with socket.socket() as tried:
            tried.bind(("127.0.0.1", 0))
            return int(tried.getsockname()[1])

    (place / "tmp").chmod(0o700)
    short = tempfile.mkdtemp(prefix="lh-", dir="/tmp")  # sockets' paths have at most 107 bytes
    (place / "tmp/ray").symlink_to(short)
    atexit.register(shutil.rmtree, short, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    options: Mapping[str, object] = {
        "num_cpus": cpus,
        "num_gpus": gpus,
        "object_store_memory": 160 << 20,
        "temp_dir": str(Path(short) / "ray"),
        "include_dashboard": False,
        "include_log_monitor": False,
        "no_monitor": True,
        "runtime_env_agent_port": free(),
        "dashboard_agent_listen_port": 0,
    }
    port = int(what) if what != "head" else given or free()
    where = {"gcs_server_port": port} if what == "head" else {"gcs_address": f"127.0.0.1:{port}"}
    node = Prompt(
        RayParams(node_name=place.name, **where, **options),
        head=what == "head",
        shutdown_at_exit=True,
        spawn_reaper=False,
    )
    assert node.node_ip_address == "127.0.0.1"
    work = place / "ready.work"
    work.write_text(str(port))
    work.rename(place / "ready")
    began_by = os.getppid()
    while os.getppid() == began_by:  # a test that is killed leaves no nodes
        time.sleep(1)


if __name__ == "__main__":
    _run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), *map(int, sys.argv[5:]))
