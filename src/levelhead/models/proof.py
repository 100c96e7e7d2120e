"""What every model must stand before it is used (check_gates), and a derived entry of a family beside that;
the whole model is asked, not one block.

The engine calls blocks one by one with arguments that it has written down (docs/architecture.md), and edits
reach single heads. So a model must show that

    each block is given what the block before it returned, and nothing happens in between
    no other argument of a block depends on the hidden states
    a change of one head's query, key or value reaches the slots of that head in W^O's input and no others
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from levelhead.edits.gates import HeadGates
from levelhead.edits.sites import Edit, Site
from levelhead.errors import NoEffect
from levelhead.models.adapter import AffineEdit
from levelhead.models.anatomy import Anatomy
from levelhead.models.derivation import NotDerived
from levelhead.models.hooks import at_rest, attached

Ask = Callable[[Tensor], Tensor]  # ids -> the last hidden states
_STRONG = -8.0  # a factor that no norm of queries and keys takes back
_SEEN = 1e-3  # of the change of a token's own states: less than this is rounding


class _Trace:
    """What the blocks were called with and returned."""

    def __init__(self, model: Anatomy) -> None:
        self.model = model
        self.hidden: list[Tensor] = []
        self.others: list[Tensor] = []
        self.returned: list[Tensor] = []

    def note(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, object], out: Any) -> None:
        """A forward hook of every block."""
        given = [*args, *kwargs.values()]
        hidden = args[0] if args else kwargs.get("hidden_states")
        if not isinstance(hidden, Tensor):
            raise NotDerived("its blocks are not given hidden states")
        self.hidden.append(hidden)
        self.others += [tensor for value in given if value is not hidden for tensor in _tensors(value)]
        returned = out[0] if isinstance(out, tuple) else out
        if not isinstance(returned, Tensor):
            raise NotDerived("its blocks return neither a tensor nor a tuple of them")
        self.returned.append(returned)


@torch.no_grad()
def check_gates(model: Anatomy, ask: Ask) -> None:
    """Refuse a control that does nothing: every W^O must run, and closed heads must change the output."""
    ids = torch.arange(3, 6, device=model.device)[None] % model.config.vocab_size
    with at_rest(model.hf), _counted(model) as calls:
        plain = ask(ids)
        closed = [HeadGates(layer, (0.0,) * model.heads) for layer in range(model.layers)]
        with attached(model, closed):
            gated = ask(ids)
    if len(calls) != 2 * model.layers or torch.equal(plain, gated):
        raise NoEffect(
            f"{model.name}: head gates have no effect (W^O ran {len(calls)} times in 2 x {model.layers} "
            "layers). models/families.py points to the wrong output projection for "
            f"{model.hf.config.model_type!r}."
        )


@contextmanager
def _counted(model: Anatomy) -> Iterator[list[nn.Module]]:
    """The calls of all W^O, in order."""
    calls: list[nn.Module] = []
    projections = {model.output_projection(layer) for layer in range(model.layers)}
    handles = [m.register_forward_pre_hook(lambda module, _: calls.append(module)) for m in projections]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def prove(model: Anatomy, ask: Ask) -> None:
    """Refuse a derived entry that does not hold; NotDerived says which part of it."""
    ids = torch.arange(3, 7, device=model.hf.device)[None] % model.config.vocab_size
    with at_rest(model.hf):
        _check_walk(model, ask, ids)
        for layer in sorted({0, model.layers - 1}):
            _check_reach(model, ask, ids, Site(layer, "value"), model.kv_heads)
            if not model.family.joint_norm:
                _check_reach(model, ask, ids, Site(layer, "query"), model.heads)
                _check_reach(model, ask, ids, Site(layer, "key"), model.kv_heads)


@torch.no_grad()
def looks_back_only(model: Anatomy, ask: Ask) -> bool:
    """Whether no token sees a later one: another last token changes the states of the last, of no other."""
    ids = torch.arange(3, 7, device=model.hf.device).repeat(2, 1)
    ids[1, -1] += 1
    with at_rest(model.hf):
        one, other = ask(ids % model.config.vocab_size).float()
    change = (one - other).norm(dim=-1)
    return bool((change[:-1] <= _SEEN * change[-1]).all())


@torch.no_grad()
def neurons_act(model: Anatomy, ask: Ask) -> bool:
    """Whether every down projection runs, and closed neurons of each layer change the output."""
    ids = torch.arange(3, 7, device=model.hf.device)[None] % model.config.vocab_size
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


def _check_walk(model: Anatomy, ask: Ask, ids: Tensor) -> None:
    closed = [HeadGates(layer, (0.0,) * model.heads) for layer in range(model.layers)]
    traces = []
    for edits in ([], closed):
        with attached(model, edits), _traced(model) as trace:
            ask(ids)
        following = zip(trace.hidden[1:], trace.returned, strict=False)
        if len(trace.hidden) != model.layers or trace.hidden[0].shape[:2] != ids.shape:
            raise NotDerived("its blocks do not run one after another")
        if not all(torch.equal(given, returned) for given, returned in following):
            raise NotDerived("something happens between its blocks")
        traces.append(trace.others)
    if len(traces[0]) != len(traces[1]) or not all(map(torch.equal, *traces)):
        raise NotDerived("its blocks are given more than the block before returned")


def _check_reach(model: Anatomy, ask: Ask, ids: Tensor, site: Site, heads: int) -> None:
    """Change the last head's vectors at a site: the change must reach W^O in its slots alone."""
    scale = torch.ones(heads, 1)
    scale[-1] = _STRONG
    inputs = [_output_input(model, ask, ids, site.layer, edits) for edits in ((), (AffineEdit(site, scale),))]
    reached = (inputs[0] != inputs[1]).flatten(0, -3).any(dim=-1).any(dim=0)  # [head]
    mine = torch.arange(model.heads) >= model.heads - model.heads // heads
    if not torch.equal(reached.cpu(), mine):
        raise NotDerived(f"a {site.part} of one head reaches other heads")


def _output_input(model: Anatomy, ask: Ask, ids: Tensor, layer: int, edits: tuple[Edit, ...]) -> Tensor:
    """W^O's input in a layer: [..., token, head, dim]."""
    seen: list[Tensor] = []
    handle = model.output_projection(layer).register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    try:
        with attached(model, edits):
            ask(ids)
    finally:
        handle.remove()
    heads: Tensor = seen[0].unflatten(-1, (model.heads, model.head_dim))
    return heads


@contextmanager
def _traced(model: Anatomy) -> Iterator[_Trace]:
    trace = _Trace(model)
    with ExitStack() as stack:
        for block in set(model.blocks):
            stack.callback(block.register_forward_hook(trace.note, with_kwargs=True).remove)
        yield trace


def _tensors(value: Any) -> list[Tensor]:
    """The tensors in an argument, alone or in a tuple."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors(each)] if isinstance(value, tuple | list) else []
