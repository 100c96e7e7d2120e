"""Edits folded into weights, exactly: the folded model computes what the edited one does, without hooks.

An edit x' = s x − (x Rᵀ) W + o stands either behind a linear layer or before one:

    y = x Aᵀ + b, y edited    each column of A is edited like a y, and so is b     query, key, value, mlp
    x edited, y = x' Aᵀ + b   each row of A is edited, R and W swapped, b += A o   heads, neurons, pooled, cls

What stands between two blocks (tokens, an earlier CLS) has no linear layer of its own and cannot be folded,
nor can an edit of one application of a block that ALBERT shares between layers. Reference: docs/method.md,
export.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from levelhead.edits.erasure import AffineErasure
from levelhead.edits.gates import HeadGates
from levelhead.edits.neurons import NeuronGates
from levelhead.edits.projection import Projection
from levelhead.edits.sites import INSIDE, Edit
from levelhead.edits.steering import Steering
from levelhead.edits.subspace import describe
from levelhead.engine.trunk import first_token_linear
from levelhead.errors import CannotDo
from levelhead.models.adapter import AffineEdit
from levelhead.models.concurrency import asking, holding
from levelhead.models.hooks import join_qkv, split_qkv
from levelhead.models.model import Model


@dataclass(frozen=True, eq=False)
class Fold:
    """The edits that go into one linear layer, in the order in which they act."""

    module: nn.Module
    edits: tuple[AffineEdit, ...]


@dataclass(frozen=True, eq=False)
class Folding:
    """How a variant folds; `obstacles` says, one line each, why it does not."""

    folds: tuple[Fold, ...]
    obstacles: tuple[str, ...]
    first_token: bool = False  # a CLS edit goes into the layer that reads it: token outputs stay unedited


def affine(edit: Edit) -> AffineEdit:
    """An edit in the form that can be folded and stored."""
    if isinstance(edit, AffineEdit):
        return edit
    if isinstance(edit, HeadGates):
        return AffineEdit(edit.site, scale=torch.tensor(edit.values, dtype=torch.float32)[:, None])
    if isinstance(edit, NeuronGates):
        return AffineEdit(edit.site, scale=edit.scale.float())
    if isinstance(edit, Projection):
        return AffineEdit(edit.site, read=edit.basis, write=edit.weights[..., None] * edit.basis)
    if isinstance(edit, AffineErasure):
        bare = AffineEdit(edit.site, read=edit.right, write=edit.left.mT.contiguous())
        center = edit.center.double()
        return replace(bare, offset=(center - bare(center)).float())
    if isinstance(edit, Steering) and edit.probe is None:
        return AffineEdit(edit.site, offset=edit.strength * edit.vector)
    kind = "Steering with a probe" if isinstance(edit, Steering) else type(edit).__name__
    raise CannotDo(f"A {kind} cannot be exported: gates, projections, LEACE, INLP and plain steering can.")


def plan_folding(model: Model, edits: Sequence[Edit]) -> Folding:
    """Where each edit goes. Nothing is changed yet."""
    forms = [affine(edit) for edit in edits]
    by_module: dict[tuple[nn.Module, bool], list[AffineEdit]] = defaultdict(list)
    obstacles: list[str] = []
    for form in forms:
        module, why = _target(model, form)
        if model.fixed_weights:
            obstacles.append(f"{describe(form.site)}: {model.fixed_weights}")
        elif module is None:
            obstacles.append(f"{describe(form.site)}: {why}")
        elif not _has_bias(module) and form.offset is not None:
            obstacles.append(f"{describe(form.site)}: an offset needs a bias, which this layer does not have")
        else:
            by_module[module, form.site.part == "mlp"].append(form)  # behind the layer, or before it
    folds = []
    for (module, _), some in by_module.items():
        once = _same_everywhere(model, some) if some[0].site.part in INSIDE else some
        if once is None:
            obstacles.append(
                f"{describe(some[0].site)}: its weights serve other layers, which are edited otherwise"
            )
        else:
            folds.append(Fold(module, tuple(once)))
    return Folding(tuple(folds), tuple(obstacles), any(form.site.part == "cls" for form in forms))


@contextmanager
def folded(model: Model, folding: Folding) -> Iterator[Model]:
    """The model with changed weights; afterwards they are bit for bit what they were."""
    if folding.obstacles:
        raise CannotDo(f"These edits cannot be folded into the weights: {'; '.join(folding.obstacles)}.")
    weights = [weight for fold in folding.folds for weight in fold.module.parameters(recurse=False)]
    with holding(model.hf):
        kept = [(weight, weight.detach().clone()) for weight in weights]
        try:
            with torch.no_grad():
                for fold in folding.folds:
                    _fold(model, fold)
            yield model
        finally:
            with torch.no_grad():
                for weight, before in kept:
                    weight.copy_(before)


# ---- where to


def _target(model: Model, edit: AffineEdit) -> tuple[nn.Module | None, str]:
    part, layer = edit.site.part, edit.site.layer
    model.check_site(edit.site)
    if part == "heads":
        return model.output_projection(layer), ""
    if part in ("query", "key", "value"):
        return model.qkv_module(layer, part), ""
    if part in ("neurons", "mlp"):
        return model.down_projection(layer), ""
    if part == "pooled":
        return model.classification_head, "the sentence vector is itself an output of this model"
    if part == "cls" and layer == model.layers - 1:
        with asking(model.hf):
            return first_token_linear(model), "no single linear layer reads it"
    return None, "the residual stream carries it on"


def _same_everywhere(model: Model, edits: list[AffineEdit]) -> list[AffineEdit] | None:
    """Edits of a shared module, once, if they are the same at every layer where it runs."""
    blocks = {model.blocks[edit.site.layer] for edit in edits}
    layers = [layer for layer, block in enumerate(model.blocks) if block in blocks]
    by_layer = [[edit for edit in edits if edit.site.layer == layer] for layer in layers]
    return by_layer[0] if all(_equal(by_layer[0], other) for other in by_layer[1:]) else None


def _equal(some: list[AffineEdit], others: list[AffineEdit]) -> bool:
    if len(some) != len(others):
        return False
    both = [(one.tensors, other.tensors) for one, other in zip(some, others, strict=True)]
    return all(
        mine.keys() == theirs.keys() and all(torch.equal(value, theirs[name]) for name, value in mine.items())
        for mine, theirs in both
    )


# ---- how


def _fold(model: Model, fold: Fold) -> None:
    """Change one layer's weights; in float64, so that several edits of one layer round only once."""
    module = cast(Any, fold.module)
    linear = isinstance(fold.module, nn.Linear)
    # [out, in]; GPT-2's Conv1D has it the other way round
    weight = (module.weight if linear else module.weight.T).double()
    bias = module.bias.double() if _has_bias(module) else None
    if fold.edits[0].site.part in ("query", "key", "value", "mlp"):
        for edit in fold.edits:
            weight = _behind(model, edit, weight.T, edit.linear).T
            bias = None if bias is None else _behind(model, edit, bias, edit)
    else:
        for edit in reversed(fold.edits):  # the last to act stands next to the layer
            if bias is not None and edit.offset is not None:
                bias = bias + weight @ edit.offset.to(weight).flatten()
            weight = _before(model, edit, weight)
    module.weight.copy_(weight if linear else weight.T)
    if bias is not None:
        module.bias.copy_(bias)


def _behind(model: Model, edit: AffineEdit, out: Tensor, change: Any) -> Tensor:
    if edit.site.part == "mlp":
        return cast(Tensor, change(out))
    which = ("query", "key", "value").index(edit.site.part)
    parts = split_qkv(model, out, which)
    parts[which] = change(parts[which])
    return join_qkv(model, parts, which)


def _before(model: Model, edit: AffineEdit, weight: Tensor) -> Tensor:
    if edit.site.part != "heads":
        return edit.transposed(weight)
    return edit.transposed(weight.unflatten(-1, (model.heads, model.head_dim))).flatten(-2)


def _has_bias(module: nn.Module) -> bool:
    return getattr(module, "bias", None) is not None
