"""The example plugins: packages with an entry point are seen by the commands; no file of src/ knows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tiny import tiny

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[1]
PLUGINS = sorted(path.parent for path in (ROOT / "examples" / "plugins").glob("*/pyproject.toml"))
PAIRS = """stereotype,opposite
The nurse gave her book.,The nurse gave his book.
The engineer was in his kitchen.,The engineer was in her kitchen.
"""

WORDS = """name = "few"
pairs = [["she", "he"], ["mother", "father"], ["woman", "man"], ["her", "his"]]
X = ["nurse", "teacher", "kitchen", "dance"]
Y = ["engineer", "book", "work", "boss"]
"""


def _installed(plugin: Path, site: Path) -> None:
    """What `pip install` puts into site-packages: the modules, and their entry points."""
    project = tomllib.loads((plugin / "pyproject.toml").read_text())
    for module in project["tool"]["setuptools"]["py-modules"]:
        (site / f"{module}.py").write_text((plugin / f"{module}.py").read_text())
    name, version = project["project"]["name"], project["project"]["version"]
    about = site / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = project["project"]["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups]
    (about / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all example plugins installed, a tiny model, a file of pairs and one of words."""
    folder = tmp_path_factory.mktemp("site")
    for plugin in PLUGINS:
        _installed(plugin, folder)
    model = tiny("bert", "nsp", layers=2, max_position_embeddings=256)
    model.hf.save_pretrained(folder / "model")
    model.tokenizer.save_pretrained(folder / "model")
    (folder / "pairs.csv").write_text(PAIRS)
    (folder / "words.toml").write_text(WORDS)
    return folder


LINES = {
    "list": ("benchmark", "--list"),
    "benchmark": ("benchmark", "office-pairs", "model", "--data", "pairs.csv", "--null", "0", "--json"),
    "mitigate": ("mitigate", "model", "--methods", "quieter heads,nothing", "-o", "run"),
    "atlas": (
        *("atlas", "model", "--localizer", "half heads", "--objectives", "seat", "--bias", "words.toml"),
        *("--null", "0", "--splits", "1", "--json", "-o", "atlas"),
    ),
}
TYPED = """
import contextlib, io, json, sys
from levelhead.cli.entry import main
from levelhead.pages import page

page.vega_bundle = str  # nobody looks at the pages, and bundling the scripts takes seconds
answers = {}
for name, words in json.loads(sys.argv[1]).items():
    sys.argv = ["levelhead", *words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            answers[name] = [end.code or 0, out.getvalue(), err.getvalue()]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(site: Path) -> dict[str, tuple[int, str, str]]:
    """Exit code, standard output and standard error of each line; one process types all of them."""
    paths = os.pathsep.join([str(site), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", TYPED, json.dumps(LINES)],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=site,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    found: dict[str, tuple[int, str, str]] = json.loads(done.stdout)
    assert found.keys() == LINES.keys()
    return found


@pytest.mark.slow
def test_a_benchmark_of_a_package_is_measured(answers: dict[str, tuple[int, str, str]]) -> None:
    _, listed, error = answers["list"]
    assert "office-pairs" in listed, error
    code, printed, error = answers["benchmark"]
    assert code == 0, error
    assert "office-pairs share" in printed
    json.loads(printed)


@pytest.mark.slow
def test_a_mitigation_of_a_package_is_known_by_its_name(answers: dict[str, tuple[int, str, str]]) -> None:
    code, _, error = answers["mitigate"]
    assert code == 2
    assert "No mitigation is called 'nothing'" in error
    assert "quieter heads" in error


@pytest.mark.slow
def test_a_localizer_of_a_package_maps_heads(answers: dict[str, tuple[int, str, str]]) -> None:
    code, printed, error = answers["atlas"]
    assert code == 0, error
    assert json.loads(printed)


def test_plugins_are_short_and_src_knows_none_of_them() -> None:
    assert len(PLUGINS) == 3
    names = {module.stem for plugin in PLUGINS for module in plugin.glob("*.py")}
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for plugin in PLUGINS:
        for module in plugin.glob("*.py"):
            assert len(module.read_text().splitlines()) <= 60
    assert not [name for name in names if name in source or name.replace("_", "-") in source]
