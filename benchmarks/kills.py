"""SIGKILL at random moments of every study, export and report: what goes on must end with the same bytes.

    python -m benchmarks.kills --kills 200 --seed 0

Each job is a command on tiny models. It runs once undisturbed; then again and again in new folders, killed
up to six times before it may end, and every file is compared. Children are forks: torch is imported once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from tests.glue_files import write_glue
from tests.report.synthetic import write_audit
from tests.studies.head_runs import scored_run
from tests.tiny import tiny

from levelhead.cli.main import main as levelhead
from levelhead.results.folder import LOCK

_WORDS = """A = ["she", "mother", "woman"]
B = ["he", "father", "man"]
X = ["nurse", "teacher", "kitchen"]
Y = ["engineer", "book", "work"]
"""
_TRIPLES = """{"context": "The nurse is a woman.", "stereotype": "She is tired.", "anti": "She is not.", \
"unrelated": "The book is red."}
{"context": "The engineer is a man.", "stereotype": "He gave a book.", "anti": "He was in the kitchen.", \
"unrelated": "It is red."}
"""
_PAIRS = "premise\thypothesis\tlabel\n" + "".join(
    f"The nurse was tired.\tThe nurse was {mood}.\t{label}\n"
    for label, mood in enumerate(("tired", "in the kitchen", "not tired"))
)
_RECIPE = '[fit]\npairs = "single"\n[[projection]]\nlocation = "tokens"\nlayer = 1\n'
_OWN = "The nurse was tired. The engineer gave a book to the woman.\n" * 3
_TEXTS = {
    "OWN.txt": _OWN,
    "WORDS.toml": _WORDS,
    "TRIPLES.jsonl": _TRIPLES,
    "PAIRS.tsv": _PAIRS,
    "RECIPE.toml": _RECIPE,
}
_SCORES = [[0.1, -0.2, 0.4, 0.0], [0.3, -0.1, -0.5, 0.2]]
_JOBS: dict[str, Sequence[str]] = {
    "heads": ("heads", "MASKED", "--bias", "WORDS", "--experiments", "scores,ablation", "--null", "2"),
    "heads, workers": ("heads", "MASKED", "--bias", "WORDS", "--null", "2", "--workers", "2"),
    "audit": ("audit", "CAUSAL", "--bias", "WORDS", "--null", "2", "--top", "1", "--text", "OWN"),
    "prompts": ("prompts", "MASKED", "--backgrounds", "1", "--null", "0"),
    "planted": ("planted", "MASKED", "--plants", "1", "--seeds", "2", "--kinds", "attention"),
    "sweep": (
        *("sweep", "MASKED", "--nli", "JUDGE", "--limit", "2", "2", "--pairs", "single"),
        *("--triples", "TRIPLES", "--ability", "PAIRS"),
    ),
    "glue": (
        *("glue", "MASKED", "--data", "GLUE", "--tasks", "rte", "--seeds", "1", "--epochs", "1"),
        *("--heads", "1-1"),
    ),
    "survey": (
        *("survey", "MASKED", "JUDGE", "lh:none", "--quick", "--measures", "seat,lpbs", "--bias", "WORDS"),
    ),
    "finetune": ("finetune", "MASKED", "--data", "GLUE", "--task", "rte", "--epochs", "1"),
    "debias": ("debias", "MASKED", "--heads", "1-1"),
    "debias, adapter": ("debias", "MASKED", "--recipe", "RECIPE"),
    "report": ("report", "AUDIT"),
    "card": ("card", "AUDIT"),
    "compare": ("compare", "AUDIT"),
    "compare-heads": ("compare-heads", "BASE", "CHAT"),
}
_WHOLE = ("debias", "finetune")  # jobs that write a model
_FILES = {"report": "report.html", "card": "card.md", "compare": "compare.html"}  # others write a folder


@dataclass(frozen=True)
class Job:
    """A command, what it wrote undisturbed, and how long that took."""

    name: str
    arguments: Sequence[str]
    contents: dict[str, bytes]
    seconds: float


def prepare(folder: Path) -> dict[str, str]:
    """Tiny models, data and runs by the names that jobs call them."""
    for name, family, head in (("MASKED", "bert", "nsp"), ("JUDGE", "bert", "nli"), ("CAUSAL", "llama", "")):
        model = tiny(family, head, layers=2)
        model.hf.save_pretrained(folder / name)
        model.tokenizer.save_pretrained(folder / name)
    for name, text in _TEXTS.items():
        (folder / name).write_text(text)
    write_glue(folder / "GLUE")
    write_audit(folder / "AUDIT")
    for name in ("BASE", "CHAT"):
        scored_run(folder, name, _SCORES, 0.5)
    return {path.stem: str(path) for path in folder.iterdir()}


def started(arguments: Sequence[str]) -> int:
    """The id of a fork that runs a command and prints nothing."""
    child = os.fork()
    if child:
        return child
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    if not os.environ.get("KILLS_SHOWN"):
        os.dup2(silent, 2)
    sys.argv = ["levelhead", *arguments]
    code = 1
    try:
        levelhead()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def finished(arguments: Sequence[str]) -> int:
    """The exit code of a command that nobody kills."""
    return os.waitstatus_to_exitcode(os.waitpid(started(arguments), 0)[1])


def killed(arguments: Sequence[str], seconds: float) -> bool:
    """Kill a command after so many seconds; False where it had ended by itself."""
    child = started(arguments)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


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
    place = folder / _FILES.get(name, "run")
    return [*arguments, "-o", str(place)], place


def undisturbed(name: str, arguments: Sequence[str], folder: Path) -> Job:
    """Run a job to its end."""
    whole, place = with_output(arguments, name, folder)
    start = time.monotonic()
    if (code := finished(whole)) != 0:
        sys.exit(f"{name}: {' '.join(whole)} ended with {code}; KILLS_SHOWN=1 shows why.")
    return Job(name, arguments, contents(place), time.monotonic() - start)


def disturbed(job: Job, folder: Path, rng: Random) -> tuple[int, str]:
    """How often one run was killed, and what differs in the end: nothing, where all is well."""
    whole, place = with_output(job.arguments, job.name, folder)
    kills = sum(killed(whole, rng.uniform(0, job.seconds / 2)) for _ in range(rng.randint(2, 6)))
    ended = job.name.startswith(_WHOLE) and place.exists()  # such a folder is whole, and never overwritten
    code = 0 if ended else finished(whole)
    after = contents(place) if place.exists() else {}
    differing = sorted(
        name for name in {**job.contents, **after} if job.contents.get(name) != after.get(name)
    )
    left = sorted(path.name for path in folder.iterdir() if path != place)
    return (
        kills,
        "" if code == 0 and not differing and not left else f"exit {code}, {differing[:3]}, left {left[:3]}",
    )


def main() -> int:
    """Exit 1 where bytes differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="one job, by its name")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng, kills, runs, faults = Random(options.seed), 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="levelhead-kills-") as sandbox:
        folder = Path(sandbox)
        paths = prepare(folder / "inputs")
        jobs = [
            undisturbed(name, [paths.get(each, each) for each in arguments], folder / f"whole {name}")
            for name, arguments in _JOBS.items()
            if options.only in ("", name)
        ]
        print("undisturbed: " + ", ".join(f"{job.name} {job.seconds:.1f} s" for job in jobs), flush=True)
        while kills < options.kills:
            job = jobs[runs % len(jobs)]
            more, fault = disturbed(job, folder / f"run {runs}", rng)
            kills, runs, faults = kills + more, runs + 1, faults + bool(fault)
            print(f"{job.name}: {more} kills, {fault or 'the same bytes'}; {kills} in all", flush=True)
    print(f"{kills} SIGKILLs in {runs} runs of {len(jobs)} jobs: {runs - faults} ended with the same bytes")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
