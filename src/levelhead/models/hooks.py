"""Plain torch hooks that put edits into a live model, and take them out again whatever happens."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from levelhead.edits.sites import Edit
from levelhead.edits.weights import besides_weights, weights_of
from levelhead.errors import CannotDo
from levelhead.models.anatomy import Anatomy
from levelhead.models.concurrency import Together
from levelhead.models.reweighting import reweighted

Active = Callable[[], bool]


# on two ARM cores without SVE (Neoverse-N1) OpenBLAS does 70 G operations in float32 a second, oneDNN 61
_BLAS_IS_QUICKER = platform.machine() == "aarch64" and torch.backends.cpu.get_cpu_capability() == "DEFAULT"


def _choose_kernels() -> Callable[[], None]:
    """On a card cuDNN's attention is left out: it plans anew for every shape of a batch, which took a fifth
    of an audit of 7 B parameters. Some CPUs multiply matrices quicker without oneDNN."""
    onednn: Any = torch.backends.mkldnn
    planned, multiplies = torch.backends.cuda.cudnn_sdp_enabled(), onednn.enabled
    torch.backends.cuda.enable_cudnn_sdp(False)
    onednn.enabled = multiplies and not _BLAS_IS_QUICKER

    def back() -> None:
        torch.backends.cuda.enable_cudnn_sdp(planned)
        onednn.enabled = multiplies

    return back


quick_kernels = Together(_choose_kernels)  # for networks in several threads


@contextmanager
def at_rest(network: nn.Module) -> Iterator[None]:
    """The network without dropout and without gradients of its weights; afterwards as it was, part by part.

    A model that came from memory may be in the middle of its training.
    """
    training = [module for module in network.modules() if module.training]
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    try:
        for module in training:
            module.training = False
        for weight in trained:
            weight.requires_grad_(False)
        with quick_kernels():
            yield
    finally:
        for module in training:
            module.training = True
        for weight in trained:
            weight.requires_grad_(True)


@contextmanager
def attention_by(network: PreTrainedModel, implementation: str) -> Iterator[None]:
    """The network with this implementation of attention; afterwards with its own."""
    own = network.config._attn_implementation
    if own == implementation:
        yield
        return
    network.set_attn_implementation(implementation)
    try:
        yield
    finally:
        network.set_attn_implementation(own)


@contextmanager
def attached(model: Anatomy, edits: Sequence[Edit]) -> Iterator[None]:
    """The model with the edits on; without them again afterwards, also after an exception.

    Contexts nest in any order: each removes only the hooks it has added. Other weights nest as contexts do.
    """
    handles: list[RemovableHandle] = []
    try:
        attach(model, besides_weights(tuple(edits)), handles)
        with reweighted(model.hf, weights_of(tuple(edits))):
            yield
    finally:
        for handle in handles:
            handle.remove()


def attach(model: Anatomy, edits: Sequence[Edit], handles: list[RemovableHandle]) -> None:
    """Put the edits on and note their handles.

    An adapter's edits stay on for good; all others are put on by `attached`, which takes them off again.
    """
    for edit in edits:
        model.check_site(edit.site)
        if edit.site.part == "output":
            raise CannotDo(
                f"{type(edit).__name__} changes what {model.name} is asked, which no hook can: give it as a "
                "variant, or distill it into weights."
            )
    count = _ApplicationCount(model, handles) if model.shares_blocks and edits else None
    for edit in edits:
        active = _always if count is None else count.at(edit.site.layer)
        handles += _attach(model, edit, active)


def _always() -> bool:
    return True


class _ApplicationCount:
    """Which application of a shared block is running (ALBERT calls one block once for each layer)."""

    def __init__(self, model: Anatomy, handles: list[RemovableHandle]) -> None:
        self._model = model
        self._layer = -1
        handles.append(model.base.register_forward_pre_hook(self._restart))
        handles.extend(block.register_forward_pre_hook(self._step) for block in set(model.blocks))

    def _restart(self, *_: Any) -> None:
        self._layer = -1

    def _step(self, *_: Any) -> None:
        self._layer += 1

    def at(self, layer: int) -> Active:
        """True while the given application runs; the engine calls blocks in its own order and says which."""
        return lambda: (
            layer == (self._layer if self._model.running_layer is None else self._model.running_layer)
        )


def _attach(model: Anatomy, edit: Edit, active: Active) -> list[RemovableHandle]:
    part, layer = edit.site.part, edit.site.layer
    if part == "pooled":
        return [_attach_pooled(model, edit)]
    if part == "heads":
        return [model.output_projection(layer).register_forward_pre_hook(on_heads(model, edit, active))]
    if part == "neurons":
        return [model.down_projection(layer).register_forward_pre_hook(on_input(edit, active))]
    if part == "mlp":
        return [model.down_projection(layer).register_forward_hook(_on_output(edit, active))]
    if part in ("block", "cls"):
        return [model.blocks[layer].register_forward_hook(_on_block(edit, active))]
    return [model.qkv_module(layer, part).register_forward_hook(on_qkv(model, edit, active))]


def on_heads(
    model: Anatomy, edit: Callable[[Tensor], Tensor], active: Active = _always
) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, ...] | None]:
    """A pre-hook for W^O that shows the edit its input as [..., head, dim]."""

    def hook(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if not active():
            return None
        return (edit(args[0].unflatten(-1, (model.heads, model.head_dim))).flatten(-2), *args[1:])

    return hook


def on_input(
    edit: Callable[[Tensor], Tensor], active: Active = _always
) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, ...] | None]:
    """A pre-hook that shows the edit a module's input as it is."""

    def hook(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        return (edit(args[0]), *args[1:]) if active() else None

    return hook


def _on_output(edit: Edit, active: Active) -> Callable[[nn.Module, Any, Tensor], Tensor | None]:
    return lambda _, args, out: edit(out) if active() else None


def on_qkv(
    model: Anatomy, edit: Edit, active: Active = _always
) -> Callable[[nn.Module, Any, Tensor], Tensor | None]:
    """A hook for a query, key, value or fused projection that shows the edit its part as [..., head, dim]."""
    which = ("query", "key", "value").index(edit.site.part)

    def hook(_: nn.Module, args: Any, out: Tensor) -> Tensor | None:
        if not active():
            return None
        parts = split_qkv(model, out, which)
        parts[which] = edit(parts[which])
        return join_qkv(model, parts, which)

    return hook


def split_qkv(model: Anatomy, out: Tensor, which: int) -> list[Tensor]:
    """A projection's output as [query, key, value], each [..., head, dim]; a separate one fills one place."""
    if model.family.layout == "separate":
        heads = model.heads if which == 0 else model.kv_heads
        parts = [out] * 3
        parts[which] = out.unflatten(-1, (heads, model.head_dim))
        return parts
    if model.family.layout == "interleaved":
        group = model.heads // model.kv_heads
        grouped = out.unflatten(-1, (model.kv_heads, group + 2, model.head_dim))
        return [grouped[..., :group, :].flatten(-3, -2), grouped[..., group, :], grouped[..., group + 1, :]]
    sizes = [model.heads, model.kv_heads, model.kv_heads]
    pieces = out.split([size * model.head_dim for size in sizes], dim=-1)
    return [piece.unflatten(-1, (size, model.head_dim)) for piece, size in zip(pieces, sizes, strict=True)]


def join_qkv(model: Anatomy, parts: list[Tensor], which: int) -> Tensor:
    """The inverse of split_qkv."""
    if model.family.layout == "separate":
        return parts[which].flatten(-2)
    if model.family.layout == "interleaved":
        query, key, value = parts
        groups = query.unflatten(-2, (model.kv_heads, -1))
        return torch.cat([groups, key[..., None, :], value[..., None, :]], dim=-2).flatten(-3)
    return torch.cat([part.flatten(-2) for part in parts], dim=-1)


def _on_block(edit: Edit, active: Active) -> Callable[[nn.Module, Any, Any], Any]:
    first_only = edit.site.part == "cls"

    def changed(h: Tensor) -> Tensor:
        return torch.cat([edit(h[:, :1]), h[:, 1:]], dim=1) if first_only else edit(h)

    def hook(_: nn.Module, args: Any, out: Any) -> Any:
        if not active():
            return None
        return (changed(out[0]), *out[1:]) if isinstance(out, tuple) else changed(out)

    return hook


def _attach_pooled(model: Anatomy, edit: Edit) -> RemovableHandle:
    if model.classification_head is not None:
        return model.classification_head.register_forward_pre_hook(lambda _, args: (edit(args[0]), *args[1:]))

    def hook(_: nn.Module, args: Any, out: Any) -> Any:
        if getattr(out, "pooler_output", None) is None:
            raise CannotDo(f"{model.name} has no pooled vector to project; use a block or cls site.")
        out.pooler_output = edit(out.pooler_output)
        return out

    return model.base.register_forward_hook(hook)
