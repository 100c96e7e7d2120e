"""Links, hard links, pipes, devices and sockets at every name of every study's run, for every command.

The runs are real ones, of the commands in benchmarks/jobs.py. Each is made when it is first asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from random import Random

from tests.traps import TRAPS, lay, users_folder

from benchmarks.fuzz.options import called
from benchmarks.fuzz.trial import Place, Subject
from benchmarks.jobs import JOBS, prepare, resolved

STUDIES = ("heads", "audit", "counteracts", "planted", "projections", "glue", "survey", "compare-heads")
LATER = (  # names that a run gets when another command reads it, or while it is being made
    "report.html",
    "figures",
    "figures/heatmap.svg",
    "figures/heatmap.pdf",
    "shards",
    "checkpoints",
    "checkpoints/a",
    "reproduce.csv",
    "reproduce.json",
    "survey.parquet",
    "heads/figures",
    ".tmp-results.jsonl",
)
READING: dict[str, tuple[str, ...]] = {
    "report": ("report", "RUN"),
    "report elsewhere": ("report", "RUN", "-o", "PAGE"),
    "card": ("card", "RUN"),
    "check": ("check", "RUN", "--max", "seat=3"),
    "compare": ("compare", "RUN"),
    "compare-heads": ("compare-heads", "RUN", "RUN", "-o", "COMPARED"),
}
RESUMING = "resume"
COMMANDS = (*READING, RESUMING)


class Trapped:
    """Whole runs of every study; each input is a copy of one with a trap in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.whole = cache(self._whole)

    def subjects(self) -> list[Subject]:
        """One subject: all studies, names, traps and commands."""
        return [Subject("traps", 100, self._prepared)]

    def prepared(self, study: str, name: str, trap: str, command: str, place: Place) -> Callable[[], object]:
        """A run with a trap at a name, and the command that meets it. The user's own files are inputs."""
        run = place.outputs / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(self.whole(study), run)
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        lay(trap, run / name, users_folder(place.inputs / "home"))
        arguments = self._command(study, command)
        paths = {"RUN": run, "PAGE": place.outputs / "page.html", "COMPARED": place.outputs / "compared"}
        whole = [str(paths.get(each, each)) for each in arguments]
        return lambda: called(whole, True, place.outputs)

    def names(self, study: str) -> list[str]:
        """Every file and folder of a run."""
        run = self.whole(study)
        return sorted(path.relative_to(run).as_posix() for path in run.rglob("*"))

    def _prepared(self, rng: Random, place: Place) -> Callable[[], object]:
        study = rng.choice(STUDIES)
        name, trap = rng.choice([*self.names(study), *LATER]), rng.choice(list(TRAPS))
        command = RESUMING if rng.random() < 0.5 else rng.choice(list(READING))
        return self.prepared(study, name, trap, command, place)

    @cached_property
    def _paths(self) -> dict[str, str]:
        return prepare(self._folder / "inputs")

    def _command(self, study: str, command: str) -> list[str]:
        if command != RESUMING:
            return [*READING[command]]
        return [*resolved(JOBS[study], self._paths), "-o", "RUN"]

    def _whole(self, study: str) -> Path:
        run, scratch = self._folder / "runs" / study, self._folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        command = [str(run) if each == "RUN" else each for each in self._command(study, RESUMING)]
        called(command, True, scratch)
        return run
