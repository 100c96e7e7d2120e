"""What a model's files name as code, or elsewhere, is neither fetched nor run nor followed without a word."""

from __future__ import annotations

import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import (
    AutoConfig,
    BertForMaskedLM,
    GPT2LMHeadModel,
    PreTrainedTokenizerBase,
    modeling_flash_attention_utils,
    modeling_utils,
)
from transformers.integrations import hub_kernels
from transformers.integrations.gguf import kernels as gguf_kernels

from levelhead.errors import UnknownModel
from levelhead.models import sources
from levelhead.models.checkpoint_files import (
    IMPLEMENTATIONS,
    QUANTIZERS,
    Trust,
    check_foreign,
    without_kernels,
)
from levelhead.models.sources import open_source
from tests.models.test_sources import refusal, write_folder
from tests.tiny import tiny

KERNEL = "owner/kernel"
MAPPINGS = ("register_kernel_mapping", "use_kernel_mapping")


class Fetched(BaseException):
    """Something was fetched; no `except Exception` of a library hides it."""


@pytest.fixture(autouse=True)
def spy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package `kernels` as transformers would find it; whoever asks it for code fails the test."""

    def fetch(*given: object, **_: object) -> None:
        raise Fetched(given)

    fake = ModuleType("kernels")
    fake.__spec__ = ModuleSpec("kernels", None)
    for name in (
        "get_kernel",
        "LayerRepository",
        "kernelize",
        "register_kernel_mapping",
        "use_kernel_mapping",
    ):
        setattr(fake, name, fetch)
    fake.Mode = ModuleType("Mode")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kernels", fake)
    monkeypatch.setattr(hub_kernels, "get_kernel_hub", fetch, raising=False)
    for module in (hub_kernels, modeling_utils, gguf_kernels):
        monkeypatch.setattr(module, "is_kernels_available", lambda *_: True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "model")


def write(folder: Path, name: str, **values: object) -> None:
    """Add settings to a JSON file of a model, which may be new."""
    path = folder / name
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | values))


# ---- attention and experts


FORMS: list[dict[str, Any]] = [
    {"attn_implementation": KERNEL},
    {"_attn_implementation": "flash_attention_2"},
    {"attn_implementation": "flash_attention_3"},
    {"attn_implementation": "paged|flash_attention_2"},
    {"attn_implementation": f"paged|{KERNEL}"},
    {"attn_implementation": "kernels-community/flash-attn2@main:function"},
    {"attn_implementation": {"": KERNEL}},
    {"attn_implementation": {"": "sdpa", "text_config": {"": "flash_attention_2"}}},
    {"_attn_implementation_internal": KERNEL},
    {"text_config": {"model_type": "bert", "_attn_implementation": {"": KERNEL}}},
    {"experts_implementation": "deepgemm"},
    {"sub_configs": [{"experts_implementation": {"": "sonicmoe"}}]},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_attention_code_that_is_not_known_to_be_local_is_refused_in_every_form(
    folder: Path, form: dict[str, Any]
) -> None:
    write(folder, "config.json", **form)
    line = refusal(folder)
    assert "trust_remote_code=True" in line
    assert "known to be local: eager" in line
    check_foreign(folder, Trust(remote_code=True))


def test_without_the_refusal_transformers_would_fetch_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = AutoConfig.from_pretrained(folder)
    kind: Any = BertForMaskedLM
    for named in ("flash_attention_2", {"": KERNEL}):
        monkeypatch.setattr(modeling_flash_attention_utils, "_loaded_implementation", None)
        config._attn_implementation = named
        with pytest.raises(Fetched):
            kind(config)


@pytest.mark.parametrize("named", [*IMPLEMENTATIONS["attn_implementation"], None, {"": "eager"}])
def test_attention_code_of_torch_and_transformers_is_allowed(folder: Path, named: object) -> None:
    write(folder, "config.json", attn_implementation=named, _attn_implementation_autoset=True)
    check_foreign(folder, Trust())
    if named != "flex_attention":
        assert open_source(folder, device="cpu").hf.config._attn_implementation in ("eager", "sdpa")


def test_a_config_for_another_version_of_transformers_is_looked_at_too(folder: Path) -> None:
    write(folder, "config.4.0.0.json", **json.loads((folder / "config.json").read_text()))
    write(folder, "config.json", configuration_files=["config.4.0.0.json"])
    open_source(folder, device="cpu")
    write(folder, "config.4.0.0.json", attn_implementation=KERNEL)
    assert KERNEL in refusal(folder)


# ---- everything else that names code


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("config.json", {"architectures": ["Ours"], "auto_map": {"AutoModel": "ours.Ours"}}),
        ("config.json", {"architectures": ["Ours"], "auto_map": {"AutoModel": "owner/repo--ours.Ours"}}),
        ("config.json", {"auto_map": {}, "text_config": {"auto_map": {"AutoModel": "ours.Ours"}}}),
        ("config.json", {"use_kernels": True}),
        ("config.json", {"kernel_config": {"RMSNorm": KERNEL}}),
        ("config.json", {"quantization_config": {"quant_method": "fp8"}}),
        ("config.json", {"quantization_config": {"quant_method": "mxfp4"}}),
        ("config.json", {"text_config": {"quantization_config": {"quant_method": "new"}}}),
        ("config.json", {"backbone": "owner/x", "use_pretrained_backbone": True}),
        ("tokenizer_config.json", {"tokenizer_class": "Ours", "auto_map": {"AutoTokenizer": ["o.O", None]}}),
        ("tokenizer_config.json", {"tokenizer_class": "Ours", "auto_map": ["ours.Ours", None]}),
        ("generation_config.json", {"custom_generate": "owner/generation"}),
        ("adapter_config.json", {"peft_type": "PROMPT_TUNING", "tokenizer_name_or_path": "owner/x"}),
        ("adapter_config.json", {"peft_type": "XLORA", "adapters": {"a": "owner/x"}}),
        ("adapter_config.json", {"peft_type": "LORA", "megatron_config": {"a": 1}, "megatron_core": "ours"}),
        ("adapter_config.json", {"peft_type": "LORA", "auto_mapping": {"parent_library": "ours"}}),
    ],
    ids=str,
)
def test_what_names_code_in_any_file_is_refused_unless_trusted(
    folder: Path, name: str, settings: dict[str, Any]
) -> None:
    write(folder, name, **settings)
    line = refusal(folder)
    assert str(folder / name) in line
    assert "trust_remote_code=True" in line
    check_foreign(folder, Trust(remote_code=True))


def test_quantizers_that_need_no_kernels_are_allowed(folder: Path) -> None:
    for method in QUANTIZERS:
        write(folder, "config.json", quantization_config={"quant_method": method})
        check_foreign(folder, Trust())
    write(folder, "config.json", quantization_config={"load_in_8bit": True})
    check_foreign(folder, Trust())


def test_without_the_package_that_fetches_kernels_every_quantizer_is_left_to_transformers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelhead.models.checkpoint_files.find_spec", lambda _: None)
    write(folder, "config.json", quantization_config={"quant_method": "mxfp4"})
    check_foreign(folder, Trust())


def test_a_folder_with_code_for_generating_is_read_and_its_code_is_not_run(tmp_path: Path) -> None:
    model = tiny("gpt2")
    for saved in (model.hf, model.tokenizer):
        saved.save_pretrained(tmp_path)
    (tmp_path / "custom_generate").mkdir()
    ran = tmp_path / "ran"
    (tmp_path / "custom_generate" / "generate.py").write_text(
        f"open({str(ran)!r}, 'w')\ndef generate(model, **_):\n    return None\n"
    )
    assert isinstance(open_source(tmp_path, device="cpu").hf, GPT2LMHeadModel)
    assert not ran.exists()
    open_source(tmp_path, device="cpu", trust_remote_code=True)
    assert ran.exists()  # as the flag says


# ---- elsewhere


@pytest.mark.parametrize(
    "name", ["../stolen.safetensors", "/etc/stolen.safetensors", "a/b", "C:\\x", "..\\x", 3]
)
def test_an_index_of_weights_leads_nowhere_else(folder: Path, name: object) -> None:
    (folder / "model.safetensors").rename(folder.parent / "stolen.safetensors")
    write(folder, "model.safetensors.index.json", weight_map={"a": name})
    line = refusal(folder)
    assert repr(name) in line
    assert "its own folder" in line


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("config.json", {"configuration_files": ["../config.4.0.0.json"]}),
        ("tokenizer_config.json", {"fast_tokenizer_files": ["../tokenizer.4.0.json"]}),
        ("config.json", {"transformers_weights": "../other.safetensors"}),
        ("config.json", {"transformers_weights": "adapter_model.bin"}),
    ],
    ids=str,
)
def test_configs_name_no_files_elsewhere_and_no_other_weights_whatever_is_trusted(
    folder: Path, name: str, settings: dict[str, Any]
) -> None:
    write(folder, name, **settings)
    assert str(folder) in refusal(folder)
    with pytest.raises(UnknownModel):
        check_foreign(folder, Trust(pickle=True, remote_code=True))


def test_weights_that_would_be_read_in_place_of_those_that_are_checked_are_refused(folder: Path) -> None:
    (folder / "shard-00000-model-00001-of-00001.safetensors").touch()
    assert "shard-00000" in refusal(folder)


def test_an_adapter_leads_to_no_other_model(folder: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    write(away, "adapter_config.json", peft_type="LORA", base_model_name_or_path=str(folder))
    assert "leads to a model elsewhere" in refusal(away)
    (away / "model.gguf").write_bytes(b"GGUF")
    assert "leads to a model elsewhere" in refusal(away / "model.gguf")


def test_an_adapter_that_is_a_pickle_is_refused_unless_allowed(folder: Path) -> None:
    write(folder, "adapter_config.json", peft_type="LORA", base_model_name_or_path="owner/x")
    torch.save({}, folder / "adapter_model.bin")
    assert "allow_pickle=True" in refusal(folder)
    check_foreign(folder, Trust(pickle=True))
    (folder / "adapter_model.safetensors").touch()
    check_foreign(folder, Trust())


# ---- what transformers fetches by itself


def test_kernels_are_out_of_reach_while_a_model_is_read_and_only_then() -> None:
    for _ in range(2):
        with without_kernels(Trust()):
            with pytest.raises(ImportError, match="trust_remote_code"):
                hub_kernels.get_kernel("kernels-community/rwkv", version=1)
            assert gguf_kernels.get_ggml_layer_mapping() == {}
        with pytest.raises(Fetched):
            hub_kernels.get_kernel("kernels-community/rwkv", version=1)
    with without_kernels(Trust(remote_code=True)), pytest.raises(Fetched):
        hub_kernels.get_kernel("kernels-community/rwkv", version=1)


def test_a_gguf_file_is_read_without_the_kernels_that_transformers_has_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gguf_kernels, "_gguf_kernel", None)
    with without_kernels(Trust()):
        assert gguf_kernels.get_gguf_kernel() is False
        gguf_kernels.kernelize_ggml_layers(ModuleType("network"))
    monkeypatch.setattr(gguf_kernels, "_gguf_kernel", None)
    with pytest.raises(Fetched):
        gguf_kernels.get_gguf_kernel()


def test_what_the_decision_might_overlook_is_not_fetched_either(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modeling_flash_attention_utils, "_loaded_implementation", None)
    monkeypatch.setattr(sources, "check_foreign", lambda *_: None)
    write(folder, "config.json", attn_implementation=KERNEL)
    assert "trust_remote_code=True" in refusal(folder)


def test_a_tokenizer_of_transformers_that_also_names_code_is_its_own(folder: Path) -> None:
    write(folder, "tokenizer_config.json", auto_map={"AutoTokenizer": ["ours.Ours", None]})
    tokenizer = open_source(folder, device="cpu").tokenizer
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    assert type(tokenizer).__module__.startswith("transformers.")
