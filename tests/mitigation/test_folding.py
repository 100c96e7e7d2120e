"""Folding by hand, its order, and what cannot be folded."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from levelhead.edits.gates import HeadGates, gates, removed
from levelhead.edits.sites import Part, Site
from levelhead.edits.subspace import AffineErasure, Projection
from levelhead.engine.trunk import first_token_linear
from levelhead.errors import CannotDo
from levelhead.mitigation.export import affine, folded, plan_folding
from levelhead.models.model import Model
from tests.tiny import tiny


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def hard(part: Part, direction: torch.Tensor, layer: int = 0) -> Projection:
    return Projection(Site(layer, part), direction, torch.ones(direction.shape[:-1]))


def weights(module: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return module.weight.clone(), module.bias.clone()


def test_a_removed_head_is_a_zero_in_its_columns_and_nothing_else() -> None:
    model = tiny("bert", "nli")
    before, bias = weights(model.output_projection(1))
    with folded(model, plan_folding(model, removed(model, [(1, 2)]))):
        after, after_bias = weights(model.output_projection(1))
    expected = before.clone()
    expected[:, 16:24] = 0
    assert torch.equal(after, expected)
    assert torch.equal(after_bias, bias)


def test_gpt2_keeps_its_weights_transposed_so_a_removed_head_is_a_zero_in_its_rows() -> None:
    model = tiny("gpt2")
    before, _ = weights(model.output_projection(0))
    with folded(model, plan_folding(model, removed(model, [(0, 1)]))):
        after, _ = weights(model.output_projection(0))
    before[8:16] = 0
    assert torch.equal(after, before)


def test_a_sentence_projection_folds_as_w_times_i_minus_the_projector() -> None:
    model, g, w = tiny("bert", "nli"), unit(1, 32), 0.7
    before, bias = weights(model.classification_head)
    edit = Projection(Site(0, "pooled"), g, torch.tensor([w]))
    with folded(model, plan_folding(model, [edit])):
        after, after_bias = weights(model.classification_head)
    torch.testing.assert_close(after, before @ (torch.eye(32) - w * g.T @ g))
    assert torch.equal(after_bias, bias)


def test_a_query_projection_changes_its_heads_rows_and_bias() -> None:
    model, g = tiny("bert", "nli"), unit(4, 1, 8)
    module = model.qkv_module(1, "query")
    before, bias = weights(module)
    with folded(model, plan_folding(model, [hard("query", g, 1)])):
        after, after_bias = weights(module)
    for head in range(4):
        rows = slice(8 * head, 8 * head + 8)
        left = torch.eye(8) - g[head].T @ g[head]
        torch.testing.assert_close(after[rows], left @ before[rows])
        torch.testing.assert_close(after_bias[rows], left @ bias[rows])


@pytest.mark.parametrize("part", ["pooled", "query"])
def test_edits_of_one_layer_fold_in_the_order_in_which_they_act(part: Part) -> None:
    model = tiny("bert", "nli")
    shape = (1, 32) if part == "pooled" else (4, 1, 8)
    edits = [hard(part, unit(*shape, seed=1)), hard(part, unit(*shape, seed=2))]
    by_order = []
    for order in (edits, edits[::-1]):
        with model.edited(*order):
            edited = class_logits(model)
        with folded(model, plan_folding(model, order)):
            by_order.append(class_logits(model))
        torch.testing.assert_close(by_order[-1], edited, atol=1e-5, rtol=0)
    assert not torch.allclose(by_order[0], by_order[1], atol=1e-5)


def class_logits(model: Model) -> torch.Tensor:
    ids = torch.arange(5, 25).view(2, 10)
    with torch.no_grad():
        return cast(torch.Tensor, model.hf(input_ids=ids).logits)


def test_weights_come_back_bit_for_bit_also_after_an_exception() -> None:
    model = tiny("llama")
    before = {name: value.clone() for name, value in model.hf.state_dict().items()}
    plan = plan_folding(model, [*removed(model, [(0, 0)]), hard("value", unit(2, 1, 8), 1)])

    def untouched() -> bool:
        return all(torch.equal(value, before[name]) for name, value in model.hf.state_dict().items())

    with folded(model, plan):
        assert not untouched()
    assert untouched()
    with pytest.raises(RuntimeError, match="stop"), folded(model, plan):
        raise RuntimeError("stop")
    assert untouched()


@pytest.mark.parametrize(
    ("family", "head", "path"),
    [
        ("bert", "nsp", "bert.pooler.dense"),
        ("bert", "nli", "bert.pooler.dense"),
        ("albert", "nli", "albert.pooler"),
        ("roberta", "nli", "classifier.dense"),
        ("electra", "nli", "classifier.dense"),
        ("distilbert", "nli", "pre_classifier"),
        ("deberta-v2", "nli", "pooler.dense"),
        ("modernbert", "nli", None),  # a norm stands between
        ("bert", "mlm", None),
        ("bert", "base", None),  # the states themselves are what this model gives
        ("gpt2", "mlm", None),
    ],
)
def test_the_layer_that_reads_the_first_token_is_found_by_looking(
    family: str, head: str, path: str | None
) -> None:
    model = tiny(family, head)
    expected = None if path is None else model.hf.get_submodule(path)
    assert first_token_linear(model) is expected


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (hard("block", unit(1, 32), 1), "the tokens of layer 2: the residual stream"),
        (hard("cls", unit(1, 32), 0), "the first token of layer 1: the residual stream"),
    ],
)
def test_what_stands_between_blocks_cannot_be_folded_and_the_reason_is_said(
    edit: Projection, why: str
) -> None:
    model = tiny("bert", "nli")
    plan = plan_folding(model, [edit])
    assert plan.obstacles[0].startswith(why)
    with pytest.raises(CannotDo, match="cannot be folded"), folded(model, plan):
        pass


def test_a_gate_of_albert_folds_only_if_every_application_has_it() -> None:
    model = tiny("albert", "nli")
    everywhere = gates(model, {(layer, 1): 0.3 for layer in range(model.layers)})
    assert not plan_folding(model, everywhere).obstacles
    assert "serve other layers" in plan_folding(model, everywhere[:2]).obstacles[0]
    assert (
        "serve other layers"
        in plan_folding(model, [*everywhere[:2], HeadGates(2, (1.0, 0.4, 1.0, 1.0))]).obstacles[0]
    )


def test_an_offset_needs_a_bias() -> None:
    left, right, center = unit(2, 8, 1), unit(2, 1, 8), unit(2, 8)
    erasure = AffineErasure(Site(1, "key"), left, right, center)
    assert "needs a bias" in plan_folding(tiny("llama"), [erasure]).obstacles[0]
    assert not plan_folding(tiny("qwen2"), [erasure]).obstacles


@pytest.mark.parametrize("headed", [False, True])
def test_an_erasure_and_its_affine_form_do_the_same(headed: bool) -> None:
    front = (4,) if headed else ()
    left, right, center = unit(*front, 8, 2), unit(*front, 2, 8, seed=1), 3 * unit(*front, 8, seed=2)
    erasure = AffineErasure(Site(0, "query" if headed else "pooled"), left, right, center)
    h = torch.randn(5, 7, *front, 8)
    torch.testing.assert_close(affine(erasure)(h), erasure(h), atol=1e-5, rtol=1e-5)


def test_an_edit_of_another_kind_is_refused_in_one_line() -> None:
    class Squared:
        site = Site(0, "pooled")

        def __call__(self, h: torch.Tensor) -> torch.Tensor:
            return h**2

    with pytest.raises(CannotDo, match="A Squared cannot be exported"):
        affine(Squared())
