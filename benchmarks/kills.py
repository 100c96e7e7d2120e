"""SIGKILL at random moments of every study, export and report: the same bytes in the end, or one line.

    python -m benchmarks.kills --kills 200 --seed 0
    python -m benchmarks.kills --kills 60 --seed 1 --only "heads, workers" --victims driver,worker,daemon

Each job is a command on tiny models. It runs once undisturbed; then again and again in new folders, killed
up to six times before it may end, and every file is compared. Jobs with workers lose the driver, one of the
workers, or a daemon of Ray's (raylet, gcs_server). A driver whose worker or daemon was killed must end by
itself: well, or with one line. Children are forks: torch is imported once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, get_args

import torch

from benchmarks.jobs import FILES, JOBS, WHOLE, WITH_WORKERS, prepare, resolved
from benchmarks.processes import below, end_left, named
from levelhead.cli.main import main as levelhead
from levelhead.runs.folder import LOCK

Victim = Literal["driver", "worker", "daemon"]
_TITLES: dict[str, tuple[str, ...]] = {"worker": ("ray::",), "daemon": ("raylet", "gcs_server")}
LIMIT = 300  # seconds after a kill in which a driver has to end by itself


@dataclass(frozen=True)
class Job:
    """A command, what it wrote undisturbed, and how long that took."""

    name: str
    arguments: Sequence[str]
    contents: dict[str, bytes]
    seconds: float

    def victims(self, allowed: Sequence[Victim]) -> list[Victim]:
        """Whom a kill can hit: without workers only the driver."""
        return [each for each in allowed if each == "driver" or "--workers" in self.arguments]


@dataclass(frozen=True)
class Kill:
    """What one kill hit, and what is wrong with how the driver ended: nothing, where all is well."""

    victim: Victim
    one_line: bool = False  # the driver ended with one
    fault: str = ""


def started(arguments: Sequence[str], errors: Path) -> int:
    """The id of a fork that runs a command; what it says goes to a file."""
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if not os.environ.get("KILLS_SHOWN"):
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    sys.argv = ["levelhead", *arguments]
    code = 1
    try:
        levelhead()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def finished(arguments: Sequence[str], errors: Path) -> int:
    """The exit code of a command that nobody kills."""
    child = started(arguments, errors)
    known = set[int]()
    ended = waited(child, float("inf"), lambda: known.update(below(child)))
    end_left(known)
    return -1 if ended is None else ended


def waited(child: int, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> int | None:
    """The exit code of a child that ends within so many seconds, else None."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        meanwhile()
        time.sleep(0.01)
    return None


def killed(
    arguments: Sequence[str], victim: Victim, seconds: float, rng: Random, errors: Path
) -> Kill | None:
    """Kill a command, or a process below it, after so many seconds; None where it had ended by itself."""
    child = started(arguments, errors)
    if waited(child, seconds) is not None:
        return None
    family = below(child)
    try:
        if victim != "driver":
            return _killed_below(child, victim, rng, errors)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return Kill(victim)
    finally:
        end_left({*family, *below(child)})


def _killed_below(child: int, victim: Victim, rng: Random, errors: Path) -> Kill | None:
    """Kill a worker or a daemon as soon as there is one; the driver then ends by itself."""
    while not (found := named(below(child), _TITLES[victim])):
        if waited(child, 0.05) is not None:
            return None
    with suppress(ProcessLookupError):  # it may end by itself
        os.kill(rng.choice(found), signal.SIGKILL)
    code = waited(child, LIMIT)
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return Kill(victim, fault=f"the driver of a killed {victim} did not end in {LIMIT} s")
    text = errors.read_text(errors="replace").rstrip("\n") if errors.exists() else ""
    last = text.rpartition("\n")[2]
    told = code > 0 and last.startswith("levelhead: ") and "Traceback" not in text
    fault = "" if code == 0 or told else f"a killed {victim}: exit {code}, {text[-300:]!r}"
    return Kill(victim, told, fault)


def contents(place: Path) -> dict[str, bytes]:
    """Every file by its path, without its lock; a report names the folder that it lies in.

    PDF figures are left out: what draws them from the SVG files beside them writes their tables of fonts and
    patterns in an order of its own each time.
    """
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    here = str(place.parent).encode()
    return {
        str(path.relative_to(place)): path.read_bytes().replace(here, b"HERE")
        for path in files
        if path.name != LOCK and path.suffix != ".pdf"
    }


