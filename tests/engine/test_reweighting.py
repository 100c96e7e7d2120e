"""Other weights as a variant: as if a changed copy had been loaded, and gone without a trace afterwards."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from levelhead.edits.gates import removed
from levelhead.edits.output import Reweighted, Symmetrized
from levelhead.edits.sites import Variant
from levelhead.engine.finetuning import TaskData, finetune, labeled
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.engine.own_forward import OwnForward
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, CannotDo, NoEffect
from levelhead.mitigation.export import export
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model
from levelhead.models.sources import Source
from levelhead.models.unmodified import condition
from levelhead.probes.glue import GlueItem
from levelhead.probes.group_swap import GenderSwap
from tests.tiny import tiny

TEXTS = ["She saw him in the kitchen.", "The nurse said that she was tired.", "The engineer was tired."]
SYMMETRIZED = Symmetrized(GenderSwap())


@pytest.fixture(params=["bert", "gpt2", "llama", "albert"])
def speaker(request: pytest.FixtureRequest) -> Model:
    return tiny(request.param, "nsp" if request.param == "bert" else "mlm")


def shifted(model: Model, by: float = 0.1) -> Reweighted:
    """All parameters moved, tied ones under their first name."""
    torch.manual_seed(1)
    own = dict(model.hf.named_parameters())
    return Reweighted.moved(f"shifted {by}", own, {n: torch.randn_like(w) for n, w in own.items()}, by)


def changed_copy(model: Model, change: Reweighted) -> Model:
    """A model of its own into which the weights were copied."""
    hf = deepcopy(model.hf)
    with torch.no_grad():
        for name, value in change.values.items():
            hf.get_parameter(name).copy_(value)
    return Model(Source("copy", hf, model.tokenizer, "test", ()))


def bits(model: Model) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.hf.state_dict().items()}


def asked(model: Model) -> TokenLogProbs:
    mask = model.tokenizer.mask_token
    texts = [f"{text} {mask} was tired." for text in TEXTS] if mask else TEXTS
    return TokenLogProbs(texts, range(5, 40))


def test_a_variant_with_other_weights_answers_as_a_model_that_was_changed_and_loaded(speaker: Model) -> None:
    change = shifted(speaker)
    both = read_one(speaker, asked(speaker), [(), (change,)])
    np.testing.assert_array_equal(both[0], read_one(speaker, asked(speaker))[0])
    np.testing.assert_array_equal(both[1], read_one(changed_copy(speaker, change), asked(speaker))[0])
    assert np.abs(both[1] - both[0]).max() > 0.1


def test_weights_moved_by_nothing_change_no_bit(speaker: Model) -> None:
    same = shifted(speaker, 0.0)
    plain, moved = read_one(speaker, asked(speaker), [(), (same,)])
    np.testing.assert_array_equal(plain, moved)
    own = dict(speaker.hf.named_parameters())
    assert all(torch.equal(value, own[name]) for name, value in same.values.items())


def test_the_network_is_as_it_was_afterwards_and_after_an_exception(speaker: Model) -> None:
    before, state = bits(speaker), condition(speaker.hf)
    fingerprint = speaker.fingerprint
    with suppress(ZeroDivisionError), speaker.edited(shifted(speaker)):
        assert condition(speaker.hf) != state  # workers would answer otherwise
        assert speaker.fingerprint == fingerprint
        raise ZeroDivisionError
    assert condition(speaker.hf) == state  # so workers may answer again
    after = bits(speaker)
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_tied_weights_stay_tied_under_either_name() -> None:
    model = tiny("gpt2")
    row = torch.zeros_like(model.hf.get_input_embeddings().weight)
    by_head, by_input = (
        Reweighted(name, {name: row}) for name in ("lm_head.weight", "transformer.wte.weight")
    )
    answers = read_one(model, asked(model), [(by_head,), (by_input,)])
    np.testing.assert_array_equal(answers[0], answers[1])
    assert np.ptp(answers[0], axis=-1).max() < 1e-6  # every token is as likely as any other


def test_other_weights_stand_beside_symmetrization_gates_and_null_models(speaker: Model) -> None:
    change = shifted(speaker)
    copy = changed_copy(speaker, change)
    edits = removed(speaker, ["1-1"])
    variants: list[tuple[Any, ...]] = [(SYMMETRIZED,), (), edits, (*edits, SYMMETRIZED)]
    mixed = [variants[0], (change, *variants[0]), *((*each, change) for each in variants[1:])]
    answers = read_one(speaker, asked(speaker), mixed)
    np.testing.assert_array_equal(answers[1:], read_one(copy, asked(copy), variants))
    with as_null_model(speaker, draw_null_model(speaker, 3)), as_null_model(copy, draw_null_model(copy, 3)):
        counterfactuals = read_one(speaker, asked(speaker), [(change,), ()])
        np.testing.assert_array_equal(counterfactuals[0], read_one(copy, asked(copy))[0])
        assert np.abs(counterfactuals[0] - counterfactuals[1]).max() > 0.1


def test_gate_gradients_are_those_of_the_other_weights_inside_a_with(speaker: Model) -> None:
    change = shifted(speaker)
    copy = changed_copy(speaker, change)
    with speaker.edited(change):
        inside = gate_gradients(speaker, asked(speaker), lambda y: y[:, 0].sum())
    there = gate_gradients(copy, asked(copy), lambda y: y[:, 0].sum())
    np.testing.assert_array_equal(inside.scores, there.scores)


def test_a_classifier_begins_with_the_other_weights() -> None:
    model = tiny("bert")
    change = shifted(model)
    items = [GlueItem(text, None, float(i % 2)) for i, text in enumerate(TEXTS)]
    data = labeled(model, items, 32)
    task = TaskData(("no", "yes"), data, data, lambda gold, given: float(np.mean(gold == given)))
    plan = Hyperparameters(epochs=1, learning_rate=1e-9)
    trained = finetune(model, (change,), task, plan).model
    name = "bert.encoder.layer.0.output.dense.weight"
    torch.testing.assert_close(trained.hf.get_parameter(name), change.values[name])


def test_an_exported_folder_of_other_weights_is_an_ordinary_checkpoint(
    speaker: Model, tmp_path: Path
) -> None:
    change = shifted(speaker)
    edits: Variant = (change,) if speaker.shares_blocks else (change, *removed(speaker, ["1-1"]))
    report = export(speaker, edits, tmp_path / "out")
    assert report.folded
    again: Any = type(speaker.hf).from_pretrained(tmp_path / "out")
    forward = OwnForward(speaker, [Text(text) for text in TEXTS])
    with speaker.edited(*edits):
        expected = forward.outputs(speaker.hf)
    given = forward.outputs(again.eval())
    for name, value in expected.items():
        torch.testing.assert_close(given[name], value, atol=1e-5, rtol=1e-5)
    with pytest.raises(NoEffect):
        export(speaker, (shifted(speaker, 0.0),), tmp_path / "same")


def test_wrong_weights_are_refused_in_one_line() -> None:
    model = tiny("bert")
    for values, message in (
        ({}, "at least one parameter by its name"),
        ({"bert.nothing": torch.zeros(2)}, "has no parameter 'bert.nothing'"),
        ({"bert.pooler.dense.bias": torch.zeros(2)}, "has no parameter 'bert.pooler"),
        ({"bert.embeddings.LayerNorm.bias": torch.zeros(2)}, r"must have the shape \(32,\) \(got \(2,\)\)"),
    ):
        with pytest.raises(BadOption, match=message):
            read_one(model, asked(model), [(Reweighted("wrong", values),)])
    with pytest.raises(BadOption, match="no parameter 'b'"):
        Reweighted.moved("wrong", {}, {"b": torch.zeros(1)})
    with pytest.raises(BadOption, match="no parameter 'b'"):
        Reweighted.part_way("wrong", {}, {"b": torch.zeros(1)}, 0.5)
    with pytest.raises(CannotDo, match="give it as a variant"):
        shifted(model)(torch.zeros(1))


def test_part_of_the_way_is_between_and_both_ends_are_exact() -> None:
    own, others = {"w": torch.tensor([1.0, -2.0]), "v": torch.ones(1)}, {"w": torch.tensor([3.0, 0.1])}
    for way, expected in ((0.0, own["w"]), (0.25, torch.tensor([1.5, -1.475])), (1.0, others["w"])):
        given = Reweighted.part_way("some", own, others, way).values
        assert set(given) == {"w"}
        torch.testing.assert_close(given["w"], expected, rtol=0, atol=1e-6 if way == 0.25 else 0)


def test_equal_names_and_numbers_make_equal_values() -> None:
    one, other = (Reweighted("a", {"w": torch.ones(2)}) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Reweighted("a", {"w": torch.ones(2) * 2})
    assert one != Reweighted("b", {"w": torch.ones(2)})
