"""The contract matrix: every family x every edit, against computations that know nothing of the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from levelhead.edits.gates import HeadGates, all_heads, gates, removed
from levelhead.edits.sites import Edit, Part, Site
from levelhead.edits.subspace import Projection
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import Attention, States, StaticVectors
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo, NoEffect
from levelhead.models.derivation import prove
from levelhead.models.encoding import Text, find_word
from levelhead.models.families import FAMILIES
from levelhead.models.model import Model
from levelhead.models.sources import Source
from tests.tiny import CONFIGS, DECODERS, ENCODERS, given, tiny

TEXTS = ["The nurse said that she was tired.", "Engineers and nurses work, unbelievable as it is."]


def ids_of(model: Model) -> dict[str, Tensor]:
    return dict(model.tokenizer(TEXTS, return_tensors="pt", padding=True, padding_side="right"))


def output(model: Model, inputs: dict[str, Tensor]) -> Tensor:
    """The model's own forward pass, real tokens only."""
    inputs = {k: v for k, v in inputs.items() if k != "token_type_ids" or "bert" in model.name}
    with torch.no_grad():
        hidden = model.base(**inputs).last_hidden_state
    return cast(Tensor, hidden[inputs["attention_mask"].bool()])


def some_edits(model: Model) -> dict[str, Edit]:
    generator = torch.Generator().manual_seed(5)
    width = model.config.hidden_size
    parts: list[tuple[Part, int]] = [
        ("query", model.heads),
        ("key", model.kv_heads),
        ("value", model.kv_heads),
    ]

    def basis(*shape: int) -> Tensor:
        orthogonal: Tensor = torch.linalg.qr(torch.randn(*shape, generator=generator).mT)[0]
        return orthogonal.mT.contiguous()

    edits: dict[str, Edit] = {
        "gate": HeadGates(1, (0.3, -1.0, 1.0, 2.5)),
        "block": Projection(Site(0, "block"), basis(2, width), torch.ones(2)),
        "cls": Projection(Site(1, "cls"), basis(1, width), torch.tensor([0.7])),
    }
    for part, heads in parts:
        edits[part] = Projection(Site(1, part), basis(heads, 1, model.head_dim), torch.ones(heads, 1))
    return edits


@pytest.fixture(scope="module", params=list(CONFIGS))
def model(request: pytest.FixtureRequest) -> Model:
    return tiny(request.param)


def test_the_matrix_covers_every_family_that_has_paths() -> None:
    without_a_model = set(FAMILIES) - set(CONFIGS)
    assert set(CONFIGS) <= set(FAMILIES)
    assert without_a_model == {"camembert", "ernie", "gemma3"}
    assert FAMILIES["camembert"] == FAMILIES["ernie"] == FAMILIES["bert"]
    same_blocks_elsewhere = replace(FAMILIES["gemma3"], blocks=FAMILIES["gemma3_text"].blocks)
    assert same_blocks_elsewhere == FAMILIES["gemma3_text"]


@pytest.mark.parametrize("wrong", [{"qkv": ("query", "key")}, {"layout": "woven"}])
def test_an_entry_that_is_no_family_is_refused_when_the_table_is_read(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="qkv must be 1 or 3 paths and layout one of"):
        replace(FAMILIES["bert"], **wrong)


