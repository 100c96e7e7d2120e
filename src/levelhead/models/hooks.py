"""Plain torch hooks that put edits into a live model, and take them out again whatever happens."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from levelhead.edits.output import Reweighted, besides_weights, weights_of
from levelhead.edits.sites import Edit, Part, Site
from levelhead.errors import BadOption, CannotDo
from levelhead.models.anatomy import Anatomy
from levelhead.models.concurrency import Together, asking

Active = Callable[[], bool]
PreHook = Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, ...] | None]

# on two ARM cores without SVE (Neoverse-N1) OpenBLAS does 70 G operations in float32 a second, oneDNN 61
_BLAS_IS_QUICKER = platform.machine() == "aarch64" and torch.backends.cpu.get_cpu_capability() == "DEFAULT"


@Together
@contextmanager
def quick_kernels() -> Iterator[None]:
    """On a card cuDNN's attention is left out: it plans anew for every shape of a batch, which took a fifth
    of an audit of 7 B parameters. Some CPUs multiply matrices quicker without oneDNN."""
    onednn: Any = torch.backends.mkldnn
    planned, multiplies = torch.backends.cuda.cudnn_sdp_enabled(), onednn.enabled
    torch.backends.cuda.enable_cudnn_sdp(False)
    onednn.enabled = multiplies and not _BLAS_IS_QUICKER
    yield
    torch.backends.cuda.enable_cudnn_sdp(planned)
    onednn.enabled = multiplies


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
def checked(network: nn.Module, check: Callable[[], None]) -> Iterator[None]:
    """The network for this asker, with a check before each of its forward passes: one that raises ends what
    was asked. It must not wait: nobody else is answered meanwhile."""
    with asking(network):
        handle = network.register_forward_pre_hook(lambda *_: check())
        try:
            yield
        finally:
            handle.remove()


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
def reweighted(network: nn.Module, changes: Sequence[Reweighted]) -> Iterator[None]:
    """The network with other weights; with its own again afterwards, also after an exception.

    No number is copied over another, so none can be lost: a parameter keeps its identity and its own numbers,
    and inside the `with` it only points to other ones. So tied parameters stay tied, hooks stay where they
    are, and afterwards the network is bit for bit the one that was loaded: workers may answer for it again.
    """
    found: list[tuple[nn.Parameter, Tensor]] = []
    for change in changes:
        for name, value in change.values.items():
            try:
                weight = network.get_parameter(name)
            except AttributeError:
                raise BadOption(
                    f"{change.name}: {type(network).__name__} has no parameter {name!r}. Give names as its "
                    "named_parameters() has them."
                ) from None
            if weight.is_meta or not weight.is_floating_point():
                raise BadOption(
                    f"{change.name}: the numbers of {name} cannot be exchanged. Load the model in floats."
                )
            if weight.shape != value.shape:
                raise BadOption(
                    f"{change.name}: {name} must have the shape {tuple(weight.shape)} (got "
                    f"{tuple(value.shape)})."
                )
            found.append((weight, value))
    own = {id(weight): (weight, weight.data) for weight, _ in found}
    try:
        for weight, value in found:
            weight.data = value.detach().to(weight.device, weight.dtype).contiguous()
        yield
    finally:
        for weight, numbers in own.values():
            weight.data = numbers


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
                f"{type(edit).__name__} changes which texts {model.name} gets, which no hook can: give it as "
                "a variant, or distill it into weights."
            )
    shares = model.shares_blocks and bool(edits)  # ALBERT calls one block once for each layer
    begun: list[nn.Module] = []  # the blocks of this pass so far, the last of which is running

    def is_running(layer: int) -> bool:
        # the engine calls blocks in its own order and says which
        return not shares or layer == (len(begun) - 1 if model.running_layer is None else model.running_layer)

    if shares:
        handles.append(model.base.register_forward_pre_hook(lambda *_: begun.clear()))
        handles += [
            block.register_forward_pre_hook(lambda own, _: begun.append(own)) for block in set(model.blocks)
        ]
    handles.extend(attach_at(model, e.site, e, partial(is_running, e.site.layer)) for e in edits)


def attach_at(
    model: Anatomy, site: Site, edit: Callable[[Tensor], Tensor], active: Active = lambda: True
) -> RemovableHandle:
    """Put a function on a site: it is given what is there, and what it returns goes on."""
    part, layer = site.part, site.layer
    if part == "heads":
        return model.output_projection(layer).register_forward_pre_hook(on_heads(model, edit, active))
    if part == "neurons":
        return model.down_projection(layer).register_forward_pre_hook(on_input(edit, active))
    if part == "mlp":
        return model.down_projection(layer).register_forward_hook(
            lambda _, args, out: edit(out) if active() else None
        )
    if part == "pooled" and model.classification_head is not None:
        return model.classification_head.register_forward_pre_hook(on_input(edit))

    def on_pooled(_: nn.Module, args: Any, out: Any) -> Any:
        if getattr(out, "pooler_output", None) is None:
            raise CannotDo(f"{model.name} has no pooled vector to project; use a block or cls site.")
        out.pooler_output = edit(out.pooler_output)
        return out

    def on_block(_: nn.Module, args: Any, out: Any) -> Any:
        if not active():
            return None
        h = out[0] if isinstance(out, tuple) else out
        h = torch.cat([edit(h[:, :1]), h[:, 1:]], dim=1) if part == "cls" else edit(h)
        return (h, *out[1:]) if isinstance(out, tuple) else h

    if part == "pooled":
        return model.base.register_forward_hook(on_pooled)
    if part in ("block", "cls"):
        return model.blocks[layer].register_forward_hook(on_block)
    return model.qkv_module(layer, part).register_forward_hook(
        lambda _, args, out: changed_qkv(model, part, out, edit) if active() else None
    )


def on_heads(model: Anatomy, edit: Callable[[Tensor], Tensor], active: Active = lambda: True) -> PreHook:
    """A pre-hook for W^O that shows the edit its input as [..., head, dim]."""
    return on_input(lambda x: edit(x.unflatten(-1, (model.heads, model.head_dim))).flatten(-2), active)


def on_input(edit: Callable[[Tensor], Tensor], active: Active = lambda: True) -> PreHook:
    """A pre-hook that shows the edit a module's input as it is."""
    return lambda _, args: (edit(args[0]), *args[1:]) if active() else None


def changed_qkv(model: Anatomy, part: Part, out: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """A projection's output whose queries, keys or values [..., head, dim] are changed."""
    which = ("query", "key", "value").index(part)
    parts = split_qkv(model, out, which)
    parts[which] = change(parts[which])
    return join_qkv(model, parts, which)


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
