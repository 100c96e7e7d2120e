"""The loop: inputs of all subjects, or of one, until a number or a time is reached; counts, and findings."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from benchmarks.fuzz.files import file_subjects
from benchmarks.fuzz.hostile import Hostile
from benchmarks.fuzz.models import ModelFolders
from benchmarks.fuzz.options import Options
from benchmarks.fuzz.renamed import Renamed
from benchmarks.fuzz.runs import RunFolders
from benchmarks.fuzz.threads import Threads
from benchmarks.fuzz.trapped import Trapped
from benchmarks.fuzz.trial import FINDINGS, OUTCOMES, Place, Subject, Trial, run_trial
from benchmarks.fuzz.watch import Watch

MEMORY = 8 * 2**30  # bytes for all that inputs ask for: the machine goes on


def subjects(sandbox: Path) -> list[Subject]:
    """All kinds of input; the whole runs and models that are damaged lie in the sandbox."""
    runs = RunFolders(sandbox / "runs")
    models = ModelFolders(sandbox / "models")
    options = Options(sandbox / "models" / "folders" / "masked", sandbox / "runs" / "heads")
    hostile = Hostile(sandbox / "models" / "folders")
    return [
        *file_subjects(),
        *options.subjects(),
        *runs.subjects(),
        *models.subjects(),
        *hostile.subjects(),
        *Renamed(sandbox / "runs").subjects(),
        *Trapped(sandbox / "trapped").subjects(),
        *Threads().subjects(),
    ]


def trials(
    chosen: Sequence[Subject], seed: int, inputs: int, seconds: float, sandbox: Path
) -> Iterator[Trial]:
    """Trial after trial; the n-th input has the seed seed + n, whatever came before it."""
    watch, end = Watch(), time.monotonic() + seconds
    place = Place(sandbox / "inputs", sandbox / "outputs")
    for number in range(seed, seed + inputs):
        if time.monotonic() > end:
            return
        for folder in (place.inputs, place.outputs):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        shares = [subject.share for subject in chosen]
        subject = Random(number).choices(chosen, shares)[0]
        yield run_trial(subject, number, place, watch)


def table(outcomes: Counter[tuple[str, str]]) -> str:
    """Counts by subject and outcome, and their sum."""
    names = list(dict.fromkeys(name for name, _ in sorted(outcomes)))
    lines = [f"{'':24}" + "".join(f"{outcome:>15}" for outcome in OUTCOMES)]
    lines += [
        f"{name:24}" + "".join(f"{outcomes[name, outcome]:15,}" for outcome in OUTCOMES) for name in names
    ]
    sums = [sum(count for (_, kind), count in outcomes.items() if kind == outcome) for outcome in OUTCOMES]
    return "\n".join([*lines, f"{'all':24}" + "".join(f"{count:15,}" for count in sums)])


def summary(outcomes: Counter[tuple[str, str]], seed: int) -> str:
    """The last line; shards of one run, each with seeds of its own, are added up by it."""
    sums = Counter[str]()
    for (_, outcome), count in outcomes.items():
        sums[outcome] += count
    count = outcomes.total()
    return (
        f"seeds {seed} to {seed + count - 1}: {count} inputs, {sums['refused']} refused, "
        f"{sums['accepted']} accepted, {sums['traceback']} tracebacks, {sums['hang']} hangs, "
        f"{sums['foreign write']} touched files, {sums['socket']} sockets"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 1 where there was a finding."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="subjects by their names, with semicolons")
    options = parser.parse_args(arguments)
    os.environ["HF_HUB_OFFLINE"] = "1"
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    print(f"seed {options.seed}, at most {options.inputs:,} inputs", flush=True)
    outcomes: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="levelhead-fuzz-") as sandbox:
        place = Path(sandbox).resolve()
        os.chdir(place)
        only = {name for name in options.only.split(";") if name}
        chosen = [subject for subject in subjects(place) if not only or subject.name in only]
        for trial in trials(chosen, options.seed, options.inputs, options.seconds, place):
            outcomes[trial.subject, trial.outcome] += 1
            if outcomes.total() % 1_000 == 0:  # a library that ends the process leaves no counts
                print(f"{outcomes.total():,} inputs", file=sys.stderr, flush=True)
            if trial.outcome in FINDINGS:
                repeat = f"--only {trial.subject!r} --seed {trial.seed} --inputs 1"
                print(f"{trial.outcome}: {repeat}\n{trial.details}", flush=True)
    print(table(outcomes))
    print(summary(outcomes, options.seed))
    return int(any(outcome in FINDINGS for _, outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
