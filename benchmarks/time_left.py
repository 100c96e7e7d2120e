"""Whether a command takes as long as it says: its plan, and the time left that it shows once a minute.

    python -m benchmarks.time_left audit lh:bert-mini -o RUN
    python -m benchmarks.time_left --from 30 projections lh:gpt-mini -o RUN
    python -m benchmarks.time_left --work heads lh:bert-mini -o RUN

The command runs twice: with --plan, and in full. Both are processes of their own, on free cores. The first
line of the table is the plan; the others are what is shown while it runs, from --from seconds on, until only
a tenth is left, when rounding to whole minutes counts more than the estimate. Ratios are said over real.

--work: the command runs once, in this process, and needs no free cores. Tokens that were planned and tokens
that were worked, stage by stage, and the time left by the seconds that the process had of its cores.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from rich.progress import Progress

from levelhead import progress
from levelhead.cli import entry
from levelhead.progress import Stage

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
LEFT = re.compile(r"about ([\d.]+) (s|min|h) left")
PLANNED = re.compile(r'"seconds": ([\d.]+)')
LAST = 0.1  # of the time, which is not judged


def shown_by(command: Sequence[str]) -> tuple[list[tuple[float, float]], float]:
    """Seconds since the start and the time left that was shown then, and how long the command took."""
    begun, shown = time.monotonic(), list[tuple[float, float]]()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if found := LEFT.search(line):
                shown.append((time.monotonic() - begun, float(found[1]) * UNITS[found[2]]))
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {process.returncode}.")
    return shown, time.monotonic() - begun


# ---- the work, by no clock but the process's own


@dataclass
class Ledger:
    """What a command planned and did, by its outermost stages."""

    planned: dict[Stage, float] = field(default_factory=dict)
    worked: dict[Stage, float] = field(default_factory=lambda: defaultdict(float))
    said: list[tuple[float, float]] = field(default_factory=list)  # seconds so far, and said to be left
    began: float = 0.0


@contextmanager
def ledger() -> Iterator[Ledger]:
    """Inside, what is planned and worked is written into what comes back."""
    kept, own = Ledger(), progress._Whole

    class Written(own):  # type: ignore[valid-type, misc]
        def __init__(self, name: str, plan: Mapping[Stage, float], shown: Progress) -> None:
            super().__init__(name, plan, shown)
            kept.planned.update(plan)
            kept.began = time.process_time()

        def worked(self, tokens: float) -> None:
            super().worked(tokens)
            kept.worked[self._stages[0] if self._stages else Stage.ALL] += tokens
            task, so_far = self._shown.tasks[0], time.process_time() - kept.began
            kept.said.append((so_far, so_far * ((task.total or 0.0) - task.completed) / task.completed))

        def replan(self, name: Stage, tokens: Callable[[], float]) -> None:
            super().replan(name, tokens)
            if self._stages and self._stages[0] == name:
                kept.planned[name] = self._expected

    progress._Whole = Written  # type: ignore[misc]
    try:
        yield kept
    finally:
        progress._Whole = own  # type: ignore[misc]


def show_work(arguments: Sequence[str], since: float) -> None:
    """Run a command here, and print its work."""
    with ledger() as kept:
        sys.argv = ["levelhead", *arguments]
        with suppress(SystemExit):
            entry.main()
    took = time.process_time() - kept.began
    print("| stage | planned, tokens | worked, tokens | ratio |\n|---|---:|---:|---:|")
    for stage in {**kept.planned, **kept.worked}:
        planned, worked = kept.planned.get(stage, 0.0), kept.worked.get(stage, 0.0)
        ratio = f"{planned / worked:.2f}" if worked else ""
        print(f"| {stage or 'all'} | {planned:,.0f} | {worked:,.0f} | {ratio} |")
    print("| after, CPU s | said, s | real, s | ratio |\n|---|---|---|---|")
    due = since
    for after, left in kept.said:
        if after >= due and took - after >= LAST * took:
            print(f"| {after:.0f} | {left:.0f} | {took - after:.0f} | {left / (took - after):.2f} |")
            due = after + took / 20


def main() -> None:
    """Plan, run, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--from", dest="since", type=float, default=60.0, help="seconds before a line counts")
    parser.add_argument("--work", action="store_true", help="count tokens and CPU seconds instead")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if given.work:
        show_work(given.command, given.since)
        return
    command = [sys.executable, "-m", "levelhead", *given.command]
    plan = subprocess.run([*command, "--plan", "--json"], capture_output=True, text=True, check=False)
    planned = PLANNED.search(plan.stdout)
    if planned is None:
        sys.exit(f"--plan printed no seconds: {(plan.stderr or plan.stdout).strip()[-500:]}")
    shown, took = shown_by(command)
    print(f"levelhead {' '.join(given.command)}: {took:.0f} s")
    print("| after, s | said, s | real, s | ratio |\n|---|---|---|---|")
    print(f"| plan | {float(planned[1]):.0f} | {took:.0f} | {float(planned[1]) / took:.2f} |")
    for after, left in shown:
        real = took - after
        if after >= given.since and real >= LAST * took:
            print(f"| {after:.0f} | {left:.0f} | {real:.0f} | {left / real:.2f} |")


if __name__ == "__main__":
    main()
