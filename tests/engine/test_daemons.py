"""Ray's own processes: a program that waits for one that is gone is ended with one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from levelhead.engine import ray_workers
from tests.cluster import ROOT

_PROGRAM = """
import sys, threading
from types import SimpleNamespace as Some
from levelhead.engine.ray_workers import watch_daemons

ended = Some(process=Some(poll=lambda: {poll}, pid=2**30))
ray = Some(_private=Some(worker=Some(_global_node=Some(all_processes={{"gcs_server": [ended]}}))))
dismiss = watch_daemons(ray, lambda: print("cleared", flush=True), grace=0.1)
{then}
"""


def _program(poll: str, then: str) -> subprocess.CompletedProcess[str]:
    code = _PROGRAM.format(poll=poll, then=then)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.nightly
def test_a_program_that_waits_for_a_daemon_that_is_gone_is_ended_with_one_line() -> None:
    ended = _program(poll="-9", then="threading.Event().wait()")
    assert (ended.returncode, ended.stdout) == (1, "cleared\n")
    assert ended.stderr.startswith("levelhead: gcs_server, ")
    assert ended.stderr.count("\n") == 1


def test_a_watch_waits_as_long_as_it_was_told_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    class Dismissed(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return True

    monkeypatch.setattr(threading, "Event", Dismissed)
    monkeypatch.setattr(threading, "Thread", lambda target, **_: SimpleNamespace(start=target))
    ray_workers.watch_daemons(None, waited.clear, every=7.5)
    assert waited == [7.5]


@pytest.mark.nightly
def test_a_cluster_is_not_joined_without_a_token(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    program = """
import socket
listening = socket.create_server(("127.0.0.1", 0))
from levelhead.engine.ray_workers import _start
from levelhead.errors import BadOption
from levelhead.models.placement import Workers
try:
    _start(Workers(1, 0, f"127.0.0.1:{listening.getsockname()[1]}"))
except BadOption as error:
    print(error)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "HOME": str(tmp_path)},  # which may have a token
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("No Ray cluster at '127.0.0.1:")
    assert "no authentication token was found" in done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1000)
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads what Linux says of sockets")
def test_our_ray_listens_on_this_machine_alone_whoever_imported_ray_first(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    program = """
import ray  # which reads some of its settings now
import json, os
from benchmarks.processes import below
from levelhead.engine.ray_workers import crew, dismiss
from levelhead.models.placement import Workers
from tests.cluster import listening

(worker,) = crew(Workers(1)).call(os.getpid, [()])
pids = [os.getpid(), *below(os.getpid())]
assert worker in pids
found = listening(pids)
dismiss()
print(json.dumps(found))
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    code = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    for _ in range(3):  # where other programs use the cores, Ray gives up before its processes are there
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "HOME": str(tmp_path), "PYTHONPATH": code},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if "timed out during startup" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found
    assert [place for place, loopback in found.items() if not loopback] == []


@pytest.mark.nightly
def test_a_program_that_finds_out_by_itself_or_whose_daemons_live_is_left_alone() -> None:
    found = _program(poll="-9", then="dismiss(); threading.Event().wait(3); print('went on')")
    lives = _program(poll="None", then="threading.Event().wait(3); print('went on')")
    assert [(each.returncode, each.stdout) for each in (found, lives)] == [(0, "went on\n")] * 2
