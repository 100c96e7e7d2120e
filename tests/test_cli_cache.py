"""The command cache, and --no-cache, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.fuzz.models import write_gguf

from tests.test_cli import call


def test_a_kept_model_is_listed_and_cleared_and_no_cache_keeps_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEVELHEAD_CACHE", str(tmp_path / "kept"))
    model = str(write_gguf(tmp_path / "tiny.gguf"))

    def kept(*options: str) -> list[str]:
        capsys.readouterr()
        assert call(monkeypatch, "cache", "--json", *options) == 0
        return [entry["source"] for entry in json.loads(capsys.readouterr().out)["entries"]]

    assert call(monkeypatch, "models", model, "--json", "--no-cache") == 0
    facts = json.loads(capsys.readouterr().out)
    assert kept() == []
    assert call(monkeypatch, "models", model, "--json") == 0
    assert json.loads(capsys.readouterr().out) == facts
    assert kept() == ["tiny.gguf"]
    assert call(monkeypatch, "cache") == 0
    shown = capsys.readouterr().out
    assert "tiny.gguf" in shown
    assert "at most 20.00 GiB" in shown
    assert kept("--clear") == []
