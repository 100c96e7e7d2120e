"""What users install: the wheel, outside the repository, with nothing of the repository in reach."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.word_lists import RELIGION, toml

ROOT = Path(__file__).resolve().parents[1]
SMALL = """
import levelhead, sys
from levelhead.cli.main import main
from levelhead.runs.presets import AuditSizes

sizes = AuditSizes(
    experiments=("scores",), contexts=1, score_contexts=1, triples=60, occupations=(4, 1), abilities=12,
    sentences=40, backgrounds=1, null=0, resamples=100,
)
settings = levelhead.settings.AuditSettings(bias=sys.argv[2], sizes=sizes)
result = levelhead.audit("lh:bert-mini", settings, sys.argv[1])
print(levelhead.__file__)
print(result.headline.text)
sys.argv = ["levelhead", "models", "--json"]
main()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel; its requirements come from the environment of the tests."""
    place = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(place),
    ]
    subprocess.run([*build, str(ROOT)], check=True, cwd=place, capture_output=True)
    (wheel,) = place.glob("levelhead-*.whl")
    folder = place / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed: Path, cwd: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.nightly
def test_an_audit_runs_from_the_installed_wheel_which_lists_the_models_that_ship(
    installed: Path, tmp_path: Path
) -> None:
    words = toml(tmp_path, RELIGION)  # of gender it would ask 580 prompts
    printed = run(installed, tmp_path, "-c", SMALL, str(tmp_path / "run"), words)
    place, headline, *listed = printed.splitlines()
    assert place.startswith(str(installed))
    assert "lh:bert-mini" in headline
    assert (tmp_path / "run" / "report.html").stat().st_size > 100_000
    names = {each["name"] for each in json.loads("\n".join(listed))}
    assert {"lh:bert-mini", "lh:gpt-mini", "lh:nli-mini"} <= names


PROBES = """
from levelhead.probes.cloze import load_cloze
from levelhead.probes.nli import ability_pairs, nli_probe
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words

hashes = [each.fingerprint for each in (load_cloze(), nli_probe(), ability_pairs(), load_triples())]
print(*hashes, *(load_words(name).fingerprint() for name in ("gender", "career")), len(fluency_sentences()))
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_its_probes_are_those_of_the_repository(
    installed: Path, tmp_path: Path
) -> None:
    def files(package: Path) -> set[Path]:
        paths = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(package) for path in paths}

    assert files(installed / "levelhead") == files(ROOT / "src" / "levelhead")
    here = io.StringIO()
    with redirect_stdout(here):
        exec(PROBES, {})
    assert run(installed, tmp_path, "-c", PROBES) == here.getvalue()


# ---- wheel and source distribution in fresh environments

SDIST = "import setuptools.build_meta as build; print(build.build_sdist('dist'))"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and a source distribution, built from a copy of what the repository tracks."""
    place = tmp_path_factory.mktemp("built")
    copy = place / "source"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
    subprocess.run([sys.executable, "-c", SDIST], check=True, cwd=copy, capture_output=True)
    wheel = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        "dist",
        ".",
    ]
    subprocess.run(wheel, check=True, cwd=copy, capture_output=True)
    return copy / "dist"


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("ending", [".whl", ".tar.gz"])
def test_what_is_released_installs_and_runs_in_a_fresh_environment(
    ending: str, built: Path, tmp_path: Path
) -> None:
    (released,) = (each for each in built.iterdir() if each.name.endswith(ending))
    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    (packages,) = fresh.glob("lib/python*/site-packages")
    # torch and all else come from the environment of the tests; its editable levelhead does not, as a line
    # of a .pth file adds a folder without the .pth files in it
    (packages / "requirements.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    install = ["-m", "pip", "--python", str(fresh / "bin" / "python"), "install", "-q", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", str(released)]
    done = subprocess.run([sys.executable, *install, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["HF_HUB_OFFLINE"] = "1"

    def printed(*command: str) -> str:
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr[-2000:]
        return ran.stdout

    where = printed(str(fresh / "bin" / "python"), "-c", "import levelhead; print(levelhead.__file__)")
    assert where.startswith(str(packages))
    command = ("seat", "lh:bert-mini", "career", "--per-word", "1", "--json")
    found = json.loads(printed(str(fresh / "bin" / "levelhead"), *command))
    assert 0 < found["value"] < 2
