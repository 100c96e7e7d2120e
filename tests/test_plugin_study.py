"""A study of an installed package: a command, a function, a chapter and a run like those that ship; one that
cannot be used is one line. And what one line, or one folder, adds to the package."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tiny import tiny

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "plugin-study"
SOURCE = ROOT / "src" / "levelhead"


def install(site: Path, package: str, points: dict[str, str]) -> None:
    """What pip writes beside a package: its name, and its entry points."""
    about = site / f"{package.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (about / "entry_points.txt").write_text(f"[levelhead.studies]\n{lines}")


def python(site: Path, *words: str, source: Path = SOURCE.parent) -> subprocess.CompletedProcess[str]:
    """A process of Python in which the packages of a folder are installed."""
    paths = os.pathsep.join(map(str, (site, source)))
    environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "200", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, *words], cwd=site, env=environment, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def levelhead(site: Path, *words: str, source: Path = SOURCE.parent) -> subprocess.CompletedProcess[str]:
    return python(site, "-m", "levelhead", *words, source=source)


# ---- a study that works


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example installed, and a tiny model."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    (package,) = project["tool"]["setuptools"]["packages"]
    shutil.copytree(EXAMPLE / package, folder / package)
    install(folder, project["project"]["name"], project["project"]["entry-points"]["levelhead.studies"])
    model = tiny("gpt2")
    model.hf.save_pretrained(folder / "model")
    model.tokenizer.save_pretrained(folder / "model")
    return folder


@pytest.fixture(scope="module")
def run(site: Path) -> Path:
    """A run that the command made."""
    done = levelhead(site, "pronouns", "model", "-o", "run", "--prompt", "The nurse said that", "--seed", "3")
    assert done.returncode == 0, done.stderr
    assert "What follows each prompt" in done.stdout
    return site / "run"


CALLED = """
import json, sys
import levelhead as lh

found = lh.open_run("run")
again = lh.pronouns("model", lh.settings.PronounsSettings(prompts=("The nurse said that",), seed=3), "run")
free = lh.pronouns("model")
from levelhead.runs.again import command

print(json.dumps({
    "type": type(found).__name__, "same": found.share == again.share, "asked": len(free.continued),
    "line": command(found), "page": lh.report("run").html, "lines": found.lines(),
    "help": lh.pronouns.__doc__,
}))
"""


def test_a_study_of_a_package_is_a_command_with_help_among_the_others(site: Path) -> None:
    assert "pronouns" in levelhead(site, "--help").stdout
    shown = levelhead(site, "pronouns", "--help").stdout
    assert all(word in shown for word in ("--prompt", "--resamples", "What counts as a pronoun.", "--device"))


@pytest.mark.nightly
def test_it_is_a_function_a_run_a_chapter_and_a_line_that_makes_the_run_again(site: Path, run: Path) -> None:
    results = (run / "results.jsonl").read_bytes()
    said = json.loads(python(site, "-c", CALLED).stdout)
    assert (said["type"], said["same"], said["asked"]) == ("Pronouns", True, 4)
    assert "How often is the likeliest next token a pronoun?" in said["page"]
    assert "The nurse said that" in said["page"]
    assert [line["prompt"] for line in said["lines"]] == ["The nurse said that"]
    assert "prompts: A text to continue" in said["help"]
    program, *words = shlex.split(said["line"])
    assert (program, words[0]) == ("levelhead", "pronouns")
    assert levelhead(site, *words).returncode == 0
    assert (run / "results.jsonl").read_bytes() == results  # nothing was asked twice


@pytest.mark.nightly
def test_a_killed_run_of_it_goes_on_where_it_was(site: Path, run: Path) -> None:
    results = (run / "results.jsonl").read_bytes()
    shutil.copytree(run, site / "killed")
    (site / "killed" / "results.jsonl").write_bytes(results[: results.index(b"\n") + 9])
    words = ("pronouns", "model", "-o", "killed", "--prompt", "The nurse said that", "--seed", "3")
    assert levelhead(site, *words).returncode == 0
    assert (site / "killed" / "results.jsonl").read_bytes() == results


def test_what_it_refuses_is_one_line(site: Path) -> None:
    done = levelhead(site, "pronouns", "model", "-o", "new", "--resamples", "0")
    assert done.returncode == 2
    assert done.stderr.startswith("levelhead: ")
    assert not (site / "new").exists()


# ---- studies that cannot be used

BAD = {
    "raises": ("broken:Study", "raise ValueError('no\\nwheels')", "ValueError: no wheels"),
    "leaves": ("broken:Study", "import sys; sys.exit(3)", "SystemExit: 3"),
    "missing": ("broken:Study", "", "AttributeError"),
    "no-study": ("broken:Thing", "class Thing: pass", "is no Study"),
    "empty-module": ("broken", "", "declares 0 studies"),
    "nameless": (
        "broken:Mine",
        "from levelhead.runs.study import Study\nclass Mine(Study): pass",
        "does not say name",
    ),
    "heads": (
        "broken:Heads",
        "from levelhead.studies.heads import Heads",
        "levelhead has something else that is called heads",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_study_that_cannot_be_used_is_one_line_that_names_its_package_and_harms_no_other(
    name: str, tmp_path: Path
) -> None:
    value, text, why = BAD[name]
    (tmp_path / "broken.py").write_text(f"print('loading')\n{text}\n")
    install(tmp_path, "broken-study", {name: value})
    done = levelhead(tmp_path, "cache", "--json")
    assert done.returncode == 0
    json.loads(done.stdout)  # what it prints is not among it
    (line,) = [each for each in done.stderr.splitlines() if each != "loading"]
    assert line.startswith(f"levelhead: The study '{name}' of the package broken-study cannot be used (")
    assert why in line


@pytest.mark.nightly
def test_a_study_that_cannot_be_used_is_one_line_in_python_too(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('no wheels')\n")
    install(tmp_path, "broken-study", {"wheels": "broken"})
    code = "import levelhead as lh\ntry: lh.wheels\nexcept lh.LevelheadError as error: print(error)\nlh.heads"
    assert (
        "package broken-study cannot be used (ValueError: no wheels)" in python(tmp_path, "-c", code).stdout
    )


# ---- one line, one folder: in a copy of the package

SETTING = '    nats: float = option(4.0, "Of attention, by each attention plant.")\n'
ASKED = """
import levelhead as lh
from levelhead.runs.again import command
from levelhead.runs.folder import Run
from levelhead.studies.planted import Planted
from levelhead.studies.planted.settings import PlantedStored

