"""Where weights lie: a map with parts on disk gives the answers of one device, and mistakes are one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import levelhead as lh
from levelhead.edits.gates import removed
from levelhead.edits.sites import Head, Site, Variant
from levelhead.edits.subspace import Projection
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import Attention, States, StaticVectors, TokenLikelihoods
from levelhead.engine.run import read
from levelhead.errors import BadOption, CannotDo, LevelheadError, UnknownModel
from levelhead.mitigation.export import export
from levelhead.models import checkpoint_files, identity, placement, sources
from levelhead.models.copies import new_classifier
from levelhead.models.encoding import Text, find_word
from levelhead.models.identity import check_finite
from levelhead.models.model import Model, load
from levelhead.models.sources import open_source
from tests.tiny import tiny

SENTENCES = ["The nurse said that she was tired.", "Engineers and nurses work; women and men, too!"]
MAPS = {
    "bert": {
        "bert.embeddings": "disk",
        "bert.encoder.layer.0": "cpu",
        "bert.encoder.layer.1": "disk",
        "bert.encoder.layer.2": "cpu",
        "cls": "disk",
    },
    "llama": {
        "model.embed_tokens": "cpu",
        "model.layers.0": "disk",
        "model.layers.1": "cpu",
        "model.layers.2": "disk",
        "model.norm": "disk",
        "model.rotary_emb": "cpu",
        "lm_head": "cpu",
    },
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny BERT and a tiny Llama as folders, each with a map of its modules."""
    places = {family: tmp_path_factory.mktemp(family) for family in MAPS}
    for family, place in places.items():
        model = tiny(family)
        model.hf.save_pretrained(place)
        model.tokenizer.save_pretrained(place)
        (place / "map.json").write_text(json.dumps(MAPS[family]))
    return places


def answers(model: Model) -> list[Any]:
    """Readings of every stage, untouched and under edits, by the engine and by the model's own pass; and the
    gradients of the gates."""
    texts = [Text(sentence) for sentence in SENTENCES]
    basis = torch.eye(32)[:1]
    edits: Variant = (*removed(model, [Head(1, 2)]), Projection(Site(2, "block"), basis, torch.ones(1)))
    readings: list[Any] = [
        StaticVectors(texts, [find_word(s, "nurse") if "nurse " in s else (0, 9) for s in SENTENCES], [0, 1]),
        TokenLikelihoods(texts),
        States(texts, Site(1, "query")),
        Attention(texts[:1], [find_word(SENTENCES[0], "tired")], [find_word(SENTENCES[0], "nurse")]),
    ]
    collected = read(model, readings, [(), edits])
    gradients = gate_gradients(model, readings[0], lambda vectors: (vectors[0] * vectors[1]).sum())
    with model.edited(*edits), torch.no_grad():
        batch = model.tokenizer(SENTENCES[:1], return_tensors="pt")
        own = model.hf(**batch).logits
    return [
        collected[readings[0]],
        np.concatenate([np.concatenate(each) for each in collected[readings[1]].values]),
        np.concatenate([np.concatenate(each) for each in collected[readings[2]]]),
        collected[readings[3]][1][0].weights,
        gradients.scores,
        own.numpy(),
    ]


@pytest.mark.parametrize("family", list(MAPS))
def test_a_map_over_host_and_disk_gives_the_answers_of_one_device(
    folders: dict[str, Path], family: str
) -> None:
    folder = folders[family]
    whole, spread = load(folder, device="cpu"), load(folder, device_map=folder / "map.json")
    assert spread.waits_on_host
    assert not whole.waits_on_host
    for own, other in zip(answers(spread), answers(whole), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-5, rtol=1e-5)
    assert spread.waits_on_host  # what was fetched has gone again
    assert spread.fingerprint == whole.fingerprint
    assert spread.device == torch.device("cpu")


def test_auto_maps_leave_on_disk_what_max_memory_does_not_hold(folders: dict[str, Path]) -> None:
    folder = folders["llama"]
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    model = load(folder, device_map="auto", max_memory=f"cpu={size // 1000}KB")
    assert not model.waits_on_host
    little = load(folder, device_map="auto", max_memory={"cpu": size // 2})
    assert little.waits_on_host
    assert little.fingerprint == model.fingerprint


def test_spread_weights_are_exported_as_an_adapter_and_are_not_fine_tuned(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    model = load(folders["bert"], device_map=folders["bert"] / "map.json")
    report = export(model, removed(model, [Head(1, 2)]), tmp_path / "out")
    assert not report.folded
    assert "a device map spreads its weights" in report.obstacles[0]
    assert report.max_difference < 1e-5
    with pytest.raises(CannotDo, match="cannot be fine-tuned: a device map spreads its weights"):
        new_classifier(model, ["no", "yes"], 0)


def test_auto_is_the_checkpoints_own_dtype_and_the_default_of_large_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("llama")
    model.hf.to(torch.bfloat16).save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)

    def dtype(**options: Any) -> torch.dtype:
        return open_source(tmp_path, device="cpu", **options).hf.dtype  # type: ignore[no-any-return]

    assert dtype() == torch.float32
    assert dtype(dtype="auto") == torch.bfloat16
    monkeypatch.setattr(sources, "LARGE", 1000)
    assert dtype() == torch.bfloat16
    assert dtype(dtype="float32") == torch.float32
    assert open_source("lh:bert-mini", device="cpu", dtype="auto").hf.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"device_map": "everywhere"}, r"No device map 'everywhere'. Give auto, balanced, or a JSON file"),
        ({"device_map": {"model": "cuda:99"}}, "No device 'cuda:99': this machine has"),
        ({"device_map": "auto", "device": "cpu"}, "device must be left out with a device_map"),
        ({"device_map": "auto", "max_memory": "cpu=lots"}, "No size 'lots' in max_memory"),
        ({"device_map": "auto", "max_memory": "moon=1GiB"}, "No device 'moon' in max_memory"),
        ({"max_memory": "cpu=1GiB"}, "max_memory would change nothing without a device_map"),
        ({"batch_tokens": 0}, "batch_tokens must be at least 1 .got 0"),
        ({"dtype": "float8"}, "No dtype 'float8'. Allowed: float32, bfloat16, float16, auto"),
    ],
)
def test_a_wrong_place_is_one_line(options: Any, complaint: str) -> None:
    with pytest.raises(BadOption, match=complaint) as caught:
        load("lh:bert-mini", **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '{"model": [0]}'])
