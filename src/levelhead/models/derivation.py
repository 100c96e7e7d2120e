"""The entry of a family that the table lacks, derived from what a network's layers do, not from their names.

One row of four tokens is asked again and again, only through the first block:

    W^O        the first linear layer whose input at the last token depends on the first token
    query      changed at one token, it changes W^O's input at that token only
    value      negated everywhere, it negates W^O's input
    key        the other one that changes W^O's input; queries, keys and values may come out of one layer
    causal     the first token's input of W^O does not depend on the last token
    down       the last layer behind W^O whose input is the same at every token while another layer returns
               zeros: no path leads around the neurons; a block with experts has none

What was derived is a guess about the other blocks until models/proof.py has held it against the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from levelhead.errors import UnknownFamily
from levelhead.models.anatomy import width_in, width_out
from levelhead.models.families import FAMILIES, REFUSED, Family, Layout, unknown_family
from levelhead.models.hooks import at_rest

_ROW = (3, 4, 5, 6)
_OTHER = 7  # a token that is not in the row
_TOKEN = 1  # has tokens before and after it, so that queries differ from keys under a causal mask too
_STRONG = -8.0  # a change that no norm of queries and keys takes back, and that bfloat16 shows

Change = Callable[[Tensor], Tensor]


class NotDerived(Exception):
    """Why no entry could be derived: the end of a sentence."""


class _Done(Exception):
    """The first block has run."""


@dataclass(frozen=True, eq=False)
class _Call:
    """A linear layer of the first block was given this: [token, width]."""

    path: str
    layer: nn.Module
    x: Tensor


def find_family(hf: Any) -> tuple[Family, bool]:
    """The family of a network, and whether it was derived because the table does not have it."""
    kind = str(hf.config.model_type)
    if kind in FAMILIES:
        return FAMILIES[kind], False
    if kind in REFUSED:
        raise UnknownFamily(f"model_type {kind!r} cannot be asked: {REFUSED[kind]}.")
    try:
        return derive(hf), True
    except NotDerived as error:
        raise unknown_family(kind, str(error)) from None


@torch.no_grad()
def derive(hf: Any) -> Family:
    """The entry that the layers of a network suggest; NotDerived with a reason where they suggest none."""
    config = hf.config.get_text_config()
    sizes = [getattr(config, name, None) for name in ("num_hidden_layers", "num_attention_heads")]
    if getattr(hf.config, "is_encoder_decoder", False):
        raise NotDerived("it has an encoder and a decoder")
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise NotDerived("its configuration does not say how many layers and heads it has")
    layers, heads = cast(list[int], sizes)
    with at_rest(hf):
        for path, blocks in hf.base_model.named_modules():
            if isinstance(blocks, nn.ModuleList) and len(blocks) == layers:
                family = _First(hf, blocks[0], heads).family(path)
                _check_alike(blocks, (family.output, *family.qkv))
                return family
    raise NotDerived(f"it has no list of {layers} blocks")


class _First:
    """The first block of a network, asked on its own."""

    def __init__(self, hf: Any, block: nn.Module, heads: int) -> None:
        self.hf, self.block, self.heads = hf, block, heads
        vocabulary = int(hf.config.get_text_config().vocab_size)
        self.ids = torch.tensor([_ROW], device=hf.device) % vocabulary
        self.other = _OTHER % vocabulary
        self.plain = self._calls(self.ids)

    def family(self, blocks: str) -> Family:
        """The entry, with the path of the block list."""
        output = self._output()
        self.output, self.dim = output.path, width_in(output.layer) // self.heads
        if width_in(output.layer) % self.heads:
            raise NotDerived(f"the input of {output.path} cannot be divided among {self.heads} heads")
        qkv, layout = self._qkv()
        entry = Family(blocks, _parent(qkv), self.output, qkv, rowwise=(), layout=layout)
        last = self._with_token(-1)
        return replace(
            entry,
            causal=torch.equal(self._mixed(self.ids)[0], self._mixed(last)[0]),
            padding_leaks=self._padding_leaks(),
            joint_norm=self._joint_norm(qkv[0]),
            down=self._down(),
        )

    # ---- which layer does what

    def _output(self) -> _Call:
        for call, other in zip(self.plain, self._calls(self._with_token(0)), strict=False):
            if (
                len(call.x) == len(_ROW)
                and call.path == other.path
                and not torch.equal(call.x[-1], other.x[-1])
            ):
                return call
        raise NotDerived("no linear layer of its first block reads what attention has mixed")

    def _qkv(self) -> tuple[tuple[str, ...], Layout]:
        before = [call for call in self.plain if len(call.x) == len(_ROW)]
        before = before[: [call.path for call in before].index(self.output)]
        reach = {call.path: self._reach(call.path, _strongly) for call in before}
        local = [path for path, tokens in reach.items() if tokens == {_TOKEN}]
        wide = [path for path, tokens in reach.items() if len(tokens) > 1]
        if len(wide) == 1 and not local:
            return (wide[0],), self._layout(wide[0])
        if len(local) != 1 or len(wide) != 2:
            raise NotDerived(
                f"{len(local)} of its layers act like queries and {len(wide)} like keys or values"
            )
        plain = self._mixed(self.ids)
        values = [path for path in wide if torch.equal(self._mixed(self.ids, path, torch.neg), -plain)]
        if len(values) != 1:
            raise NotDerived(f"{len(values)} of its layers act like values")
        (keys,) = set(wide) - set(values)
        return (local[0], keys, values[0]), "separate"

    def _layout(self, path: str) -> Layout:
        """Where queries end in a fused projection: the slot after the first group's is a query or a key."""
        slots = width_out(self.block.get_submodule(path)) // self.dim
        kv_heads = (slots - self.heads) // 2
        if (
            kv_heads < 1
            or self.heads % kv_heads
            or slots * self.dim != width_out(self.block.get_submodule(path))
        ):
            raise NotDerived(f"{path} makes {slots} vectors a token, which does not fit {self.heads} heads")
        slot = self.heads // kv_heads
        tokens = self._reach(path, lambda out: _strongly(out, slice(slot * self.dim, (slot + 1) * self.dim)))
        return "stacked" if tokens == {_TOKEN} else "interleaved"

    # ---- what else an entry says

    def _padding_leaks(self) -> bool:
        pad = self.hf.config.get_text_config().pad_token_id or 0
        padded = torch.cat([self.ids, torch.full_like(self.ids[:, :2], pad)], dim=1)
        mask = torch.ones_like(padded)
        mask[:, len(_ROW) :] = 0
        x, alone = self._mixed(padded, mask=mask)[: len(_ROW)], self._mixed(self.ids)
        return not torch.allclose(x, alone, rtol=0, atol=1e-2 * float(alone.abs().max()))

    def _joint_norm(self, path: str) -> bool:
        """Whether a change of one head's query changes other heads."""
        x = self._mixed(self.ids, path, lambda out: _strongly(out, slice(0, self.dim)))
        return not torch.equal(x[:, self.dim :], self._mixed(self.ids)[:, self.dim :])

    def _down(self) -> str:
        """The MLP's down projection; "" where there is none, or experts share the work."""
        inside = [module for module in self.block.modules() if isinstance(module, nn.ModuleList)]
        if inside or any(weight.dim() > 2 for weight in self.block.parameters()):
            return ""
        paths = [call.path for call in self.plain]
        found = [
            call.path
            for up in dict.fromkeys(paths)
            for call in self._calls(self.ids, up, torch.zeros_like)
            if len(call.x) == len(_ROW) and bool((call.x == call.x[:1]).all())
        ]
        behind = [path for path in paths[paths.index(self.output) + 1 :] if path in found]
        return behind[-1] if behind else ""

    # ---- asking

    def _reach(self, path: str, change: Change) -> set[int]:
        """The tokens at which W^O's input changes with a layer's output."""
        x = self._mixed(self.ids, path, change)
        return set((x != self._mixed(self.ids)).any(dim=-1).nonzero()[:, 0].tolist())

    def _mixed(
        self, ids: Tensor, path: str | None = None, change: Change | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """W^O's input: [token, width]."""
        return next(call.x for call in self._calls(ids, path, change, mask) if call.path == self.output)

    def _with_token(self, place: int) -> Tensor:
        ids = self.ids.clone()
        ids[0, place] = self.other
        return ids

    def _calls(
        self, ids: Tensor, path: str | None = None, change: Change | None = None, mask: Tensor | None = None
    ) -> list[_Call]:
        """What the first block's linear layers are given, in order, while one of them answers otherwise."""
        calls: list[_Call] = []

        def note(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
            return lambda module, args: calls.append(_Call(name, module, args[0].flatten(0, -2).clone()))

        def stop(*_: Any) -> None:
            raise _Done

        with ExitStack() as stack:
            for name, module in self.block.named_modules():
                if _is_linear(module):
                    stack.callback(module.register_forward_pre_hook(note(name)).remove)
            if path is not None and change is not None:
                handle = self.block.get_submodule(path).register_forward_hook(lambda m, a, out: change(out))
                stack.callback(handle.remove)
            stack.callback(self.block.register_forward_hook(stop).remove)
            try:
                self.hf.base_model(input_ids=ids, attention_mask=mask)
            except _Done:
                return calls
            except Exception as error:  # what a network raises that wants other inputs is of every kind
                raise NotDerived(f"it cannot be asked with tokens alone ({type(error).__name__})") from error
        raise NotDerived("its first block never runs")


def _check_alike(blocks: nn.ModuleList, paths: Sequence[str]) -> None:
    try:
        shapes = [
            [cast(Tensor, block.get_submodule(path).weight).shape for path in paths] for block in blocks
        ]
    except AttributeError:
        raise NotDerived("its blocks are not all of one kind") from None
    if any(shape != shapes[0] for shape in shapes):
        raise NotDerived("its blocks have heads of different sizes")


def _strongly(out: Tensor, slots: slice = slice(None)) -> Tensor:
    """A layer's output, otherwise at one token: [..., token, width]; what is not one row a token stays."""
    if out.numel() != len(_ROW) * out.shape[-1]:
        return out
    changed = out.clone()
    changed.view(-1, out.shape[-1])[_TOKEN, slots] *= _STRONG
    return changed


def _is_linear(module: nn.Module) -> bool:
    """Whether a module is a Linear, or GPT-2's Conv1D, which is one with its weight transposed."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _parent(paths: Sequence[str]) -> str:
    """The module that holds all of these."""
    parts = [path.split(".")[:-1] for path in paths]
    same = [names[0] for names in zip(*parts, strict=False) if len(set(names)) == 1]
    return ".".join(same)
