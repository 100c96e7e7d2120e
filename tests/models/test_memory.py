"""Models in memory: asked as they are, in the middle of their training too, and left as they were."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.edits.gates import gates, removed
from levelhead.edits.sites import Head
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import Pooled, StaticVectors, TokenLogProbs, WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, BadProbe, UnknownModel
from levelhead.models.encoding import Text, find_word
from levelhead.models.model import Model, load
from tests.tiny import tiny, wordpiece

SENTENCES = ["The nurse said that she was tired.", "The engineer said that he was not."]
SPANS = [find_word(SENTENCES[0], "nurse"), find_word(SENTENCES[1], "engineer")]


def in_training() -> Any:
    """A network with dropout in training mode, one part of it frozen and at rest."""
    network = deepcopy(tiny("bert", "nsp").hf)
    network.requires_grad_(True).train()
    network.bert.embeddings.requires_grad_(False).eval()
    return network


def state(network: Any) -> tuple[list[bool], list[bool]]:
    return [m.training for m in network.modules()], [p.requires_grad for p in network.parameters()]


def test_a_network_in_training_is_asked_without_dropout_and_left_as_it_was() -> None:
    network = in_training()
    before, untrained = state(network), tiny("bert", "nsp")
    assert network.config.hidden_dropout_prob > 0
    model = load(network, wordpiece())
    reading = WordVectors(SENTENCES, SPANS)
    assert np.array_equal(read_one(model, reading), read_one(untrained, reading))
    assert state(network) == before


def test_gradients_of_gates_leave_no_gradient_in_a_network_in_training() -> None:
    network, untrained = in_training(), tiny("bert", "nsp")
    before = state(network)
    reading = StaticVectors(SENTENCES, SPANS, word=[0, 1])
    own, others = (
        gate_gradients(model, reading, lambda v: (v[0] * v[1]).sum())
        for model in (load(network, wordpiece()), untrained)
    )
    assert np.array_equal(own.scores, others.scores)
    assert all(weight.grad is None for weight in network.parameters())
    assert state(network) == before


def test_a_network_is_left_as_it_was_when_a_question_fails() -> None:
    network = in_training()
    before, model = state(network), load(network, wordpiece())
    with pytest.raises(BadProbe):
        read_one(model, Pooled([""]))
    assert state(network) == before


def test_a_network_can_be_trained_on_after_it_was_asked() -> None:
    network = in_training()
    model = load(network, wordpiece())
    first, asked = model.fingerprint, read_one(model, Pooled(SENTENCES))
    inputs = wordpiece()(SENTENCES, return_tensors="pt", padding=True)
    network(**inputs).seq_relationship_logits.sum().backward()
    with torch.no_grad():
        for weight in network.parameters():
            if weight.grad is not None:
                weight -= 0.1 * weight.grad
    assert model.fingerprint != first  # a run never goes on with other weights
    assert not np.array_equal(read_one(model, Pooled(SENTENCES)), asked)


def test_the_name_of_a_model_in_memory_says_where_it_came_from() -> None:
    network = in_training()
    assert load(network, wordpiece()).name == "BertForPreTraining in memory"
    network.config.name_or_path = "/home/me/bert-base-uncased"
    assert load(network, wordpiece()).name == "bert-base-uncased in memory"


def test_a_tokenizer_that_cannot_pad_stays_as_it_is() -> None:
    network = tiny("gpt2").hf
    tokenizer = deepcopy(tiny("gpt2").tokenizer)
    tokenizer.pad_token = None
    model = load(network, tokenizer)
    assert tokenizer.pad_token is None
    assert model.tokenizer.pad_token == "<|endoftext|>"


def test_what_is_no_model_in_memory_is_one_line() -> None:
    network = in_training()
    with pytest.raises(UnknownModel, match="Linear is no transformers model"):
        load(torch.nn.Linear(2, 2), wordpiece())  # type: ignore[arg-type]
    with pytest.raises(UnknownModel, match="needs its tokenizer"):
        load(network)
    with pytest.raises(BadOption, match=r"a model in memory .* .got dtype"):
        load(network, wordpiece(), dtype="float16")
    with pytest.raises(BadOption, match="brings its own"):
        load("lh:bert-mini", wordpiece())


def test_a_folder_may_be_a_path(tmp_path: Path) -> None:
    model = tiny("bert")
    model.hf.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    assert load(tmp_path, device="cpu").fingerprint == load(str(tmp_path), device="cpu").fingerprint


# ---- heads


def vectors(model: Model) -> Any:
    return read_one(model, WordVectors(SENTENCES, SPANS))


def test_without_heads_and_gated_are_the_edits_of_their_names_and_end_with_the_block() -> None:
    model = tiny("bert")
    plain = vectors(model)
    with model.without_heads(["2-3", (0, 1), Head(2, 0)]):
        closed = vectors(model)
    with model.edited(*removed(model, [(1, 2), (0, 1), (2, 0)])):
        assert np.array_equal(closed, vectors(model))
    with model.gated({"2-3": 0.5, "1-1": 2.0}):
        gated = vectors(model)
    with model.edited(*gates(model, {(1, 2): 0.5, (0, 0): 2.0})):
        assert np.array_equal(gated, vectors(model))
    assert np.array_equal(plain, vectors(model))
    assert not np.array_equal(plain, closed)
    assert not np.array_equal(plain, gated)


def test_a_head_that_is_not_there_is_refused_before_the_block_begins() -> None:
    model = tiny("bert")
    with pytest.raises(BadOption, match="has heads 1-1 to 3-4; 4-1 was asked for"):
        model.without_heads(["4-1"])
    with pytest.raises(BadOption, match="is no head"):
        model.gated({"third": 0.0})


# ---- plain strings


def test_plain_strings_are_texts() -> None:
    model = tiny("bert", "nsp")
    texts = [Text(sentence) for sentence in SENTENCES]
    assert np.array_equal(read_one(model, Pooled(SENTENCES)), read_one(model, Pooled(texts)))
    blank = "The nurse said that [MASK] was tired."
    tokens = [7, 8]
    own, others = (read_one(model, TokenLogProbs(some, tokens)) for some in ([blank], [Text(blank)]))
    assert np.array_equal(own, others)


def test_one_string_in_place_of_a_list_is_refused_instead_of_read_letter_by_letter() -> None:
    with pytest.raises(BadProbe, match="give a list"):
        read_one(tiny("bert", "nsp"), Pooled("The nurse"))