def test_a_file_that_is_no_device_map_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "map.json"
    path.write_text(text)
    with pytest.raises(BadOption, match=r"is no (JSON file|device map).*Give module -> device"):
        load("lh:bert-mini", device_map=path)


def test_a_card_that_no_machine_has_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text('{"model.layers": ' + "9" * 5000 + "}")
    for places in ({"": -1}, {"": 10**6}, {"": 10**5000}, path):
        with pytest.raises(BadOption, match="Give"):
            load("lh:bert-mini", device_map=places)


@pytest.mark.parametrize("given", [f"cpu={'9' * 400}GiB", f"cpu={'9' * 20}TiB", f"{'9' * 5000}=1GiB"])
def test_memory_that_no_machine_has_is_one_line(given: str) -> None:
    with pytest.raises(BadOption, match="0=20GiB,cpu=60GiB") as caught:
        load("lh:bert-mini", device_map="auto", max_memory=given)
    assert len(str(caught.value)) < 300


def test_a_map_that_forgets_a_part_is_one_line(folders: dict[str, Path]) -> None:
    with pytest.raises(UnknownModel, match=r"cannot be loaded: The device_map provided does not give any"):
        load(folders["llama"], device_map={"lm_head": "cpu", "model.norm": "disk"})


def test_a_device_map_for_a_shipped_model_is_refused_because_it_would_change_nothing() -> None:
    with pytest.raises(BadOption, match="A shipped model is small and lies on one device"):
        load("lh:bert-mini", device_map={"": "cpu"})


def test_without_accelerate_a_device_map_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "find_spec", lambda name: None)
    with pytest.raises(BadOption, match=r"pip install 'levelhead\[scale\]'"):
        load("lh:bert-mini", device_map="auto")


@pytest.mark.parametrize(
    ("method", "packages"),
    [
        ("bitsandbytes", "accelerate bitsandbytes"),
        ("gptq", "optimum gptqmodel"),
        ("awq", "accelerate gptqmodel"),
        ("torchao", "torchao"),
    ],
)
def test_quantized_weights_without_their_library_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, packages: str
) -> None:
    monkeypatch.setattr(checkpoint_files, "find_spec", lambda name: None)
    settings = {"model_type": "llama", "quantization_config": {"quant_method": method}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(LevelheadError, match=f"quantized with {method}.*: pip install {packages}$"):
        load(tmp_path, device="cpu")


def test_nan_is_seen_inside_weights_that_consist_of_several_tensors() -> None:
    """As torchao's, which hold numbers and scales in one."""
    network = tiny("bert").hf
    weight = network.bert.encoder.layer[0].output.dense.weight.detach()
    scales = torch.full_like(weight, torch.nan)
    network.bert.encoder.layer[0].output.dense.weight = torch.nn.Parameter(
        TwoTensor(weight, scales), requires_grad=False
    )
    with pytest.raises(UnknownModel, match=r"layer\.0\.output\.dense\.weight\.b holds NaN"):
        check_finite(network, "a network")


@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
def test_one_number_that_is_not_finite_is_seen_in_the_last_piece_of_a_weight(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_PIECE", 7)
    network = tiny("bert").hf
    check_finite(network, "a network")
    with torch.no_grad():
        network.bert.encoder.layer[1].output.dense.weight[-1, -1] = value
    with pytest.raises(UnknownModel, match=r"layer\.1\.output\.dense\.weight holds NaN"):
        check_finite(network, "a network")


def test_the_tokens_of_a_batch_can_be_chosen_for_names_and_for_models_in_memory() -> None:
    network = tiny("bert")
    model = lh.load(network.hf, network.tokenizer, batch_tokens=64)
    assert model.placement.batch_tokens == 64
    with pytest.raises(BadOption, match=r"a model in memory .* .got device_map"):
        lh.load(network.hf, network.tokenizer, device_map="auto")
