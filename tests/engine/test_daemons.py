"""Ray's own processes: a program that waits for one that is gone is ended with one line."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from levelhead.engine import daemons

_PROGRAM = """
import sys, threading
from types import SimpleNamespace as Some
from levelhead.engine.daemons import DaemonWatch

ended = Some(process=Some(poll=lambda: {poll}, pid=2**30))
ray = Some(_private=Some(worker=Some(_global_node=Some(all_processes={{"gcs_server": [ended]}}))))
watch = DaemonWatch(ray, lambda: print("cleared", flush=True), grace=0.1)
{then}
"""


def _program(poll: str, then: str) -> subprocess.CompletedProcess[str]:
    code = _PROGRAM.format(poll=poll, then=then)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


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
    daemons.DaemonWatch(None, waited.clear, look=7.5)
    assert waited == [7.5]


@pytest.mark.nightly
def test_a_program_that_finds_out_by_itself_or_whose_daemons_live_is_left_alone() -> None:
    found = _program(poll="-9", then="watch.dismiss(); threading.Event().wait(3); print('went on')")
    lives = _program(poll="None", then="threading.Event().wait(3); print('went on')")
    assert [(each.returncode, each.stdout) for each in (found, lives)] == [(0, "went on\n")] * 2
