"""Every output of a model's own forward pass, real tokens only."""

from __future__ import annotations

import pytest
import torch

from levelhead.edits.gates import removed
from levelhead.engine.own_forward import OwnForward
from levelhead.models.encoding import Text
from tests.tiny import tiny

TEXTS = ["The nurse said that she was tired.", "Who knows"]


@pytest.mark.parametrize(("first_token", "dropped"), [(True, 0), (False, 1)])
def test_outputs_equal_the_forward_pass_of_each_text_alone(first_token: bool, dropped: int) -> None:
    model = tiny("bert", "nsp")
    outputs = OwnForward(model, [Text(text) for text in TEXTS], first_token=first_token).outputs(model.hf)
    with torch.no_grad():
        alone = [model.hf(**model.tokenizer(text, return_tensors="pt")) for text in TEXTS]
    tokens = torch.cat([out.prediction_logits[0, dropped:] for out in alone])
    pairs = torch.cat([out.seq_relationship_logits for out in alone])
    assert outputs.keys() == {"prediction_logits", "seq_relationship_logits"}
    torch.testing.assert_close(outputs["prediction_logits"], tokens, atol=1e-5, rtol=0)
    torch.testing.assert_close(outputs["seq_relationship_logits"], pairs, atol=1e-5, rtol=0)


def test_an_edit_shows_in_the_outputs_and_is_gone_from_them_afterwards() -> None:
    model = tiny("llama")
    forward = OwnForward(model, [Text(text) for text in TEXTS])
    before = forward.outputs(model.hf)
    with model.edited(*removed(model, [(1, 1)])):
        edited = forward.outputs(model.hf)
    assert not torch.allclose(edited["logits"], before["logits"], atol=1e-3)
    assert torch.equal(forward.outputs(model.hf)["logits"], before["logits"])
