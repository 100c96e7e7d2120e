"""Which changes make another model, and which do not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import levelhead
from levelhead.errors import Announcement, UnknownModel
from levelhead.models.model import load
from tests.tiny import tiny

WEIGHTS = "weights-int8.safetensors"


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


def test_a_lora_beside_the_weights_is_announced_and_part_of_the_model(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    folder = saved(tmp_path / "model")
    plain = load(folder, device="cpu")
    settings = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["query"], init_lora_weights=False)
    adapted = tiny("bert").hf
    adapted.add_adapter(settings)
    adapted.save_pretrained(folder)  # the LoRA alone
    with pytest.warns(Announcement, match="LoRA in adapter_config.json"):
        model = load(folder, device="cpu")
    assert model.fingerprint != plain.fingerprint
    assert "with a LoRA" in repr(model)
    assert "LoRA beside the weights" not in plain.facts()
    assert "LoRA beside the weights of one" in model.facts("one")
    rewrite(folder / "adapter_config.json", lambda config: config.update(lora_alpha=8))
    with pytest.warns(Announcement):
        stronger = load(folder, device="cpu")
    assert stronger.fingerprint != model.fingerprint


def test_weights_that_are_zero_are_named_and_not_the_table_of_families() -> None:
    model = tiny("bert")
    for weight in model.hf.parameters():
        weight.data.zero_()
    with pytest.raises(UnknownModel, match="weight matrices hold zeros only") as caught:
        load(model.hf, model.tokenizer)
    assert "families" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "file", "digest"),
    [
        ("bert-mini", "tokenizer.json", "b1c3f12c2fd43b45c69f38f00fafc284a4e114cb86f7aa30deee5d67dfda86c6"),
        ("gpt-mini", "tokenizer.json", "d5e51df1b83408810b89510947f90c86303e8271341dcf1e699edc104446a02f"),
        ("nli-mini", "tokenizer.json", "b1c3f12c2fd43b45c69f38f00fafc284a4e114cb86f7aa30deee5d67dfda86c6"),
        ("bert-mini", WEIGHTS, "4fb675d5250003f6b63ead9ee3946b7c6230d206101fb13397086ef84eb5f5f2"),
        ("gpt-mini", WEIGHTS, "eb7830a453c4efb235adc48e75c7a27b9e3acf464d03df109c135d1d5958bf82"),
        ("nli-mini", WEIGHTS, "6ead516674f78ff5ba145dceec047f4417d28448b2fa8961d0556cbeec150d83"),
    ],
)
def test_shipped_models_are_the_files_that_published_figures_were_measured_on(
    name: str, file: str, digest: str
) -> None:
    # a rename of *twin* in all text files once renamed a token of both tokenizers
    shipped = Path(levelhead.__file__).parent / "models" / "embedded" / name / file
    assert hashlib.sha256(shipped.read_bytes()).hexdigest() == digest
