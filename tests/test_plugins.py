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

ROOT = Path(__file__).parents[1]
PLUGINS = sorted(path.parent for path in (ROOT / "examples" / "plugins").glob("*/pyproject.toml"))
PAIRS = """stereotype,opposite
The nurse gave her book.,The nurse gave his book.
The engineer was in his kitchen.,The engineer was in her kitchen.
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
    """A folder with all example plugins installed, a tiny model and a file of pairs."""
    folder = tmp_path_factory.mktemp("site")
    for plugin in PLUGINS:
        _installed(plugin, folder)
    model = tiny("bert", "nsp", layers=2, max_position_embeddings=256)
    model.hf.save_pretrained(folder / "model")
    model.tokenizer.save_pretrained(folder / "model")
    (folder / "pairs.csv").write_text(PAIRS)
    return folder


def _levelhead(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(site), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", "from levelhead.cli.entry import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=site,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
def test_a_benchmark_of_a_package_is_measured(site: Path) -> None:
    listed = _levelhead(site, "measure", "--list")
    assert "office-pairs" in listed.stdout, listed.stderr
    done = _levelhead(
        site, "measure", "office-pairs", "model", "--data", "pairs.csv", "--null", "0", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert "office-pairs share" in done.stdout
    json.loads(done.stdout)


@pytest.mark.slow
def test_a_mitigation_of_a_package_is_known_by_its_name(site: Path) -> None:
    options = ("mitigate", "model", "--methods", "quieter heads,nothing", "-o", "run")
    refused = _levelhead(site, *options)
    assert refused.returncode == 2
    assert "No mitigation is called 'nothing'" in refused.stderr
    assert "quieter heads" in refused.stderr


@pytest.mark.slow
def test_a_localizer_of_a_package_maps_heads(site: Path) -> None:
    (site / "words.toml").write_text(
        'name = "few"\npairs = [["she", "he"], ["mother", "father"], ["woman", "man"], ["her", "his"]]\n'
        'X = ["nurse", "teacher", "kitchen", "dance"]\nY = ["engineer", "book", "work", "boss"]\n'
    )
    options = ("--objectives", "seat", "--bias", "words.toml", "--null", "0", "--splits", "1", "--json")
    done = _levelhead(site, "atlas", "model", "--localizer", "half heads", *options, "-o", "atlas")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_plugins_are_short_and_src_knows_none_of_them() -> None:
    assert len(PLUGINS) == 3
    names = {module.stem for plugin in PLUGINS for module in plugin.glob("*.py")}
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for plugin in PLUGINS:
        for module in plugin.glob("*.py"):
            assert len(module.read_text().splitlines()) <= 60
    assert not [name for name in names if name in source or name.replace("_", "-") in source]
