"""The suite under other last bits: other instructions and other numbers of threads round sums otherwise.

    python -m benchmarks.numerics                                 # the numeric part, every setting
    python -m benchmarks.numerics --only "1 thread" tests/engine  # one setting, a named part
    python -m benchmarks.numerics tests -- -n auto                # all of it; behind --, options of pytest

A test that passes under one setting and fails under another hangs on the last bit of a float, and so does
perhaps what it tests. Exit 1 when a test fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

Setting = dict[str, str]  # variables of the environment
NUMERIC = [f"tests/{room}" for room in ("edits", "engine", "measures", "models", "scoring", "studies")]
_THREADS = {f"{n} thread{'s' if n > 1 else ''}": {"OMP_NUM_THREADS": str(n)} for n in (1, 2, 8)}
_PLAIN = {"ATen without vectors": {"ATEN_CPU_CAPABILITY": "default"}}
_X86 = {f"oneDNN {isa}": {"ONEDNN_MAX_CPU_ISA": isa} for isa in ("SSE41", "AVX2")}


@dataclass(frozen=True)
class Outcome:
    """How a suite ended under one setting."""

    setting: str
    passed: int
    skipped: int
    failed: tuple[str, ...]  # tests, or why the suite did not end
    seconds: float = 0.0


def settings_of(machine: str) -> dict[str, Setting]:
    """The settings that give other last bits on a kind of processor, by name."""
    of_kind = _X86 if machine in ("x86_64", "AMD64") else {}
    one = {"OMP_NUM_THREADS": "1"}
    return {**_THREADS, **{name: {**one, **setting} for name, setting in (_PLAIN | of_kind).items()}}


def outcome(setting: str, report: Path, code: int) -> Outcome:
    """What pytest's JUnit file says; a suite that left none, or failed without a test, did not end."""
    passed, skipped, failed = 0, 0, []
    for case in ElementTree.parse(report).iter("testcase") if report.is_file() else ():
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    if not failed and (code or not passed):
        failed.append(f"the suite did not end well (pytest's exit code {code})")
    return Outcome(setting, passed, skipped, tuple(failed))


def summary(outcomes: Iterable[Outcome]) -> list[str]:
    """One line for each test that fails, with the settings under which it does."""
    where: dict[str, list[str]] = {}
    for each in outcomes:
        for test in each.failed:
            where.setdefault(test, []).append(each.setting)
    return [f"{test}: {', '.join(settings)}" for test, settings in sorted(where.items())]


def _run(name: str, setting: Setting, tests: Sequence[str], options: Sequence[str]) -> Outcome:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *options, *tests]
        code = subprocess.run(command, env={**os.environ, **setting}, check=False).returncode
        found = outcome(name, report, code)
    return Outcome(name, found.passed, found.skipped, found.failed, time.monotonic() - began)


def main(arguments: Sequence[str]) -> int:
    """Run the suite under every setting; 1 when a test fails under one of them."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    known = settings_of(platform.machine())
    parser = argparse.ArgumentParser(prog="python -m benchmarks.numerics", description=__doc__)
    parser.add_argument("tests", nargs="*", default=NUMERIC, help="files and folders of tests")
    parser.add_argument("--only", action="append", choices=list(known), help="a setting; may be repeated")
    asked = parser.parse_args(arguments[:end])
    outcomes = [_run(name, known[name], asked.tests, arguments[end + 1 :]) for name in asked.only or known]
    table = Table("setting", "passed", "skipped", "failed", "seconds", title=f"On {platform.machine()}")
    for each in outcomes:
        counts = each.passed, each.skipped, len(each.failed), round(each.seconds)
        table.add_row(each.setting, *map(str, counts))
    Console(width=110).print(table)
    print("\n".join(summary(outcomes)) or "No test fails under any setting.")
    return int(any(each.failed for each in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
