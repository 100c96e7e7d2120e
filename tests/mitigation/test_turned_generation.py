"""Text that a symmetrized folder generates with a cache is what it generates without one."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from levelhead.edits.output import Symmetrized
from levelhead.mitigation.export import export
from levelhead.probes.group_swap import GenderSwap
from tests.tiny import tiny

# "she" goes on as "shell", "her" is his or him by what follows, and a turned text has other numbers of tokens
PIECES = (
    "The nurse said that she",
    "ll was here. He gave her",
    " a book about",
    " his grandmother",
    "s and her",
    ".",
)
SAID = ["The nurse said that she was tired.", "He saw the engineer in the kitchen.", "Nurses work."]
FAMILIES = ("gpt2", "llama", "gemma3_text")  # absolute places, shared keys, sliding windows of 8 tokens
pytestmark = pytest.mark.nightly
LENGTH = {"max_new_tokens": 24, "min_new_tokens": 24}


@pytest.fixture(scope="module", params=FAMILIES)
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("symmetrized") / request.param
    export(tiny(request.param), (Symmetrized(GenderSwap()),), folder)
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    return loaded.eval()


@pytest.fixture(scope="module")
def tokenizer(network: Any) -> Any:
    """Of the folder, padding on the left as `generate` asks."""
    found = transformers.AutoTokenizer.from_pretrained(network.config._name_or_path, padding_side="left")
    found.pad_token = found.pad_token or found.eos_token
    return found


@pytest.fixture
def text(tokenizer: Any) -> torch.Tensor:
    """Tokens as a model writes them, piece by piece: a word may go on behind a token that ended one."""
    pieces = [tokenizer(piece, add_special_tokens=False)["input_ids"] for piece in PIECES]
    return torch.tensor([[token for piece in pieces for token in piece]])


def log_probabilities(network: Any, ids: torch.Tensor, **options: Any) -> Any:
    with torch.no_grad():
        out = network(ids, **options)
    return out.logits[:, -1].log_softmax(-1), out.past_key_values


def batch(tokenizer: Any) -> Any:
    """Texts of several lengths; one that no turn changes."""
    texts = ["The nurse said that she", "Mothers and women saw him in the kitchen. Her", "A book"]
    return tokenizer(texts, return_tensors="pt", padding=True)


def test_every_next_word_is_the_same_with_a_cache(network: Any, text: torch.Tensor) -> None:
    past: Any = None
    lengths, again, start = [], 0, 3
    for end in range(start, text.shape[1] + 1):
        new = text[:, :end] if past is None else text[:, end - 1 : end]
        before = [] if past is None else list(past._rows)
        cached, past = log_probabilities(network, new, past_key_values=past, use_cache=True)
        plain, nothing = log_probabilities(network, text[:, :end], use_cache=False)
        assert nothing is None
        assert cached.numpy() == pytest.approx(plain.numpy(), rel=1e-4, abs=1e-5)
        lengths.append([len(row) for row in past._rows])
        again += any(all(row[: len(old)] != old for old in before) for row in past._rows)
    assert text.shape[1] - start > 20
    assert past.get_seq_length() == text.shape[1]
    assert sorted({len(each) for each in lengths}) == [1, 2]  # one row before the first exchanged word
    assert any(len(set(each)) == 2 for each in lengths)  # a turned text of another length
    assert again > 3  # turned texts that changed before their end


def test_a_step_runs_one_token_of_each_turn_where_no_word_changes(network: Any, text: torch.Tensor) -> None:
    run: list[tuple[int, ...]] = []
    handle = network.get_input_embeddings().register_forward_pre_hook(
        lambda _, args: run.append(tuple(args[0].shape))
    )
    _, past = log_probabilities(network, text, use_cache=True)
    for token in text[0, 1:3]:  # behind the end of a sentence
        _, past = log_probabilities(network, token[None, None], past_key_values=past)
    handle.remove()
    assert run[0][0] == 2
    assert run[-1] == (2, 1)


@pytest.mark.parametrize(
    "options", [{}, {"num_beams": 3}, {"do_sample": True}], ids=["greedy", "beams", "sampled"]
)
def test_what_is_generated_is_the_same_with_a_cache(
    network: Any, tokenizer: Any, options: dict[str, Any]
) -> None:
    written = []
    for use_cache in (True, False):
        torch.manual_seed(0)
        own = {"do_sample": False, **LENGTH, **options, "pad_token_id": tokenizer.pad_token_id}
        written.append(network.generate(**batch(tokenizer), **own, use_cache=use_cache))
    assert written[0].tolist() == written[1].tolist()


def in_two_passes(family: str, texts: list[str], dtype: torch.dtype) -> list[float]:
    """log P of each text under the mixture, from the plain network alone: ½ P(x) + ½ P(σx)."""
    model, swap, found = tiny(family), GenderSwap(), []
    plain: Any = model.hf.to(dtype)
    for text in texts:
        logs = []
        for each in (text, swap(text).text):
            ids = torch.tensor([model.tokenizer(each)["input_ids"]])
            with torch.no_grad():
                log_p = plain(ids).logits.float().log_softmax(-1)
            logs.append(float(log_p[0, :-1].gather(-1, ids[0, 1:, None]).double().sum()))
        found.append(float(np.logaddexp(logs[0], logs[1])) - math.log(2))
    return found


def log_p(network: Any, tokenizer: Any, texts: list[str]) -> list[float]:
    """The same from the folder, in one padded batch."""
    given = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        logs = network(**given).logits.float().log_softmax(-1)
    ids, real = (
        given["input_ids"][:, 1:, None],
        given["attention_mask"][:, 1:] * given["attention_mask"][:, :-1],
    )
    return [float(each) for each in (logs[:, :-1].gather(-1, ids)[..., 0] * real).double().sum(1)]


@pytest.mark.parametrize(
    ("options", "off"),
    [
        ({}, 1e-4),
        ({"dtype": torch.bfloat16}, 0.5),
        ({"device_map": "cpu"}, 1e-4),
        ({"device_map": "auto", "dtype": torch.bfloat16}, 0.5),
        ({"attn_implementation": "eager"}, 1e-4),
    ],
    ids=["float32", "bfloat16", "placed", "placed bfloat16", "eager"],
)
def test_a_padded_batch_of_any_kind_is_what_two_passes_give(
    network: Any, tokenizer: Any, options: dict[str, Any], off: float
) -> None:
    folder = Path(network.config._name_or_path)
    auto: Any = transformers.AutoModelForCausalLM
    loaded = auto.from_pretrained(folder, trust_remote_code=True, **options).eval()
    dtype = options.get("dtype", torch.float32)
    assert loaded.dtype == dtype
    expected = in_two_passes(folder.name, SAID, dtype)
    assert log_p(loaded, tokenizer, SAID) == pytest.approx(expected, abs=off)
    written = loaded.generate(**batch(tokenizer), **LENGTH, do_sample=False, num_beams=2)
    assert written.shape == (3, batch(tokenizer)["input_ids"].shape[1] + 24)


def test_long_prompts_are_read_in_parts_and_logits_mixed_in_parts(
    network: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts, run = batch(tokenizer), list[int]()
    with torch.no_grad():
        whole, last = network(**prompts), network(**prompts, logits_to_keep=1)
        rows = len(last.past_key_values._rows)
        size = 4 * rows * network.config.vocab_size
        monkeypatch.setattr(sys.modules[type(network).__module__], "_FLOATS", size)  # four tokens
        hook = network.get_input_embeddings().register_forward_pre_hook(
            lambda _, args: run.append(args[0].shape[1])
        )
        for cached in (True, False):
            parts = network(**prompts, logits_to_keep=1, use_cache=cached)
            assert parts.logits.numpy() == pytest.approx(last.logits.numpy(), rel=1e-4, abs=1e-5)
        hook.remove()
        assert network(**prompts).logits.numpy() == pytest.approx(whole.logits.numpy(), rel=1e-4, abs=1e-5)
    assert run[:2] == [4, 4]
    assert max(run) < 8
    assert sum(run) == 2 * max(len(row) for row in last.past_key_values._rows)


def test_a_cache_is_cut_and_gone_on_with(network: Any, text: torch.Tensor) -> None:
    _, past = log_probabilities(network, text, use_cache=True)
    past.crop(-6)
    own, past = log_probabilities(network, text[:, -6:-2], past_key_values=past)
    plain, _ = log_probabilities(network, text[:, :-2], use_cache=False)
    assert own.numpy() == pytest.approx(plain.numpy(), rel=1e-4, abs=1e-5)
    assert past.get_seq_length() == text.shape[1] - 2


def test_a_cache_of_another_model_is_refused(network: Any, text: torch.Tensor) -> None:
    other = transformers.DynamicCache()
    other.update(torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 8), 0)
    with pytest.raises(ValueError, match="cache of its own"):
        network(text, past_key_values=other)


def test_logits_are_kept_for_the_tokens_that_are_asked_for(network: Any, text: torch.Tensor) -> None:
    with torch.no_grad():
        whole = network(text, labels=text)
        last = network(text, logits_to_keep=2).logits
        some = network(text, logits_to_keep=torch.tensor([1, 4]), return_dict=False)
    assert last.numpy() == pytest.approx(whole.logits[:, -2:].numpy(), abs=1e-5)
    assert some[0].numpy() == pytest.approx(whole.logits[:, [1, 4]].numpy(), abs=1e-5)
    logs = whole.logits[:, :-1].log_softmax(-1).gather(-1, text[:, 1:, None])
    assert float(whole.loss) == pytest.approx(-float(logs.mean()), rel=1e-5)
