"""Trust, but verify: the entry of a family that the table lacks is derived from what a network's layers do,
and every entry is tested on the whole model before it is used.

To derive one, a row of four tokens is run again and again, only through the first block:

    W^O        the first linear layer whose input at the last token depends on the first token
    query      changed at one token, it changes W^O's input at that token only
    value      negated everywhere, it negates W^O's input
    key        the other one that changes W^O's input; queries, keys and values may come out of one layer
    causal     the first token's input of W^O does not depend on the last token
    down       the last layer behind W^O whose input is the same at every token while another layer returns
               zeros: no path leads around the neurons; a block with experts has none

Every model must show that closing its heads changes its output (check_gates). What was derived is a guess
about the other blocks, and the engine calls blocks one by one with arguments that it has written down
(docs/architecture.md), so a derived model must show besides (prove) that

    each block is given what the block before it returned, and nothing happens in between
    no other argument of a block depends on the hidden states
    a change of one head's query, key or value reaches the slots of that head in W^O's input and no others
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from levelhead.edits.gates import all_heads, removed
from levelhead.edits.sites import Edit, Site
from levelhead.errors import NoEffect, UnknownFamily
from levelhead.models.adapter import AffineEdit
from levelhead.models.anatomy import Anatomy, width_in, width_out
from levelhead.models.families import FAMILIES, REFUSED, Family, Layout, unknown_family
from levelhead.models.hooks import at_rest, attached

_ROW = (3, 4, 5, 6)
_OTHER = 7  # a token that is not in the row
_TOKEN = 1  # has tokens before and after it, so that queries differ from keys under a causal mask too
_STRONG = -8.0  # a factor that no norm of queries and keys takes back, and that bfloat16 shows
_SEEN = 1e-3  # of the change of a token's own states: less than this is rounding

Ask = Callable[[Tensor], Tensor]  # ids -> the last hidden states
Change = Callable[[Tensor], Tensor]


class NotDerived(Exception):
    """Why no entry could be derived: the end of a sentence."""


def find_family(hf: Any) -> tuple[Family, bool]:
    """The family of a network, and whether it was derived because the table does not have it."""
    kind = str(hf.config.model_type)
    if kind in FAMILIES:
        return FAMILIES[kind], False
    if kind in REFUSED:
        raise UnknownFamily(f"model_type {kind!r} is not supported: {REFUSED[kind]}.")
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
            if not isinstance(blocks, nn.ModuleList) or len(blocks) != layers:
                continue
            family = _First(hf, blocks[0], heads).family(path)
            try:
                shapes = [
                    [
                        cast(Tensor, block.get_submodule(each).weight).shape
                        for each in (family.output, *family.qkv)
                    ]
                    for block in blocks
                ]
            except AttributeError:
                raise NotDerived("its blocks are not all of one kind") from None
            if any(shape != shapes[0] for shape in shapes):
                raise NotDerived("its blocks have heads of different sizes")
            return family
    raise NotDerived(f"it has no list of {layers} blocks")


# ---- the first block of a network, run on its own


class _Done(Exception):
    """The first block has run."""


@dataclass(frozen=True, eq=False)
class _Call:
    """A linear layer of the first block was given this: [token, width]."""

    path: str
    layer: nn.Module
    x: Tensor


class _First:
    def __init__(self, hf: Any, block: nn.Module, heads: int) -> None:
        self.hf, self.block, self.heads = hf, block, heads
        vocabulary = int(hf.config.get_text_config().vocab_size)
        self.ids = torch.tensor([_ROW], device=hf.device) % vocabulary
        self.other = _OTHER % vocabulary
        self.plain = self._calls(self.ids)

    def family(self, blocks: str) -> Family:
        """The entry, with the path of the block list."""
        for call, other in zip(self.plain, self._calls(self._with_token(0)), strict=False):
            of_tokens = len(call.x) == len(_ROW) and call.path == other.path
            if of_tokens and not torch.equal(call.x[-1], other.x[-1]):
                self.output, width = call.path, width_in(call.layer)
                break
        else:
            raise NotDerived("no linear layer of its first block reads what attention has mixed")
        if width % self.heads:
            raise NotDerived(f"the input of {self.output} cannot be divided among {self.heads} heads")
        self.dim = width // self.heads
        qkv, layout = self._qkv()
        last = self._with_token(-1)
        # the module that holds all of queries, keys and values
        parts = zip(*(path.split(".")[:-1] for path in qkv), strict=False)
        attention = ".".join(names[0] for names in parts if len(set(names)) == 1)
        # whether a change of one head's query changes other heads
        x = self._mixed(self.ids, qkv[0], lambda out: _strongly(out, slice(0, self.dim)))
        joint_norm = not torch.equal(x[:, self.dim :], self._mixed(self.ids)[:, self.dim :])
        # whether padding changes what is mixed
        pad = self.hf.config.get_text_config().pad_token_id or 0
        padded = torch.cat([self.ids, torch.full_like(self.ids[:, :2], pad)], dim=1)
        mask = torch.ones_like(padded)
        mask[:, len(_ROW) :] = 0
        x, alone = self._mixed(padded, mask=mask)[: len(_ROW)], self._mixed(self.ids)
        leaks = not torch.allclose(x, alone, rtol=0, atol=1e-2 * float(alone.abs().max()))
        # the MLP's down projection; "" where there is none, or experts share the work
        down, paths = "", [call.path for call in self.plain]
        inside = [module for module in self.block.modules() if isinstance(module, nn.ModuleList)]
        if not inside and all(weight.dim() <= 2 for weight in self.block.parameters()):
            found = {
                call.path
                for up in dict.fromkeys(paths)
                for call in self._calls(self.ids, up, torch.zeros_like)
                if len(call.x) == len(_ROW) and bool((call.x == call.x[:1]).all())
            }
            behind = paths[paths.index(self.output) + 1 :]
            down = next((path for path in reversed(behind) if path in found), "")
        return Family(
            blocks,
            attention,
            self.output,
            qkv,
            rowwise=(),
            layout=layout,
            causal=torch.equal(self._mixed(self.ids)[0], self._mixed(last)[0]),
            padding_leaks=leaks,
            joint_norm=joint_norm,
            down=down,
        )

    def _qkv(self) -> tuple[tuple[str, ...], Layout]:
        before = [call for call in self.plain if len(call.x) == len(_ROW)]
        before = before[: [call.path for call in before].index(self.output)]
        reach = {call.path: self._reach(call.path, _strongly) for call in before}
        local = [path for path, tokens in reach.items() if tokens == {_TOKEN}]
        wide = [path for path, tokens in reach.items() if len(tokens) > 1]
        if len(wide) == 1 and not local:
            # one fused projection: the slot after the first group of queries is a query or a key
            width = width_out(self.block.get_submodule(wide[0]))
            slots = width // self.dim
            kv_heads = (slots - self.heads) // 2
            if kv_heads < 1 or self.heads % kv_heads or slots * self.dim != width:
                raise NotDerived(
                    f"{wide[0]} makes {slots} vectors a token, which does not fit {self.heads} heads"
                )
            slot = self.heads // kv_heads
            second = slice(slot * self.dim, (slot + 1) * self.dim)
            tokens = self._reach(wide[0], lambda out: _strongly(out, second))
            return (wide[0],), "stacked" if tokens == {_TOKEN} else "interleaved"
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

        def note(name: str, module: nn.Module, args: tuple[Tensor, ...]) -> None:
            calls.append(_Call(name, module, args[0].flatten(0, -2).clone()))

        def stop(*_: Any) -> None:
            raise _Done

        with ExitStack() as stack:
            for name, module in self.block.named_modules():
                # GPT-2's Conv1D is a Linear with its weight transposed
                if isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D":
                    stack.callback(module.register_forward_pre_hook(partial(note, name)).remove)
            if path is not None and change is not None:
                handle = self.block.get_submodule(path).register_forward_hook(lambda m, a, out: change(out))
                stack.callback(handle.remove)
            stack.callback(self.block.register_forward_hook(stop).remove)
            try:
                self.hf.base_model(input_ids=ids, attention_mask=mask)
            except _Done:
                return calls
            except Exception as error:  # what a network raises that wants other inputs is of every kind
                raise NotDerived(f"it cannot run on tokens alone ({type(error).__name__})") from error
        raise NotDerived("its first block never runs")


def _strongly(out: Tensor, slots: slice = slice(None)) -> Tensor:
    """A layer's output, otherwise at one token: [..., token, width]; what is not one row per token stays."""
    if out.numel() != len(_ROW) * out.shape[-1]:
        return out
    changed = out.clone()
    changed.view(-1, out.shape[-1])[_TOKEN, slots] *= _STRONG
    return changed