def test_gate_of_zero_equals_zeroed_output_projection_columns(model: Model) -> None:
    inputs, head = ids_of(model), 2
    layer = 0 if model.shares_blocks else 1
    everywhere = range(model.layers) if model.shares_blocks else [layer]
    with model.edited(*removed(model, [(i, head) for i in everywhere])):
        gated = output(model, inputs)
    plain = output(model, inputs)
    projection = model.output_projection(layer)
    weight = cast(Tensor, projection.weight)
    kept = weight.clone()
    slots = slice(head * model.head_dim, (head + 1) * model.head_dim)
    if isinstance(projection, nn.Linear):
        weight[:, slots] = 0
    else:  # GPT-2 keeps it transposed
        weight[slots] = 0
    zeroed = output(model, inputs)
    weight.copy_(kept)
    torch.testing.assert_close(gated, zeroed, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(gated, plain, atol=1e-3)


def test_gate_of_one_is_the_untouched_model_bit_for_bit(model: Model) -> None:
    inputs = ids_of(model)
    plain = output(model, inputs)
    with model.edited(*gates(model, {(layer, 0): 1.0 for layer in range(model.layers)})):
        assert torch.equal(output(model, inputs), plain)


@pytest.mark.parametrize("name", ["gate", "block", "cls", "query", "key", "value"])
def test_model_is_bit_identical_after_an_edit_and_after_an_exception(model: Model, name: str) -> None:
    inputs, edit = ids_of(model), some_edits(model)[name]
    plain = output(model, inputs)
    with model.edited(edit):
        changed = output(model, inputs)
    assert torch.equal(output(model, inputs), plain)
    assert not torch.equal(changed, plain)
    with pytest.raises(CannotDo, match="layers 1 to"), model.edited(edit):
        model.check_site(Site(99, "block"))  # something inside the context goes wrong
    assert torch.equal(output(model, inputs), plain)


def test_edits_nest_in_any_order_and_each_takes_only_its_own_away(model: Model) -> None:
    inputs, edits = ids_of(model), some_edits(model)
    plain = output(model, inputs)
    with model.edited(edits["gate"]):
        alone = output(model, inputs)
    first, second = model.edited(edits["gate"]), model.edited(edits["block"], edits["query"])
    first.__enter__()
    second.__enter__()
    both = output(model, inputs)
    second.__exit__(None, None, None)
    assert torch.equal(output(model, inputs), alone)
    second = model.edited(edits["block"], edits["query"])
    second.__enter__()
    first.__exit__(None, None, None)  # the outer one leaves first
    assert not torch.equal(output(model, inputs), plain)
    second.__exit__(None, None, None)
    assert torch.equal(output(model, inputs), plain)
    assert not torch.equal(both, alone)


def test_gradient_of_every_gate_equals_a_central_finite_difference(model: Model) -> None:
    """|(J(1 + h) − J(1 − h)) / 2h − dJ/dm| <= h² |J'''| / 6 + ε |J| / h, where J is smooth.

    With h = 4e-3 the first term is below 1e-4 of the largest score, and so is the second, although some
    families compute their norms in float32 (ε = 6e-8) whatever they are asked. A ReLU is not smooth: across
    its kink the difference is wrong by a share that does not shrink with h. There h = 1e-6, which float64
    (ε = 1e-16) affords.
    """
    spans = [find_word(TEXTS[0], "nurse"), find_word(TEXTS[1], "nurses")]
    reading = StaticVectors([Text(text) for text in TEXTS], spans, [0, 1])
    width = read_one(model, reading).shape[-1]
    direction = torch.randn(2, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def objective(vectors: Tensor) -> Tensor:
        return (vectors * direction).sum() + (vectors[0] * vectors[1]).sum()

    activation = getattr(model.config, "hidden_act", None) or getattr(model.config, "activation_function", "")
    step = 1e-6 if activation == "relu" else 4e-3
    heads = all_heads(model)
    variants = [gates(model, {head: 1 + sign * step}) for head in heads for sign in (1, -1)]
    model.hf.double()
    if hasattr(model.config, "num_experts_per_tok"):
        model.hf.set_experts_implementation("eager")  # the others compute in float32 at most
    try:
        scores = gate_gradients(model, reading, objective).scores
        values = [
            float(objective(torch.from_numpy(vectors))) for vectors in read_one(model, reading, variants)
        ]
    finally:
        model.hf.float()
    slopes = (np.array(values[::2]) - np.array(values[1::2])) / (2 * step)
    np.testing.assert_allclose(scores.ravel(), slopes, rtol=0, atol=1e-3 * np.abs(slopes).max())


def test_attention_rows_equal_what_transformers_returns(model: Model) -> None:
    text = TEXTS[0]
    reading = Attention([Text(text)], [find_word(text, "tired")], [find_word(text, "nurse")])
    ((ours,),) = read_one(model, reading)
    before = model.hf.config._attn_implementation
    model.hf.set_attn_implementation("eager")
    inputs = given(model, text)
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        theirs = torch.stack(model.base(**inputs, output_attentions=True).attentions)[:, 0]
    model.hf.set_attn_implementation(before)
    tokens = len(ours.target)
    assert ours.weights.shape == (model.layers, model.heads, tokens, inputs["input_ids"].shape[1])
    np.testing.assert_allclose(ours.weights, theirs[:, :, ours.target].numpy(), atol=1e-5)
    attended = ours.weights.sum(-1)
    if hasattr(model.blocks[0].get_submodule(model.family.attention), "sinks"):
        assert ((attended > 0.5) & (attended < 0.999)).all()  # a sink, which is no token, takes the rest
    else:
        np.testing.assert_allclose(attended, 1, atol=1e-5)


def test_states_at_every_part_equal_what_a_plain_hook_sees(model: Model) -> None:
    text = TEXTS[0]
    seen: dict[str, Tensor] = {}
    layer = model.layers - 1
    handles = [
        model.blocks[layer].register_forward_hook(
            lambda m, a, out: seen.update(block=out[0] if isinstance(out, tuple) else out)
        ),
        model.output_projection(layer).register_forward_pre_hook(lambda m, a: seen.update(heads=a[0])),
    ]
    inputs = given(model, text)
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        model.base(**inputs)
    for handle in handles:
        handle.remove()
    block = read_one(model, States([Text(text)], Site(layer, "block")))[0][0]
    heads = read_one(model, States([Text(text)], Site(layer, "heads")))[0][0]
    np.testing.assert_allclose(block, seen["block"][0], atol=1e-5)
    np.testing.assert_allclose(heads.reshape(len(heads), -1), seen["heads"][0], atol=1e-5)


def test_blocks_follow_each_other_and_a_head_reaches_its_own_slots_alone(model: Model) -> None:
    """What is proved of every derived entry on loading holds for the entries of the table."""
    if model.shares_blocks:
        pytest.skip("one block serves all layers, so a change in the last reaches the first")
    prove(model, model._last_hidden)


@pytest.mark.parametrize(
    ("layout", "kv_heads"),
    [
        ({"new_decoder_architecture": True, "num_kv_heads": 2}, 2),  # groups of queries with their key, value
        ({"new_decoder_architecture": False, "multi_query": True}, 1),
        ({"new_decoder_architecture": False, "multi_query": False, "num_kv_heads": 4, "alibi": True}, 4),
    ],
)
def test_all_three_layouts_of_falcon_are_one(layout: dict[str, Any], kv_heads: int) -> None:
    model = tiny("falcon", **layout)
    assert model.kv_heads == kv_heads
    prove(model, model._last_hidden)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_gates_work_under_every_attention_implementation(family: str, implementation: str) -> None:
    model = tiny(family)
    model.hf.set_attn_implementation(implementation)
    inputs = ids_of(model)
    plain = output(model, inputs)
    with model.edited(*removed(model, [(1, 1)])):
        assert not torch.allclose(output(model, inputs), plain, atol=1e-4)


def test_gates_of_albert_act_on_one_application_of_the_shared_block() -> None:
    model = tiny("albert")
    inputs = ids_of(model)
    outs = []
    for layer in range(model.layers):
        with model.edited(*removed(model, [(layer, 1)])):
            outs.append(output(model, inputs))
    assert not torch.allclose(outs[0], outs[1], atol=1e-4)
    assert not torch.allclose(outs[1], outs[2], atol=1e-4)


def test_a_gate_that_changes_nothing_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert")
    monkeypatch.setitem(FAMILIES, "bert", replace(FAMILIES["bert"], output="output.dense"))
    broken = tiny("bert")  # wrong module, but it does act: the test below needs one that is never called
    assert broken.head_dim != model.head_dim
    monkeypatch.undo()

    class Bypassed(nn.Linear):
        def __call__(self, x: Tensor) -> Tensor:  # as a fused kernel would: hooks never fire
            return nn.functional.linear(x, self.weight, self.bias)

    for block in model.blocks:
        block.attention.output.dense.__class__ = Bypassed  # type: ignore[union-attr]
    with pytest.raises(NoEffect, match="no effect"):
        Model(Source(name="bypassed", hf=model.hf, tokenizer=model.tokenizer, origin="test", missing=()))


def test_a_site_the_model_does_not_have_is_refused_in_one_line() -> None:
    model = tiny("gpt2")
    with pytest.raises(CannotDo, match="layers 1 to 3; layer 8"), model.edited(HeadGates(7, (1.0,) * 4)):
        pass
    with pytest.raises(CannotDo, match="no pooled vector"):
        model.check_site(Site(0, "pooled"))


def test_abilities_are_read_from_the_weights() -> None:
    assert tiny("bert", "nsp").abilities == {"mlm", "nsp", "embeddings"}
    assert tiny("bert", "mlm").abilities == {"mlm", "embeddings"}
    assert tiny("bert", "nli").abilities == {"nli", "embeddings"}
    assert tiny("electra", "nsp").abilities == {"embeddings"}  # a discriminator predicts no words
    assert tiny("albert", "nsp").abilities == {"mlm", "embeddings"}  # sentence order is not next sentence
    assert tiny("llama").abilities == {"causal", "embeddings"}
    assert all("mlm" in tiny(f).abilities for f in ENCODERS)
    assert all("causal" in tiny(f).abilities for f in DECODERS)
