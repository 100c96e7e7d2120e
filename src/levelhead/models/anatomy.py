"""Where a transformers model keeps its blocks, its attention projections and its classifier."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from levelhead.edits.sites import Site
from levelhead.errors import CannotDo, UnknownFamily
from levelhead.models.families import Family

_JUDGES = ("cls.seq_relationship", "classifier.out_proj", "classifier", "score")


class Anatomy:
    """The parts of a network that edits act on, found by the attribute paths of its family.

    Hooks need no more than this; Model adds the tokenizer, what the weights can answer, and the proof that
    its gates work.
    """

    def __init__(self, name: str, hf: Any, family: Family) -> None:
        self.name = name
        self.hf: Any = hf  # transformers.PreTrainedModel
        self.config: Any = hf.config.get_text_config()
        self.family = family
        self.base: nn.Module = hf.base_model
        self.layers: int = self.config.num_hidden_layers
        self.heads: int = self.config.num_attention_heads
        self.running_layer: int | None = None  # set by the engine while it calls a block
        kind = hf.config.model_type
        try:
            for layer in range(self.layers):
                self.output_projection(layer)
                [self.qkv_module(layer, part) for part in ("query", "key", "value")]
        except (AttributeError, IndexError) as error:
            raise UnknownFamily(
                f"{name} is a {kind}, but its parts are not where models/families.toml says ({error}). "
                "Correct that entry for this version of transformers."
            ) from None
        if getattr(self.config, "inner_group_num", 1) != 1:
            raise UnknownFamily(f"{name}: ALBERT with inner_group_num > 1 is not supported.")
        if getattr(self.base.get_submodule(family.blocks.rpartition(".")[0]), "conv", None) is not None:
            raise UnknownFamily(f"{name}: a convolution between its blocks is not supported (DeBERTa-v2 XL).")
        self.head_dim: int = width_in(self.output_projection(0)) // self.heads
        # by the width of the projection: some of Falcon's layouts ignore the number in its configuration
        width = width_out(self.qkv_module(0, "key")) // self.head_dim
        self.kv_heads: int = width if len(family.qkv) > 1 else (width - self.heads) // 2

    @property
    def device(self) -> torch.device:
        """Where texts are sent: the place where the embeddings run, wherever a device map has the rest."""
        hook = getattr(self.hf.get_input_embeddings(), "_hf_hook", None)  # accelerate's
        place = getattr(hook, "execution_device", None)
        return cast(torch.device, self.hf.device) if place is None else torch.device(place)

    @cached_property
    def block_list(self) -> nn.ModuleList:
        """The list that the base model walks through; ALBERT's holds fewer blocks than there are layers."""
        return cast(nn.ModuleList, self.base.get_submodule(self.family.blocks))

    @cached_property
    def blocks(self) -> tuple[nn.Module, ...]:
        """The block that runs at each layer."""
        groups = len(self.block_list)
        return tuple(self.block_list[int(i / (self.layers / groups))] for i in range(self.layers))

    @property
    def shares_blocks(self) -> bool:
        """Whether one block runs at several layers."""
        return len(set(self.blocks)) < self.layers

    def output_projection(self, layer: int) -> nn.Module:
        """W^O of a layer: its input is the concatenation of the heads' outputs."""
        return self.blocks[layer].get_submodule(self.family.output)

    def down_projection(self, layer: int) -> nn.Module:
        """The MLP's second linear layer: its input is the activations of the neurons."""
        if not self.family.down:
            raise CannotDo(
                f"{self.name} has no single down projection in a block (experts share the work), so its "
                "neurons have no gates. Use heads."
            )
        try:
            return self.blocks[layer].get_submodule(self.family.down)
        except AttributeError:
            raise CannotDo(
                f"Layer {layer + 1} of {self.name} has no {self.family.down}, so its neurons have no gates. "
                "Use heads."
            ) from None

    @cached_property
    def neurons(self) -> int:
        """How many neurons the MLP of a layer has."""
        widths = {width_in(self.down_projection(layer)) for layer in range(self.layers)}
        if len(widths) > 1:
            raise CannotDo(f"{self.name} has layers of {sorted(widths)} neurons; one number is needed.")
        return widths.pop()

    def qkv_module(self, layer: int, part: str) -> nn.Module:
        """The projection that makes queries, keys or values; one fused module may make all three."""
        paths = self.family.qkv
        path = paths[("query", "key", "value").index(part)] if len(paths) > 1 else paths[0]
        return self.blocks[layer].get_submodule(path)

    @cached_property
    def classification_head(self) -> nn.Module | None:
        """The linear layer that reads the pooled vector: next-sentence head or classifier."""
        for path in _JUDGES:
            try:
                module = self.hf.get_submodule(path)
            except AttributeError:
                continue
            if isinstance(module, nn.Linear) and (path.startswith("cls") or self.is_classifier):
                return module
        return None

    @property
    def is_classifier(self) -> bool:
        """Whether the model was made to classify whole texts."""
        return type(self.hf).__name__.endswith("ForSequenceClassification")

    def check_site(self, site: Site) -> None:
        """Refuse a place that this model does not have."""
        if not 0 <= site.layer < self.layers:
            raise CannotDo(
                f"{self.name} has layers 1 to {self.layers}; layer {site.layer + 1} was asked for."
            )
        if site.part in ("neurons", "mlp"):
            self.down_projection(site.layer)
        pools = self.classification_head is not None or getattr(self.base, "pooler", None) is not None
        if site.part == "pooled" and not pools:
            raise CannotDo(f"{self.name} has no pooled vector; use the cls or block site of the last layer.")


def width_in(projection: nn.Module) -> int:
    """Input width of a Linear, quantized or not, or of GPT-2's Conv1D, whose weight is transposed."""
    if (width := getattr(projection, "in_features", None)) is not None:
        return int(width)
    return int(cast(Tensor, projection.weight).shape[1 if isinstance(projection, nn.Linear) else 0])


def width_out(projection: nn.Module) -> int:
    """Output width of a Linear, or of GPT-2's Conv1D, whose weight is transposed."""
    return int(cast(Tensor, projection.weight).shape[0 if isinstance(projection, nn.Linear) else 1])
