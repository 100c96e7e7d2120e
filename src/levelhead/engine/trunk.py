"""The model's blocks, called one by one with the arguments that its own code would give them.

A *plan* runs the base model once with stand-ins for its blocks: embeddings, masks and rotary angles are
computed by the model's own code and the stand-ins write down what each block was called with. *Finishing*
runs the model on one-token rows with stand-ins of which the last answers with hidden states that we already
have: final norm, pooler, vocabulary head and classifier are again the model's own. So the engine needs no
code for any architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from levelhead.edits.gates import HeadGates, NeuronGates
from levelhead.edits.sites import Edit, Site
from levelhead.errors import CannotDo
from levelhead.models.hooks import on_heads, on_input
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model
from levelhead.progress import worked

Answer = Callable[[Tensor, tuple[Any, ...], dict[str, object]], Tensor]


@dataclass
class Plan:
    """What each block is called with for one batch."""

    hidden: Tensor  # [batch, token, hidden]: the first block's input
    calls: list[tuple[tuple[Any, ...], dict[str, object]]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Trunk:
    """Runs single blocks of a model, and what comes before and after them."""

    model: Model

    def plan(self, inputs: dict[str, Tensor]) -> Plan:
        """Embeddings and the arguments of every block, without running one."""
        plan: Plan | None = None

        def record(hidden: Tensor, args: tuple[Any, ...], kwargs: dict[str, object]) -> Tensor:
            nonlocal plan
            plan = plan or Plan(hidden)
            plan.calls.append((args, kwargs))
            return hidden

        with _stand_ins(self.model, record):
            self.model.base(**inputs, **({"use_cache": False} if self.model.family.causal else {}))
        if plan is None or len(plan.calls) != self.model.layers:
            raise CannotDo(
                f"{self.model.name} does not run its {self.model.layers} blocks one after another."
            )
        return plan

    def block(self, plan: Plan, layer: int, hidden: Tensor, *, weights: bool = False) -> Tensor:
        """A block's output for this input; weights=True: old-style attention code returns its weights too."""
        args, kwargs = plan.calls[layer]
        if weights and "output_attentions" in kwargs:
            kwargs = {**kwargs, "output_attentions": True}
        worked(hidden.shape[0] * hidden.shape[1] / self.model.layers)
        self.model.running_layer = layer
        try:
            out = self.model.blocks[layer](hidden, *args, **kwargs)
        finally:
            self.model.running_layer = None
        return cast(Tensor, out[0] if isinstance(out, tuple) else out)

    def final(self, vectors: Tensor) -> Tensor:
        """last_hidden_state of vectors that left the last block: [ask, hidden] -> [ask, hidden]."""
        return cast(Tensor, self._finish(self.model.base, vectors).last_hidden_state)[:, 0]

    def logits(self, vectors: Tensor) -> Tensor:
        """The vocabulary head on these vectors only: [ask, hidden] -> [ask, token]."""
        worked(len(vectors) * vocabulary_share(self.model))
        out = self._finish(self.model.hf, vectors)
        logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
        return cast(Tensor, logits)[:, 0].float()

    def pooled(self, vectors: Tensor) -> Tensor:
        """The vector that the classifier's last linear reads: [ask, hidden] -> [ask, pooled]."""
        if self.model.classification_head is None or "nsp" in self.model.abilities:
            pooled = self._finish(self.model.base, vectors).pooler_output
            if pooled is None:
                raise CannotDo(
                    f"{self.model.name} has no pooled vector; read the first token of the last layer instead."
                )
            return cast(Tensor, pooled)
        seen: list[Tensor] = []
        handle = self.model.classification_head.register_forward_pre_hook(
            lambda _, args: seen.append(args[0]), prepend=True
        )
        try:
            self._finish(self.model.hf, vectors)
        finally:
            handle.remove()
        return seen[0].flatten(0, -2)

    def classified(self, pooled: Tensor) -> Tensor:
        """Logits of the next-sentence head or the classifier: [ask, pooled] -> [ask, label]."""
        if self.model.classification_head is None:
            raise CannotDo(f"{self.model.name} has neither a next-sentence head nor a classifier.")
        return cast(Tensor, self.model.classification_head(pooled)).float()

    def _finish(self, module: nn.Module, vectors: Tensor) -> Any:
        calls = 0

        def answer(hidden: Tensor, args: tuple[Any, ...], kwargs: dict[str, object]) -> Tensor:
            nonlocal calls
            calls += 1
            return vectors[:, None] if calls == self.model.layers else hidden

        # with a cache, though it stays empty, transformers does not search for packed texts, and for the card
        extra = {"use_cache": True} if self.model.family.causal else {}
        token = 1 if self.model.hf.config.get_text_config().pad_token_id == 0 else 0
        ids = torch.full((len(vectors), 1), token, dtype=torch.long, device=vectors.device)
        with _stand_ins(self.model, answer):
            return module(input_ids=ids, **extra)


@once_a_model
def vocabulary_share(model: Model) -> float:
    """What scoring the vocabulary costs, in passes of one token through all blocks."""
    blocks = sum(weight.numel() for block in model.blocks for weight in block.parameters())
    return int(model.config.vocab_size) * int(model.config.hidden_size) / max(1, blocks)


