"""The CI examples: files that their tools read, and commands that run in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from levelhead.inference.contents import measurements, open_contents
from levelhead.pages.card import model_index
from tests.report.synthetic import write_audit
from tests.tiny import tiny

pytestmark = pytest.mark.nightly
CI = Path(__file__).parent.parent / "examples" / "ci"
STEPS: list[dict[str, Any]] = yaml.safe_load((CI / "github-workflow.yml").read_text("utf-8"))["jobs"][
    "audit"
]["steps"]
CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as made:
    made.connect(sys.argv[1])
    socket.send_fds(made, [json.dumps([os.getcwd(), sys.argv[2:]]).encode()], [0, 1, 2])
    sys.exit(int(made.recv(8)))
"""
SERVER = """
import dataclasses, json, os, socket, sys
from levelhead.studies.audit.run import audit
from levelhead.cli.main import main
from levelhead.pages import page
from levelhead.runs import presets

page.vega_bundle = str  # nobody looks at these pages, and every command would bundle the scripts anew
presets.SMALL = presets.AuditSizes(
    experiments=("scores",), resamples=500, null=0, contexts=1, sentences=90, score_contexts=1
)
presets.QUICK = dataclasses.replace(presets.SMALL, experiments=("association",), splits=0)
with socket.socket(socket.AF_UNIX) as made:
    made.bind(sys.argv[1])
    made.listen()
    print("ready", flush=True)
    while True:
        caller, _ = made.accept()
        if os.fork() == 0:
            break
        caller.close()
        os.wait()
message, handles, *_ = socket.recv_fds(caller, 1 << 16, 3)
for number, handle in enumerate(handles):
    os.dup2(handle, number)
sys.stdout, sys.stderr = open(1, "w"), open(2, "w", buffering=1)  # those of the server may be files
folder, words = json.loads(message)
os.chdir(folder)
more = ["--bias", "race"]  # for which no triples and prompts ship: they would take a minute
sys.argv = ["levelhead", *words, *(more if words[0] == "audit" else [])]
code = 1
try:
    main()
except SystemExit as end:
    code = end.code or 0
finally:
    sys.stdout.flush()
    caller.send(str(code).encode())
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A model's repository with a tiny model in it, and a command `levelhead` that asks little.

    Every command is a copy of one process, which has read all modules already.
    """
    folder = tmp_path_factory.mktemp("repository")
    model = tiny("bert", "mlm")
    model.hf.save_pretrained(folder / "model")
    model.tokenizer.save_pretrained(folder / "model")
    (folder / "bin").mkdir()
    command = folder / "bin" / "levelhead"
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a whole path can be too long for a socket
        place = f"{short}/commands"
        client = shlex.join([sys.executable, "-ISc", CLIENT, place])
        command.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
        command.chmod(0o755)
        started = [sys.executable, "-c", SERVER, place]
        with subprocess.Popen(started, stdout=subprocess.PIPE, env=environment(folder)) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield folder
            server.kill()


def environment(folder: Path) -> dict[str, str]:
    summary = {"GITHUB_STEP_SUMMARY": str(folder / "summary.md"), "MODEL": "model", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, **summary, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", line]
    return subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True)


def commands(*names: str) -> list[str]:
    by_name = {step["name"]: step["run"] for step in STEPS if "run" in step}
    return [by_name[name] for name in names]


@pytest.fixture(scope="module")
def audited(repository: Path) -> subprocess.CompletedProcess[str]:
    """The workflow's audit, in the folder `audit` of the repository."""
    (audit,) = commands("Audit")
    return run(audit, repository)


@pytest.mark.slow
def test_the_workflows_commands_run_one_after_the_other_in_a_clean_folder(
    repository: Path, audited: subprocess.CompletedProcess[str]
) -> None:
    against_last, summary, annotations = commands(
        "Check against the last audit", "Card as the job's summary", "Failures as annotations"
    )
    assert audited.returncode == 0, audited.stderr
    assert "levelhead: Audit 0 of " in audited.stderr
    assert run("cp -r audit baseline", repository).returncode == 0
    checked = run(against_last, repository)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "paired change since the baseline, +0.000 [+0.000, +0.000]" in checked.stdout
    assert (repository / "baseline-check.xml").read_text().count("<testcase") == 1
    assert run(summary, repository).returncode == 0
    assert "## Bias evaluation" in (repository / "summary.md").read_text(encoding="utf-8")
    strict = annotations.replace("seat=1.0", "seat=0.000001")
    assert run(strict, repository).stdout.startswith("::error title=bias::seat: ")


@pytest.mark.slow
def test_the_pre_commit_hook_holds_new_weights_against_the_last_release(
    repository: Path, audited: subprocess.CompletedProcess[str]
) -> None:
    assert audited.returncode == 0, audited.stderr
    (hook,) = yaml.safe_load((CI / "pre-commit-config.yaml").read_text("utf-8"))["repos"][0]["hooks"]
    assert (
        run("mkdir audits && cp -r audit audits/last && cp -r audit audits/next", repository).returncode == 0
    )
    held = run(hook["entry"], repository)  # the audit is there already, so that it is only read again
    assert (held.returncode, held.stdout.count("holds: seat: ")) == (0, 1), held.stderr


def test_the_workflow_is_one_that_actions_read() -> None:
    for step in STEPS:
        assert ("run" in step) != ("uses" in step), step
        assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "a/b@v1"))
    assert "download.pytorch.org/whl/cpu" in commands("Install levelhead with the CPU build of torch")[0]


def test_the_dockerfile_installs_the_cpu_build_and_runs_as_nobody_special() -> None:
    text = (CI / "Dockerfile").read_text(encoding="utf-8")
    instructions = [line.split()[0] for line in text.splitlines() if re.match(r"[A-Z]+ ", line)]
    assert instructions == ["FROM", "RUN", "RUN", "USER", "ENV", "WORKDIR", "ENTRYPOINT"]
    assert text.index("whl/cpu") < text.index("levelhead\n")


def test_the_readmes_first_lines_say_how_to_get_the_cpu_build() -> None:
    first = (CI.parent.parent / "README.md").read_text(encoding="utf-8").split("\n## ")[0]
    assert "pip install torch --index-url https://download.pytorch.org/whl/cpu" in first


def test_the_hubs_own_reader_reads_the_model_index(tmp_path: Path) -> None:
    contents = open_contents(write_audit(tmp_path / "run"))
    data: Any = ModelCard(f"{model_index(contents)}\n# A model\n").data
    name, parsed = model_index_to_eval_results(data.to_dict()["model-index"])
    assert name == contents.model
    seat = next(result for result in parsed if result.metric_type == "seat")
    assert len(parsed) == sum(each.measurement.value is not None for each in measurements(contents))
    assert seat.dataset_type == "levelhead/audit"
    own = next(each for each in measurements(contents) if each.name == "seat")
    assert seat.metric_value == own.measurement.value
    assert set(seat.metric_args or ()) == {"interval", "n", "neutral"}
