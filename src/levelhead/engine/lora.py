"""Low-rank adapters (Hu et al. 2021) on queries, keys and values, by way of peft: few weights to train.

    y = x Wᵀ + (alpha / r) · x Aᵀ Bᵀ        B begins at 0

Rows of B that belong to a closed head get a gradient of exactly 0 and stay 0; W^O has no adapter.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from levelhead.errors import CannotDo
from levelhead.models.model import Model

RANK = 8
ALPHA = 16


def add_lora(classifier: Model, trained: Collection[str]) -> None:
    """Put adapters on and let them, and the weights of these names, be all that is trained."""
    if find_spec("peft") is None:
        raise CannotDo("LoRA needs the package peft: pip install 'levelhead[glue]', or train all weights.")
    from peft import LoraConfig, inject_adapter_in_model

    hf = classifier.hf
    names = {module: name for name, module in hf.named_modules()}
    parts = ("query", "key", "value")
    targets = {
        names[classifier.qkv_module(layer, part)] for layer in range(classifier.layers) for part in parts
    }
    fan_in = not isinstance(classifier.qkv_module(0, "query"), nn.Linear)  # GPT-2's Conv1D
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=sorted(targets), fan_in_fan_out=fan_in)
    inject_adapter_in_model(config, hf)
    for name, weight in hf.named_parameters():
        weight.requires_grad_("lora_" in name or name in trained)


def merge_lora(hf: nn.Module) -> None:
    """Add the adapters to the weights that they stand beside, and take them off."""
    for name, layer in _adapted(hf):
        layer.merge()
        hf.set_submodule(name, layer.get_base_layer())


@torch.no_grad()
def lora_weights(hf: nn.Module) -> dict[str, Tensor]:
    """The weights with the adapters added, by the names that they have without adapters."""
    return {
        f"{name}.weight": layer.get_base_layer().weight + layer.get_delta_weight(layer.active_adapters[0])
        for name, layer in _adapted(hf)
    }


def _adapted(hf: nn.Module) -> list[tuple[str, Any]]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [(name, module) for name, module in hf.named_modules() if isinstance(module, BaseTunerLayer)]