# ---- the whole model


@torch.no_grad()
def check_gates(model: Anatomy, ask: Ask) -> None:
    """Refuse a control that does nothing: every W^O must run, and closed heads must change the output."""
    ids = torch.arange(3, 6, device=model.device)[None] % model.config.vocab_size
    calls: list[nn.Module] = []
    with at_rest(model.hf), ExitStack() as stack:
        for projection in {model.output_projection(layer) for layer in range(model.layers)}:
            handle = projection.register_forward_pre_hook(lambda module, _: calls.append(module))
            stack.callback(handle.remove)
        plain = ask(ids)
        with attached(model, removed(model, all_heads(model))):
            gated = ask(ids)
    if len(calls) != 2 * model.layers or torch.equal(plain, gated):
        raise NoEffect(
            f"{model.name}: head gates have no effect (W^O ran {len(calls)} times in 2 x {model.layers} "
            "layers). models/families.toml points to the wrong output projection for "
            f"{model.hf.config.model_type!r}."
        )


@torch.no_grad()
def prove(model: Anatomy, ask: Ask) -> None:
    """Refuse a derived entry that does not hold; NotDerived says which part of it."""
    ids = torch.arange(3, 7, device=model.device)[None] % model.config.vocab_size
    with at_rest(model.hf):
        traces = []
        for edits in ((), removed(model, all_heads(model))):
            calls: list[
                tuple[Any, list[Any], Any]
            ] = []  # of blocks: hidden states, what else was given, answers

            def note(
                _: nn.Module,
                args: tuple[Any, ...],
                kwargs: dict[str, object],
                out: Any,
                calls: list[tuple[Any, list[Any], Any]] = calls,
            ) -> None:
                given = [*args, *kwargs.values()]
                hidden = args[0] if args else kwargs.get("hidden_states")
                if not isinstance(hidden, Tensor):
                    raise NotDerived("its blocks are not given hidden states")
                returned = out[0] if isinstance(out, tuple) else out
                if not isinstance(returned, Tensor):
                    raise NotDerived("its blocks return neither a tensor nor a tuple of them")
                calls.append((hidden, [value for value in given if value is not hidden], returned))

            with attached(model, edits), ExitStack() as stack:
                for block in set(model.blocks):
                    stack.callback(block.register_forward_hook(note, with_kwargs=True).remove)
                ask(ids)
            following = ((after[0], before[2]) for before, after in pairwise(calls))
            if len(calls) != model.layers or calls[0][0].shape[:2] != ids.shape:
                raise NotDerived("its blocks do not run one after another")
            if not all(torch.equal(given, returned) for given, returned in following):
                raise NotDerived("something happens between its blocks")
            traces.append(_tensors([others for _, others, _ in calls]))
        if len(traces[0]) != len(traces[1]) or not all(map(torch.equal, *traces)):
            raise NotDerived("its blocks are given more than the block before returned")
        for layer in sorted({0, model.layers - 1}):
            _check_reach(model, ask, ids, Site(layer, "value"), model.kv_heads)
            if not model.family.joint_norm:
                _check_reach(model, ask, ids, Site(layer, "query"), model.heads)
                _check_reach(model, ask, ids, Site(layer, "key"), model.kv_heads)