settings = lh.settings.PlantedSettings(shade=0.25)
stored = PlantedStored(study="planted", models=("lh:bert-mini",), layers=2, heads_in_all=4, shade=0.25)
Run.open("asked", Planted, stored).close()
print(settings.shade, lh.__file__)
print(command(lh.open_run("asked")))
try:
    lh.settings.PlantedSettings(shade=2.0)
except lh.LevelheadError as error:
    print(error)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package without weights and data of its own."""
    ignored = shutil.ignore_patterns("__pycache__", "*.safetensors", "weights")
    shutil.copytree(SOURCE, tmp_path / "levelhead", ignore=ignored)
    return tmp_path


@pytest.mark.nightly
def test_a_setting_is_one_line(copy: Path) -> None:
    path = copy / "levelhead" / "studies" / "planted" / "settings.py"
    text = path.read_text()
    assert text.count(SETTING) == 1
    new = '    shade: float = option(0.5, "How dark a plant is.", above=0, most=1)\n'
    path.write_text(text.replace(SETTING, SETTING + new))
    shown = levelhead(copy, "planted", "--help", source=copy).stdout
    assert "--shade" in shown
    assert "How dark a plant is." in shown
    value, line, refusal = python(copy, "-c", ASKED, source=copy).stdout.splitlines()
    assert value == f"0.25 {copy / 'levelhead' / '__init__.py'}"
    assert "--shade 0.25" in line
    assert refusal == "shade must be at most 1 (got 2)"
    done = levelhead(copy, "planted", "lh:bert-mini", "-o", "new", "--shade", "2", source=copy)
    assert (done.returncode, refusal in done.stderr) == (2, True)


@pytest.mark.nightly
def test_a_study_is_one_folder(copy: Path) -> None:
    place = copy / "levelhead" / "studies" / "pronouns"
    shutil.copytree(EXAMPLE / "pronouns", place, ignore=shutil.ignore_patterns("__pycache__"))
    for path in place.glob("*.py"):
        text = path.read_text().replace("from pronouns import", "from levelhead.studies.pronouns import")
        path.write_text(text)
    model = tiny("gpt2")
    model.hf.save_pretrained(copy / "model")
    model.tokenizer.save_pretrained(copy / "model")
    done = levelhead(copy, "pronouns", "model", "-o", "run", source=copy)
    assert done.returncode == 0, done.stderr
    code = "import levelhead as lh; run = lh.open_run('run'); print(type(run).__module__, run.share.n)"
    assert python(copy, "-c", code, source=copy).stdout.split() == ["levelhead.studies.pronouns", "4"]
