"""The harness that kills processes: it finds those below a driver, and judges how that ended."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from benchmarks import kills
from benchmarks.jobs import JOBS, WITH_WORKERS
from benchmarks.kills import Job, Kill, Victim, summary
from benchmarks.processes import alive, below, end_left, named

# A driver with a child that a title tells from others; it ends as its first argument says.
DRIVER = """
import os, sys, time
child = os.fork()
if not child:
    os.execv(sys.executable, ["ray::worker", "-c", "import time; time.sleep(60)"])
os.waitpid(child, 0)
if sys.argv[1] == "well":
    sys.exit(0)
print("levelhead: a worker is gone. Run it again." if sys.argv[1] == "line" else "Traceback", file=sys.stderr)
sys.exit(4)
"""


def test_processes_below_are_found_by_their_titles_and_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", DRIVER, "well"]) as driver:
        while not (found := named(below(driver.pid), ("ray::",))):
            assert driver.poll() is None
        assert all(map(alive, found))
        assert named(below(driver.pid), ("raylet",)) == []
        end_left(found)
        assert driver.wait() == 0
    assert not any(map(alive, found))


@pytest.mark.parametrize(("end", "expected"), [("well", (False, "")), ("line", (True, "")), ("badly", None)])
def test_a_driver_without_its_worker_ends_well_or_with_one_line(
    end: str, expected: tuple[bool, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = tmp_path / "errors"

    def start(_: object, errors: Path) -> int:
        with errors.open("wb") as file:
            return subprocess.Popen([sys.executable, "-c", DRIVER, end], stderr=file).pid

    monkeypatch.setattr(kills, "started", start)
    kill = kills.killed([], "worker", 0.0, Random(0), errors)
    assert kill is not None
    if expected is None:
        assert "exit 4" in kill.fault
    else:
        assert (kill.one_line, kill.fault) == expected


def test_only_jobs_with_workers_lose_workers_and_daemons_and_every_study_has_one() -> None:
    everyone = get_args(Victim)
    plain, helped = (Job("a", arguments, {}, 1.0) for arguments in (("heads",), ("heads", "--workers", "2")))
    assert plain.victims(everyone) == ["driver"]
    assert helped.victims(everyone) == [*everyone]
    studies = {"heads", "audit", "counteracts", "generate", "planted", "projections", "glue", "survey"}
    assert {name.partition(",")[0] for name in WITH_WORKERS} == studies <= JOBS.keys()


def test_the_last_line_counts_victims_bytes_and_lines() -> None:
    counted = [Kill("driver"), Kill("worker"), Kill("daemon", one_line=True), Kill("daemon", fault="no line")]
    line = summary(counted, 3, 2, 1)
    assert line.startswith("4 SIGKILLs (driver 1, worker 1, daemon 2)")
    assert [int(number) for number in re.findall(r"\d+", line)] == [4, 1, 1, 2, 3, 2, 2, 1, 1, 1]
