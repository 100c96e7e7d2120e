"""Gates on neurons: every family of the contract, against computations that know nothing of the engine."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from levelhead.edits.gates import NeuronGates, neuron_gates
from levelhead.edits.sites import Edit, Neuron, Site
from levelhead.edits.subspace import Projection
from levelhead.engine.gradients import integrated_gradients, neuron_gradients
from levelhead.engine.readings import States, StaticVectors
from levelhead.engine.run import read_one
from levelhead.engine.trunk import HEADS, NEURONS, Component
from levelhead.errors import BadOption, CannotDo, NoEffect
from levelhead.mitigation.export import folded, plan_folding
from levelhead.models.encoding import Text, find_word
from levelhead.models.model import Model
from tests.models.test_contract import TEXTS, ids_of, output
from tests.tiny import CONFIGS, given, tiny

EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss")


@pytest.fixture(scope="module", params=[name for name in CONFIGS if name not in EXPERTS])
def model(request: pytest.FixtureRequest) -> Model:
    return tiny(request.param)


def everywhere(model: Model, layer: int) -> list[int]:
    return list(range(model.layers)) if model.shares_blocks else [layer]


def test_gate_of_zero_equals_a_zeroed_column_of_the_down_projection(model: Model) -> None:
    inputs, neuron, layer = ids_of(model), 5, 1
    plain = output(model, inputs)
    with model.edited(*neuron_gates(model, {Neuron(i, neuron): 0.0 for i in everywhere(model, layer)})):
        gated = output(model, inputs)
    down = model.down_projection(layer)
    weight = cast(Tensor, down.weight)
    kept = weight.clone()
    if isinstance(down, nn.Linear):
        weight[:, neuron] = 0
    else:  # GPT-2 keeps it transposed
        weight[neuron] = 0
    zeroed = output(model, inputs)
    weight.copy_(kept)
    torch.testing.assert_close(gated, zeroed, atol=1e-5, rtol=1e-5)
    assert not torch.equal(gated, plain)


def test_gate_of_one_is_the_untouched_model_bit_for_bit(model: Model) -> None:
    inputs = ids_of(model)
    plain = output(model, inputs)
    with model.edited(*neuron_gates(model, {(layer, 3): 1.0 for layer in range(model.layers)})):
        assert torch.equal(output(model, inputs), plain)


def test_gates_and_projections_of_the_mlp_fold_into_the_down_projection(model: Model) -> None:
    inputs, layers = ids_of(model), everywhere(model, 1)
    width = cast(Tensor, model.down_projection(1).weight).shape
    hidden = width[0] if isinstance(model.down_projection(1), nn.Linear) else width[1]
    basis = torch.nn.functional.normalize(torch.arange(1.0, hidden + 1), dim=0)[None]
    edits: list[Edit] = [
        *(NeuronGates(layer, model.neurons, (2, 7), (0.0, 2.5)) for layer in layers),
        *(Projection(Site(layer, "mlp"), basis, torch.ones(1)) for layer in layers),
    ]
    plain = output(model, inputs)
    with model.edited(*edits):
        edited = output(model, inputs)
    plan = plan_folding(model, edits)
    assert not plan.obstacles
    with folded(model, plan):
        torch.testing.assert_close(output(model, inputs), edited, atol=1e-5, rtol=1e-5)
    assert torch.equal(output(model, inputs), plain)
    assert not torch.allclose(edited, plain, atol=1e-4)


def test_gradient_of_every_neuron_equals_a_central_finite_difference(model: Model) -> None:
    """As for heads (test_contract.py): the step is small where an activation has a kink."""
    spans = [find_word(TEXTS[0], "nurse"), find_word(TEXTS[1], "nurses")]
    reading = StaticVectors([Text(text) for text in TEXTS], spans, [0, 1])
    width = read_one(model, reading).shape[-1]
    direction = torch.randn(2, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def objective(vectors: Tensor) -> Tensor:
        return (vectors * direction).sum() + (vectors[0] * vectors[1]).sum()

    activation = getattr(model.config, "hidden_act", None) or getattr(model.config, "activation_function", "")
    step = 1e-6 if activation == "relu" else 4e-3
    some = [(layer, neuron) for layer in range(model.layers) for neuron in range(0, model.neurons, 7)]
    variants = [neuron_gates(model, {each: 1 + sign * step}) for each in some for sign in (1, -1)]
    model.hf.double()
    try:
        gradients = neuron_gradients(model, reading, objective)
        values = [float(objective(torch.from_numpy(each))) for each in read_one(model, reading, variants)]
    finally:
        model.hf.float()
    slopes = (np.array(values[::2]) - np.array(values[1::2])) / (2 * step)
    ours = np.array([gradients.scores[each] for each in some])
    np.testing.assert_allclose(ours, slopes, rtol=0, atol=1e-3 * np.abs(slopes).max())
    assert gradients.scores.shape == (model.layers, model.neurons)
    assert gradients.n == 2


def test_states_of_neurons_and_of_the_mlp_equal_what_a_plain_hook_sees(model: Model) -> None:
    layer, seen = model.layers - 1, dict[str, Tensor]()
    down = model.down_projection(layer)
    handles = [
        down.register_forward_pre_hook(lambda m, a: seen.update(neurons=a[0].clone())),
        down.register_forward_hook(lambda m, a, out: seen.update(mlp=out.clone())),
    ]
    inputs = given(model, TEXTS[0])
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        model.base(**inputs)
    for handle in handles:
        handle.remove()
    neurons = read_one(model, States([Text(TEXTS[0])], Site(layer, "neurons")))[0][0]
    mlp = read_one(model, States([Text(TEXTS[0])], Site(layer, "mlp")))[0][0]
    np.testing.assert_allclose(neurons, seen["neurons"].reshape(neurons.shape), atol=1e-5)
    np.testing.assert_allclose(mlp, seen["mlp"].reshape(mlp.shape), atol=1e-5)


@pytest.mark.parametrize("component", [HEADS, NEURONS])
def test_integrated_gradients_add_up_to_what_all_of_them_do_together(component: Component) -> None:
    model = tiny("gpt2")
    reading = StaticVectors([Text(TEXTS[0])], [find_word(TEXTS[0], "nurse")], [0])
    direction = torch.linspace(-1, 1, 32, dtype=torch.float64)

    def objective(vectors: Tensor) -> Tensor:
        return (vectors @ direction).sum()

    shape = (model.layers, component.count(model))
    closed = tuple(component.edit(layer, [0.0] * shape[1]) for layer in range(model.layers))
    model.hf.double()
    try:
        scores = integrated_gradients(model, reading, objective, component, steps=32)
        ends = [float(objective(torch.from_numpy(each))) for each in read_one(model, reading, [(), closed])]
    finally:
        model.hf.float()
    assert scores.shape == shape
    assert scores.sum() == pytest.approx(ends[0] - ends[1], rel=5e-2)


def test_blocks_that_run_again_on_the_way_back_give_the_same_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny("llama")
    spans = [find_word(TEXTS[0], "nurse"), find_word(TEXTS[1], "nurses")]
    reading = StaticVectors([Text(text) for text in TEXTS], spans, [0, 1])
    kept = neuron_gradients(model, reading, lambda v: (v[0] * v[1]).sum())
    monkeypatch.setattr(Model, "waits_on_host", True)  # as where a device map leaves weights on the host
    again = neuron_gradients(model, reading, lambda v: (v[0] * v[1]).sum(), batch_tokens=12)
    np.testing.assert_allclose(again.scores, kept.scores, atol=1e-5)
    assert np.abs(kept.scores).max() > 1e-3


@pytest.mark.parametrize("family", EXPERTS)
def test_blocks_of_experts_have_no_neuron_gates(family: str) -> None:
    with pytest.raises(CannotDo, match="experts share the work"):
        neuron_gates(tiny(family), {(0, 0): 0.0})


def test_a_neuron_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadOption, match="neurons 1-1 to 3-48; 3-49"):
        neuron_gates(tiny("bert"), {Neuron(2, 48): 0.0})


def test_a_down_projection_whose_hooks_never_fire_is_refused_at_its_first_use() -> None:
    class Bypassed(nn.Linear):
        def __call__(self, x: Tensor) -> Tensor:  # as a fused kernel would
            return nn.functional.linear(x, self.weight, self.bias)

    model = tiny("bert")
    for block in model.blocks:
        block.output.dense.__class__ = Bypassed  # type: ignore[union-attr]
    with pytest.raises(NoEffect, match="no effect"):
        model.check_site(Site(0, "neurons"))
