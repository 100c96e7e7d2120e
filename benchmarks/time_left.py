"""Whether a command takes as long as it says: its plan, and the time left that it shows once a minute.

    python -m benchmarks.time_left audit lh:bert-mini -o RUN
    python -m benchmarks.time_left --from 30 projections lh:gpt-mini -o RUN

The command runs twice: with --plan, and in full. Both are processes of their own, on free cores. The first
line of the table is the plan; the others are what is shown while it runs, from --from seconds on, until only
a tenth is left, when rounding to whole minutes counts more than the estimate. Ratios are said over real.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence

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


def main() -> None:
    """Plan, run, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--from", dest="since", type=float, default=60.0, help="seconds before a line counts")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
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