def _tensors(value: Any) -> list[Tensor]:
    """The tensors in a value, alone or in tuples and lists."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors(each)] if isinstance(value, tuple | list) else []


def _check_reach(model: Anatomy, ask: Ask, ids: Tensor, site: Site, heads: int) -> None:
    """Change the last head's vectors at a site: the change must reach W^O in its slots alone."""
    scale = torch.ones(heads, 1)
    scale[-1] = _STRONG
    variants: tuple[tuple[Edit, ...], ...] = ((), (AffineEdit(site, scale),))
    inputs = []  # of W^O: [..., token, head, dim]
    for edits in variants:
        seen: list[Tensor] = []
        projection = model.output_projection(site.layer)
        handle = projection.register_forward_pre_hook(lambda _, args, seen=seen: seen.append(args[0]))
        try:
            with attached(model, edits):
                ask(ids)
        finally:
            handle.remove()
        inputs.append(seen[0].unflatten(-1, (model.heads, model.head_dim)))
    reached = (inputs[0] != inputs[1]).flatten(0, -3).any(dim=-1).any(dim=0)  # [head]
    mine = torch.arange(model.heads) >= model.heads - model.heads // heads
    if not torch.equal(reached.cpu(), mine):
        raise NotDerived(f"a {site.part} of one head reaches other heads")


@torch.no_grad()
def attends_back_only(model: Anatomy, ask: Ask) -> bool:
    """Whether no token sees a later one: another last token changes the states of the last, of no other."""
    ids = torch.arange(3, 7, device=model.device).repeat(2, 1)
    ids[1, -1] += 1
    with at_rest(model.hf):
        one, other = ask(ids % model.config.vocab_size).float()
    change = (one - other).norm(dim=-1)
    return bool((change[:-1] <= _SEEN * change[-1]).all())


@torch.no_grad()
def neurons_act(model: Anatomy, ask: Ask) -> bool:
    """Whether every down projection runs, and closed neurons of each layer change the output."""
    ids = torch.arange(3, 7, device=model.device)[None] % model.config.vocab_size
    with at_rest(model.hf):
        plain = ask(ids)
        for module in {model.down_projection(layer) for layer in range(model.layers)}:
            calls: list[nn.Module] = []

            def close(
                layer: nn.Module, args: tuple[Tensor, ...], calls: list[nn.Module] = calls
            ) -> tuple[Tensor, ...]:
                calls.append(layer)
                return (args[0] * 0, *args[1:])

            handle = module.register_forward_pre_hook(close)
            try:
                closed = ask(ids)
            finally:
                handle.remove()
            if not calls or torch.equal(plain, closed):
                return False
    return True
