"""The whole story, end to end, on a tiny causal model that cannot do everything."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.errors import BadRun
from levelhead.results.folder import read_run
from tests.test_cli import call
from tests.tiny import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal model as a plain folder: no next-sentence head, no masked-language head."""
    path = tmp_path_factory.mktemp("model") / "tiny-llama"
    model = tiny("llama")
    model.hf.save_pretrained(path)
    model.tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def audited(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> lh.Audit:
    return lh.audit(str(folder), tmp_path_factory.mktemp("runs") / "whole")


@pytest.mark.slow
def test_an_audit_of_a_causal_model_completes_and_says_what_it_could_not_measure(audited: lh.Audit) -> None:
    assert audited["seat"]["value"] is not None
    assert audited["strength"]["value"] is not None  # by likelihood, since there is no next-sentence head
    for measure in ("lpbs career", "fairness", "ability"):
        assert audited[measure]["value"] is None
        assert audited[measure]["reason"]
    assert "Not measured:" in audited.findings[-1]
    variants = [name for name in audited.measurements if name != "base"]
    assert variants[0].startswith("without heads ")
    assert audited.measurements[variants[0]]["fluency change"]["value"] > 0
    assert audited.report is not None
    assert audited.headline in audited.report.read_text(encoding="utf-8").replace("&lt;", "<")


@pytest.mark.slow
def test_the_object_holds_the_numbers_of_the_run_folder_and_shows_itself(audited: lh.Audit) -> None:
    rows = read_run(audited.folder).results
    assert audited["seat"] == rows["measure/seat"][0]
    assert rows["measure/seat"][0]["value"] == read_run(audited.folder / "heads").results["seat"][0]["value"]
    assert lh.read_audit(audited.folder).measurements == audited.measurements
    html = audited._repr_html_()
    assert f"{audited['seat']['value']:.3f}" in html


@pytest.mark.slow
def test_check_holds_exceeds_and_does_not_pretend(
    audited: lh.Audit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(audited.folder)
    assert call(monkeypatch, "check", run, "--max", "seat=2.1") == 0
    assert call(monkeypatch, "check", run, "--max", "seat=0.000001") == 1
    assert call(monkeypatch, "check", run, "--min", "fairness=0.1") == 2
    assert "not measured" in capsys.readouterr().out


AUDIT = "import sys; import levelhead as lh; lh.audit(sys.argv[1], sys.argv[2])"


@pytest.mark.slow
def test_an_audit_killed_at_random_moments_resumes_to_the_same_bytes(
    audited: lh.Audit, folder: Path, tmp_path: Path
) -> None:
    broken, rng = tmp_path / "broken", random.Random(7)
    command = [sys.executable, "-c", AUDIT, str(folder), str(broken)]
    kills = 0
    for _ in range(4):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        results = broken / "results.jsonl"
        before = results.stat().st_size if results.exists() else -1
        while process.poll() is None and (not results.exists() or results.stat().st_size == before):
            time.sleep(0.05)  # until it has added something, so that every kill finds it at another place
        time.sleep(rng.uniform(0, 3))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 2
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    for name in ("results.jsonl", "heads/results.jsonl", "prompts/results.jsonl"):
        assert (broken / name).read_bytes() == (audited.folder / name).read_bytes(), name


@pytest.mark.slow
def test_an_audit_with_other_settings_does_not_mix_into_a_run(audited: lh.Audit, folder: Path) -> None:
    with pytest.raises(BadRun, match="seed"):
        lh.audit(str(folder), audited.folder, lh.AuditSettings(seed=1))
    assert json.loads((audited.folder / "settings.json").read_text(encoding="utf-8"))["settings"]["seed"] == 0
