"""Run folders that were edited, cut or mixed up, and every command that reads one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.report.synthetic import write_audit, write_glue_run, write_heads, write_prompts, write_sweep
from tests.sealing import reseal
from tests.studies.head_runs import scored_run

from benchmarks.fuzz.mutations import mutated, retyped
from benchmarks.fuzz.trial import Place, Subject
from levelhead.inference.check import Plan, check, exit_code, junit, threshold
from levelhead.inference.comparing import compare
from levelhead.inference.contents import open_contents
from levelhead.pages.card import card
from levelhead.pages.page import render, write_report
from levelhead.pages.presented import comparison_page
from levelhead.studies.compare_heads import CompareHeadsSettings
from levelhead.studies.compare_heads.chapter import figures
from levelhead.studies.compare_heads.run import compare_heads

Command = Callable[[Path, Place], object]
_SCORES = [[0.1, -0.2, 0.4, 0.0], [0.3, -0.1, -0.5, 0.2], [0.6, 0.7, -0.3, 0.8]]
_MAKERS: dict[str, Callable[[Path], Path]] = {
    "audit": write_audit,
    "heads": write_heads,
    "counteracts": write_prompts,
    "projections": write_sweep,
    "glue": write_glue_run,
}
_RESEALED = 0.7  # of all runs: their checksums fit what they hold now, so that readers must notice the rest
_AT_MOST = ("seat=0.8", "strength=1", "log_odds=0.1", "lpbs=1")
_AT_LEAST = ("accuracy=0.5", "fairness=1")


class RunFolders:
    """Whole runs of every study, made once; each input is a damaged copy of one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name, write in _MAKERS.items():
            write(folder / name)
        scored_run(folder, "base", _SCORES, 0.5)
        scored_run(folder, "chat", [[-score for score in layer] for layer in _SCORES], 0.2)

    def subjects(self) -> list[Subject]:
        """A subject for each command."""
        commands: dict[str, tuple[int, Command]] = {
            "card": (40, READERS["card"]),
            "check": (40, READERS["check"]),
            "compare": (30, self._compared),
            "report": (12, READERS["report"]),
            "compare-heads": (12, self._compared_heads),
        }
        return [
            Subject(f"run: {name}", share, self._prepared(use)) for name, (share, use) in commands.items()
        ]

    def _prepared(self, use: Command) -> Callable[[Random, Place], Callable[[], object]]:
        def prepare(rng: Random, place: Place) -> Callable[[], object]:
            kinds = ["base"] if use == self._compared_heads else list(_MAKERS)
            run = place.inputs / "run"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(self._folder / rng.choice(kinds), run)
            damage(rng, run)
            if rng.random() < _RESEALED:
                reseal(run)
            return lambda: use(run, place)

        return prepare

    def _compared(self, run: Path, place: Place) -> object:
        compare([run])
        return render(comparison_page(compare([self._folder / "audit", run])))

    def _compared_heads(self, run: Path, place: Place) -> object:
        compare_heads([run, self._folder / "chat"], CompareHeadsSettings(2), place.outputs / "compared")
        return figures(place.outputs / "compared")


def _checked(run: Path, _: Place) -> object:
    contents = open_contents(run)
    limits = [threshold(text, "max") for text in _AT_MOST] + [threshold(text, "min") for text in _AT_LEAST]
    plan = Plan(tuple(limits), bound=True)
    judged = check(contents, plan)
    return exit_code(judged), junit(judged, contents)


READERS: dict[str, Command] = {
    "card": lambda run, _: card(open_contents(run)),
    "check": _checked,
    "compare": lambda run, _: render(comparison_page(compare([run]))),
    "report": lambda run, place: write_report(run, place.outputs / "report.html"),
}


def damage(rng: Random, folder: Path) -> None:
    """One file of a folder damaged, or gone, or a folder, or another file of it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = rng.choice(files)
    accident = rng.random()
    if accident < 0.85:
        accidents = rng.choice((mutated, retyped))  # half of them keep to the form, and go deeper
        path.write_bytes(accidents(rng, path.read_bytes()))
        return
    path.unlink()
    if accident < 0.9:
        path.mkdir()
    elif accident < 0.95:
        other = rng.choice(files)
        if other != path:
            shutil.copyfile(other, path)