def first_token_linear(model: Model) -> nn.Module | None:
    """The one linear layer (pooler or classifier) that reads the first token of the last block directly.

    It is recognized by its input: the only linear layer outside the blocks that is given that vector, bit for
    bit. None where there is none; a model without a head gives its states away as they are.
    """
    if model.hf is model.base:
        return None
    inner = {m for block in set(model.blocks) for m in block.modules()}
    outside = [m for m in model.hf.modules() if isinstance(m, nn.Linear) and m not in inner]
    seen: list[tuple[nn.Module, Tensor]] = []
    last: list[Tensor] = []
    handles = [m.register_forward_pre_hook(lambda m, args: seen.append((m, args[0]))) for m in outside]
    handles.append(
        model.blocks[-1].register_forward_hook(
            lambda _, args, out: last.append(out[0] if type(out) is tuple else out)
        )
    )
    try:
        ids = torch.arange(3, 6, device=model.device)[None] % model.config.vocab_size
        with torch.no_grad():
            model.hf(input_ids=ids)
    finally:
        for handle in handles:
            handle.remove()
    first = last[-1][:, 0]
    fed = [m for m, x in seen if x.shape == first.shape and torch.equal(x, first)]
    return fed[0] if len(fed) == 1 else None


# ---- stand-ins


class _StandIn(nn.Module):
    """Looks like a block to the model's code, but answers from memory."""

    def __init__(self, real: nn.Module, answer: Answer, outputs: int) -> None:
        super().__init__()
        self.__dict__.update(real=real, answer=answer, outputs=outputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["real"], name)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        out = self.answer(hidden_states, args, kwargs)
        return (out, *[None] * (self.outputs - 1)) if self.outputs else out


@contextmanager
def _stand_ins(model: Model, answer: Answer) -> Iterator[None]:
    real = dict(model.block_list._modules)
    try:
        for key, block in real.items():
            model.block_list._modules[key] = _StandIn(block, answer, model.block_outputs)
        yield
    finally:
        model.block_list._modules.update(real)


@contextmanager
def only_rows(model: Model, layer: int, flat: Tensor, shape: tuple[int, int]) -> Iterator[None]:
    """Let the row-by-row modules of a block work on some rows only; what comes out at the others is void.

    flat: indices into batch x token. Queries, W^O and feed-forward are most of a block; keys and values stay
    whole.
    """
    block = model.blocks[layer]

    def gather(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = args[0]
        rows = x.reshape(-1, x.shape[-1]).index_select(0, flat.to(x.device))
        return (rows if x.dim() == 2 else rows[None], *args[1:])

    def whole(out: Tensor) -> Tensor:
        rows = out.reshape(-1, out.shape[-1])
        size = shape[0] * shape[1]
        all_rows = rows.new_zeros(size, rows.shape[-1]).index_copy(0, flat.to(rows.device), rows)
        return all_rows if out.dim() == 2 else all_rows.unflatten(0, shape)

    def scatter(_: nn.Module, args: Any, out: Any) -> Any:
        # experts may give their router's scores away too, which no block passes on
        return (whole(out[0]), *out[1:]) if isinstance(out, tuple) else whole(out)

    with ExitStack() as stack:
        for chain in model.family.rowwise:
            first, _, last = chain.partition(">")
            stack.callback(block.get_submodule(first).register_forward_pre_hook(gather).remove)
            stack.callback(block.get_submodule(last or first).register_forward_hook(scatter).remove)
        yield


# ---- gates


@dataclass(frozen=True)
class Component:
    """What has a gate: a head or a neuron. A value, which a job takes along to another process."""

    shared: bool  # whether all texts of a batch have the same gates

    def count(self, model: Model) -> int:
        """How many of them a layer has; a model that has none is refused."""
        if not self.shared:
            return model.heads
        model.check_site(Site(0, "neurons"))
        return model.neurons

    def edit(self, layer: int, values: Sequence[float]) -> Edit:
        """The edit that sets the gates of a layer."""
        if not self.shared:
            return HeadGates(layer, tuple(values))
        return NeuronGates(layer, len(values), tuple(range(len(values))), tuple(values))


# each text has gates of its own for its heads, so that what it contributes is seen at no cost; gates of its
# own for its neurons would be as large as the activations
HEADS, NEURONS = Component(shared=False), Component(shared=True)


def gated_blocks(
    trunk: Trunk, plan: Plan, component: Component, gates: Sequence[Tensor], flat: Tensor, *, recompute: bool
) -> Tensor:
    """What leaves the last block, at the tokens `flat` of batch x token only: [batch, token, hidden].

    gates: of each layer, [text, head] or [neuron]. recompute: keep what enters each block and nothing else;
    the way back then runs every block once more. The gradient is the same, the memory that of a block.
    """
    model = trunk.model

    def gated_block(layer: int, hidden: Tensor, gate: Tensor) -> Tensor:
        with ExitStack() as stack:
            if component.shared:
                hook = on_input(lambda h: h * gate.to(h))
                handle = model.down_projection(layer).register_forward_pre_hook(hook)
            else:
                hook = on_heads(model, lambda h: h * gate[:, None, :, None].to(h))
                handle = model.output_projection(layer).register_forward_pre_hook(hook)
            stack.callback(handle.remove)
            if layer == model.layers - 1:
                stack.enter_context(only_rows(model, layer, flat, (hidden.shape[0], hidden.shape[1])))
            return trunk.block(plan, layer, hidden)

    hidden = plan.hidden
    for layer, gate in enumerate(gates):
        block = partial(gated_block, layer)
        if recompute:
            again = checkpoint(block, hidden, gate, use_reentrant=False, preserve_rng_state=False)
            hidden = cast(Tensor, again)
        else:
            hidden = block(hidden, gate)
    return hidden
