"""Which changes make another model, and which do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from levelhead.models.model import load
from tests.tiny import tiny


def saved(folder: Path) -> Path:
    model = tiny("bert")
    model.hf.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


def rewrite(path: Path, change: Any) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")


def exchange_ids(tokenizer: dict[str, Any]) -> None:
    words = tokenizer["model"]["vocab"]
    first, second = [word for word in words if word.isalpha()][-2:]
    words[first], words[second] = words[second], words[first]


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("tokenizer.json", exchange_ids),
        ("config.json", lambda config: config.update(hidden_act="relu")),
        ("config.json", lambda config: config.update(layer_norm_eps=1e-3)),
    ],
    ids=["two ids exchanged", "another activation", "another epsilon"],
)
def test_a_changed_tokenizer_or_configuration_is_another_model(
    tmp_path: Path, file: str, change: Any
) -> None:
    folder = saved(tmp_path / "model")
    before = load(str(folder), device="cpu").fingerprint
    rewrite(folder / file, change)
    assert load(str(folder), device="cpu").fingerprint != before


def test_a_model_that_is_saved_and_read_again_is_the_same(tmp_path: Path) -> None:
    first = load(str(saved(tmp_path / "once")), device="cpu")
    first.tokenizer(["a text", "a longer text"], padding=True, truncation=True, max_length=3)
    first.hf.save_pretrained(tmp_path / "again")
    first.tokenizer.save_pretrained(tmp_path / "again")
    again = load(str(tmp_path / "again"), device="cpu")
    assert first.fingerprint == again.fingerprint == tiny("bert").fingerprint