def with_output(arguments: Sequence[str], name: str, folder: Path) -> tuple[list[str], Path]:
    """The command with a place of its own to write to, and that place."""
    folder.mkdir(parents=True)
    place = folder / FILES.get(name, "run")
    return [*arguments, "-o", str(place)], place


def undisturbed(name: str, arguments: Sequence[str], folder: Path) -> Job:
    """Run a job to its end."""
    whole, place = with_output(arguments, name, folder)
    start = time.monotonic()
    if (code := finished(whole, folder.with_suffix(".err"))) != 0:
        sys.exit(f"{name}: {' '.join(whole)} ended with {code}; KILLS_SHOWN=1 shows why.")
    return Job(name, arguments, contents(place), time.monotonic() - start)


def disturbed(job: Job, folder: Path, rng: Random, victims: Sequence[Victim]) -> tuple[list[Kill], str]:
    """The kills of one run, and what differs in the end: nothing, where all is well."""
    whole, place = with_output(job.arguments, job.name, folder)
    errors = folder.with_suffix(".err")
    moments = [(rng.choice(victims), rng.uniform(0, job.seconds / 2)) for _ in range(rng.randint(2, 6))]
    kills = [kill for each in moments if (kill := killed(whole, *each, rng, errors)) is not None]
    ended = job.name.startswith(WHOLE) and place.exists()  # such a folder is whole, and never overwritten
    code = 0 if ended else finished(whole, errors)
    after = contents(place) if place.exists() else {}
    differing = sorted(
        name for name in {**job.contents, **after} if job.contents.get(name) != after.get(name)
    )
    left = sorted(path.name for path in folder.iterdir() if path != place)
    well = code == 0 and not differing and not left
    return kills, "" if well else f"exit {code}, {differing[:3]}, left {left[:3]}"


def summary(kills: Sequence[Kill], runs: int, jobs: int, differing: int) -> str:
    """The last line: what was killed, and how it ended."""
    counts = Counter(kill.victim for kill in kills)
    hit = ", ".join(f"{victim} {counts[victim]}" for victim in get_args(Victim))
    wrong = sum(bool(kill.fault) for kill in kills)
    lines = sum(kill.one_line for kill in kills)
    return (
        f"{len(kills)} SIGKILLs ({hit}) in {runs} runs of {jobs} jobs: {runs - differing} ended with the "
        f"same bytes, {differing} did not; {lines} drivers ended with one line, "
        f"{wrong} with less or more"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="jobs by their names, with semicolons")
    parser.add_argument("--victims", default="driver,worker,daemon")
    return parser.parse_args()


def main() -> int:
    """Exit 1 where bytes differ, or a driver ends otherwise than well or with one line."""
    options = _options()
    torch.set_num_threads(1)
    chosen = [name for name in options.only.split(";") if name]
    allowed = [victim for victim in get_args(Victim) if victim in options.victims.split(",")]
    rng, runs, differing = Random(options.seed), 0, 0
    kills: list[Kill] = []
    with tempfile.TemporaryDirectory(prefix="levelhead-kills-") as sandbox:
        folder = Path(sandbox)
        paths = prepare(folder / "inputs")
        jobs = []
        for name, arguments in {**JOBS, **WITH_WORKERS}.items():
            if not chosen or name in chosen:
                jobs.append(undisturbed(name, resolved(arguments, paths), folder / f"whole {name}"))
                print(f"undisturbed: {name} {jobs[-1].seconds:.1f} s", flush=True)
        jobs = [job for job in jobs if job.victims(allowed)]
        while jobs and len(kills) < options.kills:
            job = jobs[runs % len(jobs)]
            more, fault = disturbed(job, folder / f"run {runs}", rng, job.victims(allowed))
            kills, runs, differing = kills + more, runs + 1, differing + bool(fault)
            told = "; ".join(filter(None, [fault or "the same bytes", *(kill.fault for kill in more)]))
            print(f"{job.name}: {len(more)} kills, {told}; {len(kills)} in all", flush=True)
    print(summary(kills, runs, len(jobs), differing))
    return int(differing > 0 or any(kill.fault for kill in kills))


if __name__ == "__main__":
    sys.exit(main())
