"""An entry that the table lacks is derived by what layers do, and used only if the whole model proves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from levelhead.cli.app import provenance
from levelhead.engine.readings import WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import UnknownFamily
from levelhead.models.derivation import NotDerived, derive, prove
from levelhead.models.encoding import Text, find_word
from levelhead.models.families import FAMILIES
from levelhead.models.model import Model, load
from levelhead.studies.counteracts.run import counteracts
from levelhead.studies.counteracts.settings import CounteractsSettings
from tests.tiny import CONFIGS, bpe, tiny
from tests.word_lists import OCCUPATIONS

# ALBERT's list has fewer blocks than the model has layers; MobileBERT makes queries and keys in two steps
NOT_DERIVED = ("albert", "mobilebert")
SIZES: dict[str, Any] = dict(
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=24,
    max_position_embeddings=96,
    vocab_size=len(bpe()),
)


def random_model(config: Any, kind: str) -> Any:
    """A transformers model with weights that leave a trace."""
    torch.manual_seed(0)
    hf = getattr(transformers, kind)(config).eval().requires_grad_(False)
    for weight in hf.parameters():
        if weight.dim() > 1:
            weight.normal_(0, 0.15)
    return hf


@pytest.mark.parametrize("family", sorted(set(CONFIGS) - set(NOT_DERIVED)))
def test_the_derived_entry_is_that_of_the_table(family: str) -> None:
    """All but the modules that the last block may run on some rows only: a derived model runs them on all."""
    assert derive(tiny(family).hf) == replace(FAMILIES[family], rowwise=())


@pytest.mark.parametrize("family", NOT_DERIVED)
def test_what_cannot_be_told_from_the_layers_is_not_guessed(family: str) -> None:
    with pytest.raises(NotDerived):
        derive(tiny(family).hf)


@pytest.mark.parametrize("family", ["bert", "llama", "gpt_neox", "olmo2", "mixtral"])
def test_a_derived_model_answers_as_one_of_the_table_and_says_that_it_was_derived(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [Text("The nurse said that she was tired."), Text("Engineers work.")]
    reading = WordVectors(texts, [find_word(texts[0].first, "nurse"), find_word(texts[1].first, "work")])
    listed = tiny(family)
    monkeypatch.delitem(FAMILIES, family)
    derived = tiny(family)
    assert (listed.derived, derived.derived) == (False, True)
    assert "family derived" in repr(derived)
    assert "derived" not in repr(listed)
    assert derived.facts().keys() - listed.facts().keys() == {"derived family"}
    np.testing.assert_allclose(read_one(derived, reading), read_one(listed, reading), atol=1e-5)


def test_results_of_a_derived_model_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(FAMILIES, "gpt2")
    model = tiny("gpt2")
    prompts = tmp_path / "set.toml"
    prompts.write_text(OCCUPATIONS)
    run = counteracts([model], CounteractsSettings(str(prompts), draws=100, null=0), tmp_path / "run")
    assert "derived family of tiny-gpt2" in run.data.hashes
    assert "derived family" in str(provenance(model, {})["data"])


def test_a_type_that_no_table_lists_is_derived_and_answers_as_its_own_code_does() -> None:
    assert "nemotron" not in FAMILIES
    config = transformers.NemotronConfig(**SIZES, num_key_value_heads=2)
    model = load(random_model(config, "NemotronForCausalLM"), bpe())
    assert model.derived
    assert model.kv_heads == 2
    text = "The nurse said that she was tired"
    ours = read_one(model, WordVectors([Text(text)], [find_word(text, "tired")]))[0, 0]
    inputs = model.tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    tokens = (inputs.pop("offset_mapping")[0, :, 1] > text.index("tired")).nonzero()[:, 0]
    with torch.no_grad():
        theirs = model.base(**inputs).last_hidden_state[0, tokens].mean(0)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "kind", "reason"),
    [
        ("T5Config", "T5ForConditionalGeneration", "No family for model_type 't5'.*an encoder and a decoder"),
        (
            "FNetConfig",
            "FNetForMaskedLM",
            "'fnet' is not supported: .* Fourier transform .* no attention heads",
        ),
        ("MambaConfig", "MambaForCausalLM", "'mamba'.*does not say how many layers and heads"),
        ("DiffLlamaConfig", "DiffLlamaForCausalLM", "'diffllama'.*a value of one head reaches other heads"),
        ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel", "'openai-gpt'.*return neither a tensor nor a tuple"),
    ],
)
def test_what_has_no_entry_is_refused_with_the_reason_and_what_to_add(
    config: str, kind: str, reason: str
) -> None:
    own: dict[str, dict[str, Any]] = {
        "T5Config": dict(d_model=16, d_kv=4, num_heads=4, num_layers=2, d_ff=24, vocab_size=len(bpe())),
        "MambaConfig": dict(hidden_size=16, num_hidden_layers=2, vocab_size=len(bpe())),
        "OpenAIGPTConfig": dict(n_embd=16, n_layer=2, n_head=4, n_positions=96, vocab_size=len(bpe())),
    }
    hf = random_model(getattr(transformers, config)(**own.get(config, SIZES)), kind)
    with pytest.raises(UnknownFamily, match=reason) as error:
        load(hf, bpe())
    assert ("families.toml" in str(error.value)) == (config != "FNetConfig")
    assert "\n" not in str(error.value)


def scaled(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    return (args[0] * 2, *args[1:]), kwargs


def told_more(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    return args, {**kwargs, "told": args[0].mean()}


@pytest.mark.parametrize(
    ("meddle", "reason"),
    [(scaled, "something happens between"), (told_more, "given more than the block before")],
)
def test_a_model_whose_blocks_cannot_be_called_one_by_one_is_refused(
    meddle: Callable[..., Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("llama")
    monkeypatch.delitem(FAMILIES, "llama")
    model.blocks[1].register_forward_pre_hook(meddle, with_kwargs=True)
    with pytest.raises(UnknownFamily, match=reason):
        load(model.hf, model.tokenizer)


def test_a_layout_that_mixes_up_heads_does_not_pass_the_proof() -> None:
    model = tiny("gpt_neox")
    model.family = replace(model.family, layout="stacked")
    with pytest.raises(NotDerived, match="reaches other heads"):
        prove(model, model._last_hidden)


def test_a_model_in_training_is_derived_without_dropout_and_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny("gpt2")  # its dropout is on by default
    monkeypatch.delitem(FAMILIES, "gpt2")
    model.hf.train()
    derived: Model = load(model.hf, model.tokenizer)
    assert derived.derived
    assert model.hf.training
    assert all(not block._forward_hooks and not block._forward_pre_hooks for block in derived.blocks)
