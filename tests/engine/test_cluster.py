"""Several machines, each with folders of its own: the same bytes whoever leaves, or one line before work."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from benchmarks.cluster import compared
from benchmarks.jobs import prepare, resolved

from tests.cluster import ROOT, Cluster, cluster, finished, listening, require_namespaces

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(
        not os.environ.get("LEVELHEAD_CLUSTER"),
        reason="Ray nodes do not start beside other tests on two cores: make test-cluster",
    ),
]
HEADS = ("heads", "MASKED", "--bias", "WORDS", "--experiments", "scores", "--null", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("ray")
    require_namespaces()
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def inputs(folder: Path) -> dict[str, str]:
    return prepare(folder / "models")


@pytest.fixture
def nodes(folder: Path, inputs: dict[str, str], tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes of one worker each, which do not see the models."""
    with cluster(tmp_path / "c", 2, [folder / "models"]) as made:
        (tmp_path / "c/driver").mkdir(exist_ok=True)
        yield made


@pytest.mark.parametrize(("study", "seed"), [("heads", 0), ("survey", 3), ("generate", 5)])
def test_a_study_has_the_same_bytes_while_nodes_are_killed_stall_and_join(
    nodes: Cluster, inputs: dict[str, str], study: str, seed: int
) -> None:
    outcome = compared(study, nodes, inputs, ["join", "stall", "kill"], Random(seed), pause=6.0)
    assert outcome.fault == ""
    assert (outcome.kills, outcome.stalls, outcome.joins) == (1, 1, 1)
    places = listening([pid for node in nodes.nodes for pid in node.members()])
    assert places
    assert all(loopback for loopback in places.values())
    caches = [node.place / "home/.cache/levelhead/gguf" for node in nodes.nodes[1:]]
    modes = [stat.S_IMODE(each.stat().st_mode) for each in caches if each.exists()]
    assert modes
    assert set(modes) == {0o700}
    assert {stat.S_IMODE((node.place / "tmp").stat().st_mode) for node in nodes.nodes} == {0o700}


def test_a_node_with_another_levelhead_or_other_weights_or_none_is_refused_before_any_work(
    nodes: Cluster, folder: Path, inputs: dict[str, str], tmp_path: Path
) -> None:
    command = [*resolved(HEADS, inputs), "--workers", "3"]
    code, said = finished(nodes.driver(*command, "--no-ship-model", "-o", "none"))
    last = said.strip().splitlines()[-1]
    assert (code, last.startswith("levelhead: Node n")) == (3, True)
    assert "MASKED is not there. Put it there, or let it be sent (--ship-model)." in last

    other = tmp_path / "other"  # the same path, with other weights
    program = f"""
import sys, torch
from tests.tiny import tiny
model = tiny("bert", "nsp", layers=2, max_position_embeddings=256)
with torch.no_grad():
    next(model.hf.parameters()).add_(0.1)
model.hf.save_pretrained({str(other)!r}); model.tokenizer.save_pretrained({str(other)!r})
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True)
    nodes.brings = (other, Path(inputs["MASKED"]))
    nodes.add()
    code, said = finished(nodes.driver(*command, "-o", "weights"))
    last = said.strip().splitlines()[-1]
    assert code == 3
    assert last.startswith("levelhead: Node n3 (")
    assert "is another model where a worker loads it" in last
    assert not (nodes.place / "driver/weights/head_scores.csv").exists()
    nodes.brings = None

    changed = tmp_path / "changed"  # another levelhead that calls itself the same version
    shutil.copytree(ROOT / "src", changed, ignore=lambda _, names: [n for n in names if n == "__pycache__"])
    with (changed / "levelhead/errors.py").open("a") as file:
        file.write("# changed\n")
    nodes.add(PYTHONPATH=f"{changed}{os.pathsep}{ROOT}")
    start = time.monotonic()
    code, said = finished(nodes.driver(*command, "-o", "code"))
    last = said.strip().splitlines()[-1]
    assert code == 3
    assert last.startswith("levelhead: Node n4 (")
    assert "has another levelhead" in last
    assert time.monotonic() - start < 300
    assert not (nodes.place / "driver/code/head_scores.csv").exists()


def test_a_worker_with_two_cards_has_both_on_one_node_and_the_driver_needs_no_weights(
    folder: Path, inputs: dict[str, str], tmp_path: Path
) -> None:
    program = """
import os, sys
from levelhead.engine.ray_workers import crew, dismiss
from levelhead.models.placement import Workers

def cards() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")

made = crew(Workers(2, 2, sys.argv[1]))
print(sorted(made.call(cards, [(), ()])))
dismiss()
"""
    with cluster(tmp_path / "c", 2, gpus=3) as made:  # cards that are only counted
        place = made.place / "driver"
        environment = made.environment(place)
        command = [sys.executable, "-c", program, made.address]
        done = subprocess.run(
            command, env=environment, cwd=place, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "['0,1', '0,1']\n"


def test_a_cluster_is_closed_to_who_has_no_token(nodes: Cluster, inputs: dict[str, str]) -> None:
    command = [*resolved(HEADS, inputs), "--workers", "1", "-o", "run"]
    code, said = finished(nodes.driver(*command, RAY_AUTH_TOKEN="0" * 64))
    last = said.strip().splitlines()[-1]
    assert code == 2
    assert last.startswith(f"levelhead: No Ray cluster at '{nodes.address}' for this command")
