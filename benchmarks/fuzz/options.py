"""Options of every command with values that nobody should give."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from benchmarks.fuzz.trial import Place, Refused, Subject
from levelhead.cli.commands import built, listed
from levelhead.cli.main import main
from levelhead.errors import UnknownModel

_RUN = subprocess.run
_VALUES = (
    "",
    " ",
    "0",
    "1",
    "2",
    "-1",
    "1.5",
    "nan",
    "inf",
    "1e999",
    "9" * 30,
    "9" * 5_000,
    "a" * 300,
    "~nobody/x",
    "~",
    ".",
    "/",
    "/dev/null",
    "/dev/full",
    "/dev/zero",
    "/proc/self/mem",
    "/proc/x",
    "nul\x01l",
    "\udcff",
    "\u2028",
    "é",
    "日本",
    ",",
    "=",
    "seat=1",
    "seat=" + "9" * 400,
    "seat=nan",
    "=1",
    "lh:",
    "lh:bert-mini",
    "pypi:",
    "pypi:nothing",
    "hub:",
    "hub:snli:x:y",
    "hub",
    "nobody/x",
    "cuda:99",
    "mps",
    "meta",
    "xpu",
    "vulkan:0",
    "cpu",
    "float16",
    "int8",
    "gender",
    "shipped",
    "templates",
    "scores,ablation",
    "1-1",
    "1-1=0.5,2-2",
    "99-99",
    "0-0",
    "1-1=nan",
    "rte,sst2",
    "kind,of",
    "0,1,2",
    "entailment,neutral,contradiction",
    "INPUTS/file.txt",
    "INPUTS/file.toml",
    "OUTPUTS/empty",
    "INPUTS",
    "OUTPUTS/missing",
    "OUTPUTS/file.txt/inside",
    "OUTPUTS/new",
    "OUTPUTS",
)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("audit", "MODEL", "-o", "OUTPUTS/run"),
    ("heads", "MODEL", "-o", "OUTPUTS/run", "--experiments", "scores"),
    ("planted", "MODEL", "-o", "OUTPUTS/run", "--seeds", "2"),
    ("counteracts", "MODEL", "-o", "OUTPUTS/run", "--null", "0"),
    ("generate", "MODEL", "-o", "OUTPUTS/run", "--limit", "1", "--samples", "2", "--tokens", "4"),
    ("debias", "MODEL", "-o", "OUTPUTS/run", "--heads", "1-1"),
    ("mitigate", "MODEL", "-o", "OUTPUTS/run", "--methods", "symmetrized"),
    ("explore", "MODEL"),
    ("explore", "MODEL", "RUN", "--port", "0"),
    ("serve", "MODEL", "--port", "0"),
    ("glue", "MODEL", "--data", "INPUTS", "-o", "OUTPUTS/run"),
    ("finetune", "MODEL", "--task", "snli", "--data", "INPUTS", "-o", "OUTPUTS/run"),
    ("projections", "MODEL", "--nli", "MODEL", "-o", "OUTPUTS/run"),
    ("survey", "MODEL", "lh:none", "-o", "OUTPUTS/run", "--quick"),
    ("reproduce", "heads", "-o", "OUTPUTS/run", "--model", "MODEL"),
    ("models", "MODEL"),
    ("cache", "--json"),
    ("seat", "MODEL", "gender"),
    ("lpbs", "MODEL"),
    ("fluency", "MODEL"),
    ("nsp", "MODEL"),
    ("nli", "MODEL"),
    ("report", "RUN", "-o", "OUTPUTS/report.html"),
    ("report", "RUN", "-o", "OUTPUTS/report.html", "--pdf"),
    ("compare", "RUN"),
    ("check", "RUN", "--max", "seat=3"),
    ("card", "RUN"),
    ("compare-heads", "RUN", "RUN", "-o", "OUTPUTS/compared"),
    ("benchmark", "crows-pairs", "MODEL", "--data", "NO-SUCH.csv"),
    ("atlas", "MODEL", "--objectives", "seat", "-o", "OUTPUTS/atlas"),
)
_LINE = 500  # characters of an error
_ASKED = ("models", "seat", "fluency", "debias", "nsp", "lpbs")  # quick enough to run to their end


class Options:
    """Commands on a tiny model and a small run. Studies stop where they would ask the model."""

    def __init__(self, model: Path, run: Path) -> None:
        self._model, self._run = model, run
        self._options = {
            name: [option for each in built(name).params for option in each.opts if option.startswith("-")]
            for name in listed()
        }

    def subjects(self) -> list[Subject]:
        """One subject: all commands."""
        return [Subject("options", 70, self._prepared)]

    def _prepared(self, rng: Random, place: Place) -> Callable[[], object]:
        for folder in (place.inputs, place.outputs):
            (folder / "file.txt").write_text("The nurse said that she was tired.\n", encoding="utf-8")
        (place.inputs / "file.toml").write_text("x = 1\n", encoding="utf-8")
        (place.outputs / "empty").mkdir(exist_ok=True)
        command, *arguments = rng.choice(COMMANDS)
        if rng.random() < 0.2:
            arguments[rng.randrange(len(arguments))] = rng.choice(_VALUES)
        for _ in range(rng.randint(0, 2)):
            arguments += [rng.choice(self._options[command]), rng.choice(_VALUES)]
        run = place.outputs / "heads"  # a report is written into its run
        if "RUN" in arguments:
            shutil.copytree(self._run, run)
        paths = {"MODEL": self._model, "RUN": run, "INPUTS": place.inputs, "OUTPUTS": place.outputs}
        for name, path in paths.items():
            arguments = [argument.replace(name, str(path)) for argument in arguments]
        runs = command in _ASKED and rng.random() < 0.1
        return lambda: called([command, *arguments], runs, place.outputs)


class Reached(Exception):
    """All options were accepted: the command would load a model now."""


def _reached(*_: object) -> object:
    raise Reached


def _no_hub(name: str, *_: object) -> object:
    """Whoever names a model of a hub asks for the network: `nan` is such a name."""
    raise UnknownModel(f"{name} is not there: the fuzzer has no hub.")


def _printed(command: list[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """A browser is a process of its own, which takes seconds and is not watched: its PDF is given instead."""
    option = "--print-to-pdf="
    printed = next((each.removeprefix(option) for each in command if each.startswith(option)), None)
    if printed is None:
        return _RUN(command, **options)
    Path(printed).write_text("%PDF levelhead", encoding="utf-8")
    return subprocess.CompletedProcess(command, 0, "", "")


def called(arguments: Sequence[str], runs: bool, folder: Path) -> None:
    """Call the command line in this process, with that folder as the current, the home and the temporary one;
    what it prints is dropped, but for an error: that must be foreseen, and end with one short line."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    errors = io.StringIO()
    loaders = () if runs else ("_load_folder", "_load_gguf", "_load_int8")
    with ExitStack() as stack:
        stack.enter_context(patch.object(sys, "argv", ["levelhead", *arguments]))
        stack.enter_context(patch.object(tempfile, "tempdir", str(folder)))
        stack.enter_context(patch.dict("os.environ", {"HOME": str(folder), "LEVELHEAD_CACHE": str(folder)}))
        stack.enter_context(patch("levelhead.pages.pdf.find_chromium", lambda: Path("chromium")))
        stack.enter_context(patch("levelhead.pages.pdf.subprocess.run", _printed))
        stack.enter_context(patch("levelhead.models.sources._download", _no_hub))
        for loader in loaders:
            stack.enter_context(patch(f"levelhead.models.sources.{loader}", _reached))
        for each in (chdir(folder), redirect_stdout(printed), redirect_stderr(errors)):
            stack.enter_context(each)
        try:
            main()
        except SystemExit as end:
            _judge(end, folder, errors.getvalue())


def _judge(end: SystemExit, folder: Path, errors: str) -> None:
    for log in folder.glob("levelhead-*.log"):
        if (text := log.read_text(encoding="utf-8", errors="replace")) and "fuzz.options.Reached" not in text:
            raise AssertionError(text)
        return
    if end.code in (0, None):
        return
    last = errors.rstrip("\n").rpartition("\n")[2]
    if errors and (not last.startswith("levelhead: ") or len(last) > _LINE):
        raise AssertionError(f"exit {end.code} with {errors[-1_000:]!r}")
    raise Refused from None
