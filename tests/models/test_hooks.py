"""A network that is asked is left as it was."""

from __future__ import annotations

import pytest
import torch

from levelhead.models.hooks import at_rest, checked
from tests.tiny import tiny


@pytest.mark.parametrize("planned", [True, False])
def test_asking_leaves_training_gradients_and_cudnns_attention_as_they_were(planned: bool) -> None:
    network = tiny("bert").hf.train().requires_grad_(True)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(planned)
    try:
        with at_rest(network):
            assert not torch.backends.cuda.cudnn_sdp_enabled()
            assert not any(module.training for module in network.modules())
            assert not any(weight.requires_grad for weight in network.parameters())
        assert torch.backends.cuda.cudnn_sdp_enabled() is planned
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
    assert all(module.training for module in network.modules())
    assert all(weight.requires_grad for weight in network.parameters())


def test_a_check_before_each_pass_may_end_a_question_and_is_gone_afterwards() -> None:
    model, passes = tiny("gpt2"), []
    given = torch.tensor([[1, 2]])

    def check() -> None:
        passes.append(True)
        if len(passes) == 2:
            raise RuntimeError("enough")

    with checked(model.hf, check):
        model.hf(input_ids=given)
        with pytest.raises(RuntimeError, match="enough"):
            model.hf(input_ids=given)
    model.hf(input_ids=given)
    assert len(passes) == 2
