"""A closed head gets a gradient of exactly 0 in all of its parameters, an open one does not: every family."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from levelhead.edits.gates import HeadGates, gates, removed
from levelhead.edits.sites import Head
from levelhead.engine.finetuning import closed_heads, head_slices
from levelhead.mitigation.export import affine
from levelhead.models.copies import new_classifier
from levelhead.models.model import Model
from tests.tiny import CLASSIFIABLE, CONFIGS, tiny

TEXTS = ["The nurse said that she was tired.", "Engineers and nurses work, unbelievable as it is."]


def everywhere(model: Model, head: int) -> list[Head]:
    """A head of the second layer; of ALBERT, which shares one block, of all layers; with its group."""
    group = model.heads // model.kv_heads
    numbers = range(head // group * group, (head // group + 1) * group)
    layers = range(model.layers) if model.shares_blocks else [1]
    return [Head(layer, number) for layer in layers for number in numbers]


def trained_once(classifier: Model) -> None:
    """Gradients of a loss on two texts."""
    classifier.hf.requires_grad_(True).train()
    batch = dict(classifier.tokenizer(TEXTS, return_tensors="pt", padding=True, padding_side="right"))
    known = {name: batch[name] for name in ("input_ids", "attention_mask")}
    classifier.hf(**known, labels=torch.tensor([0, 1])).loss.backward()


@pytest.mark.parametrize("family", CLASSIFIABLE)
def test_gradients_of_a_closed_head_are_exactly_zero_and_those_of_an_open_one_are_not(family: str) -> None:
    classifier = new_classifier(tiny(family), ("no", "yes"), seed=0)
    shut, open_ones = everywhere(classifier, 2), everywhere(classifier, 0)
    with classifier.edited(*removed(classifier, shut)):
        trained_once(classifier)
    for part in head_slices(classifier, shut):
        assert part.parameter.grad is not None
        assert not part.parameter.grad.index_select(part.dimension, part.index).any()
    moved = [
        bool(part.parameter.grad.index_select(part.dimension, part.index).any())  # type: ignore[union-attr]
        for part in head_slices(classifier, open_ones)
    ]
    # queries, keys, values and W^O; a key's bias changes no attention
    assert sum(moved) >= (2 if classifier.family.joint_norm else 3)


@pytest.mark.parametrize("family", list(CONFIGS))
def test_slices_of_all_heads_are_the_whole_projections_once(family: str) -> None:
    model = tiny(family)
    counted: dict[nn.Parameter, int] = {}
    for part in head_slices(model, [Head(0, head) for head in range(model.heads)]):
        counted[part.parameter] = counted.get(part.parameter, 0) + len(part.index)
        assert len(part.index.unique()) == len(part.index)
    parts = ("value",) if model.family.joint_norm else ("query", "key", "value")
    modules = {model.qkv_module(0, part) for part in parts}
    for module in modules:
        weight = module.weight
        assert isinstance(weight, nn.Parameter)
        assert counted[weight] == weight.shape[0 if isinstance(module, nn.Linear) else 1]


def test_a_shared_key_head_is_closed_only_with_all_of_its_query_heads() -> None:
    model = tiny("llama")  # 4 query heads share 2 key heads
    keys = model.qkv_module(1, "key").weight
    alone = [part.parameter for part in head_slices(model, [Head(1, 2)])]
    together = [part.parameter for part in head_slices(model, [Head(1, 2), Head(1, 3)])]
    assert not any(weight is keys for weight in alone)
    assert any(weight is keys for weight in together)


def test_only_a_gate_of_zero_closes_and_a_stored_edit_counts_too() -> None:
    model = tiny("bert")
    edits = gates(model, {Head(0, 1): 0.0, Head(0, 2): 0.5, Head(2, 3): 0.0})
    assert closed_heads(model, edits) == [Head(0, 1), Head(2, 3)]
    assert closed_heads(model, [affine(edit) for edit in edits]) == [Head(0, 1), Head(2, 3)]


def test_a_head_of_a_shared_block_is_closed_only_if_every_layer_closes_it() -> None:
    albert = tiny("albert")
    assert closed_heads(albert, [HeadGates(1, (0.0, 1.0, 1.0, 1.0))]) == []
    every = [HeadGates(layer, (0.0, 1.0, 1.0, 1.0)) for layer in range(albert.layers)]
    assert closed_heads(albert, every) == [Head(layer, 0) for layer in range(albert.layers)]
