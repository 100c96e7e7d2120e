"""A model whose answers are the mean over the exchange of groups, written by levelhead: it needs torch and
transformers, and nothing of levelhead.

    p(y | x) = ½ f(y | x) + ½ f(σy | σx)        σ exchanges groups; for k groups, the mean over k turns

Classifiers and next sentences: the mean of probabilities. Vectors: the mean. Blanks: the mean, word by word.
Next words: a mixture with weights in proportion to what the model gives each text so far, so that a text gets
the mean of both probabilities. Every text is asked once per group, without a cache; with "coin" in
config.json it is asked once, at a turn that a hash of the text and that seed decides.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedConfig as Config
from transformers import PreTrainedModel as Base
from transformers import PreTrainedTokenizerFast

from levelhead.mitigation.remote.turning import Row, TurnedRow, Turner
from levelhead.probes.group_swap import GenderSwap, RowSwap

_INSIDE = ("output_hidden_states", "output_attentions", "inputs_embeds", "past_key_values")
_DROPPED = ("position_ids", "cache_position", "use_cache", "return_dict", "token_type_ids", "logits_to_keep")


class Symmetry:
    """What is asked of a network at every turn, and its answers as one."""

    def __init__(self, config: Any, device: torch.device) -> None:
        self._settings, self._source = config.levelhead, config._name_or_path
        rows = self._settings["rows"]
        self._swap = RowSwap(self._settings["words"], _tuples(rows)) if rows else GenderSwap()
        self.groups = self._swap.groups
        self.vocabulary = self._settings["vocabulary"]
        self.causal = self._settings["causal"]
        cells = [[(t, i) for t in group] for i, group in enumerate(chain(*self._settings["classes"]))]
        flat = [pair for cell in cells for pair in cell]
        self.columns = torch.tensor([token for token, _ in flat], dtype=torch.long, device=device)
        self.cell = torch.tensor([cell for _, cell in flat], dtype=torch.long, device=device)
        every = torch.arange(len(cells), device=device)
        base, group = every // self.groups * self.groups, every % self.groups
        self.shift = torch.stack([base + (group + turn) % self.groups for turn in range(self.groups)])

    @cached_property
    def turner(self) -> Turner:
        """The tokenizer that lies beside the weights, and the exchange."""
        tokenizer: Any = PreTrainedTokenizerFast  # no Auto class: it would ask again whether code may run
        return Turner(tokenizer.from_pretrained(self._source), self._swap, self.causal)

    def turned(self, rows: Sequence[Row]) -> list[list[tuple[int, TurnedRow]]]:
        """Every row at each turn, or at the turn that the coin decides: [pass][row]"""
        seed = self._settings["coin"]
        if seed is None:
            return [[(turn, self.turner(row, turn)) for row in rows] for turn in range(self.groups)]
        return [[self._tossed(row, seed) for row in rows]]

    def _tossed(self, row: Row, seed: int) -> tuple[int, TurnedRow]:
        digest = hashlib.sha256(f"{seed}\n{list(row.ids)}".encode()).digest()
        turn = int.from_bytes(digest[:8], "big") % self.groups
        turned = self.turner(row, turn)
        if not turned.reversible:
            return 0, self.turner(row, 0)
        return turn, replace(turned, places=list(accumulate(turned.places, max)))

    def mixed(self, logs: Sequence[Tensor], weights: Tensor) -> Tensor:
        """Log-probabilities [answer, token] of all turns as one; weights [turn, answer], as logarithms."""
        total = torch.stack([log + own[:, None] for log, own in zip(logs, weights, strict=True)]).logsumexp(0)
        if len(self.columns):
            masses = [self._mass(log) for log in logs]
            turned = zip(masses, weights, self.shift, strict=True)
            mass = torch.stack([m[:, to] * own.double().exp()[:, None] for m, own, to in turned]).sum(0)
            share = logs[0][:, self.columns].double() - masses[0].log()[:, self.cell]
            total[:, self.columns] = (mass.log()[:, self.cell] + share).to(total)
        return total

    def returned(self, log: Tensor, turns: Tensor) -> Tensor:
        """Log-probabilities at a turn as those about the text: a word gets what its counterparts got."""
        if not len(self.columns):
            return log
        number = torch.bincount(self.cell).double().log()
        mass = self._mass(log).log().gather(1, self.shift[turns]) - number
        moved = log.clone()
        moved[:, self.columns] = mass[:, self.cell].to(log)
        return torch.where((turns == 0)[:, None], log, moved)

    def _mass(self, log: Tensor) -> Tensor:
        own = log[:, self.columns].double().exp()
        return own.new_zeros(len(log), self.shift.shape[1]).index_add_(1, self.cell, own)


def _tuples(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(row) for row in rows)


class Passes:
    """One batch: what the network answers at each pass, put together at the tokens that came in."""

    def __init__(self, model: Any, ids: Tensor, mask: Tensor | None, types: Tensor | None) -> None:
        known = model.__dict__.get("levelhead_symmetry")
        if known is None or known.columns.device != ids.device:
            known = model.__dict__["levelhead_symmetry"] = Symmetry(model.config, ids.device)
        self.symmetry: Symmetry = known
        self.ids, self.typed = ids, types is not None
        self.real = torch.ones_like(ids).bool() if mask is None else mask.bool()
        own = torch.zeros_like(ids) if types is None else types
        rows = [Row(i[r].tolist(), t[r].tolist()) for i, t, r in zip(ids, own, self.real, strict=True)]
        self.passes = self.symmetry.turned(rows)
        pad = model.config.pad_token_id
        self.pad = 0 if pad is None else pad

    def asked(self, number: int) -> dict[str, Tensor]:
        """The arguments of a pass, padded on the right."""
        rows = [row for _, row in self.passes[number]]
        real = self._padded([[1] * len(row.ids) for row in rows], 0)
        asked = {"input_ids": self._padded([row.ids for row in rows], self.pad), "attention_mask": real}
        return {**asked, "token_type_ids": self._padded([r.types for r in rows], 0)} if self.typed else asked

    def _padded(self, rows: Sequence[Sequence[int]], value: int) -> Tensor:
        width = max(map(len, rows))
        padded = [[*row, *[value] * (width - len(row))] for row in rows]
        return torch.tensor(padded, dtype=torch.long, device=self.ids.device)

    def places(self, number: int) -> Tensor:
        """Where the answer about each token that came in stands in a pass; -1: nowhere. [row, token]"""
        places = torch.full_like(self.ids, -1)
        for row, (_, turned) in enumerate(self.passes[number]):
            places[row, self.real[row]] = torch.tensor(list(turned.places), device=self.ids.device)
        return places

    def one(self, name: str, values: Sequence[Tensor]) -> Tensor:
        """The answers of all passes under one name as one."""
        if values[0].dim() == 3:
            return self._by_token(name, values)
        if "logits" not in name:
            return torch.stack(list(values)).mean(0)
        return torch.stack([value.log_softmax(-1) for value in values]).logsumexp(0) - math.log(len(values))

    def _by_token(self, name: str, values: Sequence[Tensor]) -> Tensor:
        places = [self.places(number) for number in range(len(values))]
        given = [_taken(value, place) for value, place in zip(values, places, strict=True)]
        there = torch.stack([place >= 0 for place in places]).double()
        there[0] = 1.0  # the text itself is always there
        if "logits" not in name:
            shares = (there / there.sum(0)).to(given[0])
            return torch.stack([g * s[..., None] for g, s in zip(given, shares, strict=True)]).sum(0)
        logs = [value.float().log_softmax(-1).flatten(0, 1) for value in given]
        worth = there.log().flatten(1)
        if self.symmetry.causal and len(values) > 1:
            worth = worth + torch.stack([self._so_far(i, values[i], p) for i, p in enumerate(places)])
        words = values[0].shape[-1] == self.symmetry.vocabulary
        if len(values) == 1:
            turns = torch.tensor([turn for turn, _ in self.passes[0]], device=self.ids.device)
            mixed = self.symmetry.returned(logs[0], turns.repeat_interleave(self.ids.shape[1]))
        elif words:
            mixed = self.symmetry.mixed(logs, worth.log_softmax(0).to(logs[0]))
        else:
            mixed = (torch.stack(logs) + worth.log_softmax(0).to(logs[0])[..., None]).logsumexp(0)
        return mixed.view(given[0].shape).to(given[0].dtype)

    def _so_far(self, number: int, logits: Tensor, places: Tensor) -> Tensor:
        """The logarithm of what the network gives a text up to each token of it. [row x token]"""
        asked = self.asked(number)
        ids, real = asked["input_ids"][:, 1:], asked["attention_mask"][:, 1:]
        log = logits[:, :-1].float().log_softmax(-1).gather(-1, ids[..., None])[..., 0].double() * real
        total = functional.pad(log, (1, 0)).cumsum(1)
        return total.gather(1, places.clamp(min=0)).flatten()


def _taken(value: Tensor, places: Tensor) -> Tensor:
    return value.gather(1, places.clamp(min=0)[..., None].expand(-1, -1, value.shape[-1]))


def answered(model: Any, forward: Callable[..., Any], ids: Tensor | None, given: dict[str, Any]) -> Any:
    """What the symmetrized model answers, as an output of the network's own kind."""
    inside = [name for name in _INSIDE if _is_asked(given.pop(name, None))]
    if ids is None or inside:
        raise ValueError(
            f"A symmetrized model takes input_ids, and no {', '.join(inside) or 'other'}; generate with "
            "use_cache=False."
        )
    labels, mask, types = (given.pop(name, None) for name in ("labels", "attention_mask", "token_type_ids"))
    keep = given.pop("logits_to_keep", 0)
    given = {name: value for name, value in given.items() if name not in _DROPPED}
    passes = Passes(model, ids, mask, types)
    cache = {"use_cache": False} if passes.symmetry.causal else {}
    outs = [
        forward(**passes.asked(number), **cache, **given, return_dict=True)
        for number in range(len(passes.passes))
    ]
    tensors = {
        name: passes.one(name, [out[name] for out in outs])
        for name, value in outs[0].items()
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    if labels is not None:
        tensors["loss"] = loss(tensors["logits"], labels, passes.symmetry.causal)
    if keep:
        tensors["logits"] = tensors["logits"][:, -keep:]
    return type(outs[0])(**tensors)


def _is_asked(value: Any) -> bool:
    return value is not None and value is not False


def loss(logits: Tensor, labels: Tensor, causal: bool) -> Tensor:
    """Cross-entropy of the mixture; causal: of each next token."""
    if logits.dim() == 3 and causal:
        logits, labels = logits[:, :-1], labels[:, 1:]
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten().to(logits.device))


class EditedConfig(Config):  # type: ignore[no-untyped-call]
    """A type of its own, so that nobody loads the weights without the exchange by mistake."""

    model_type = "levelhead"


class EditedModel(Base):  # type: ignore[no-untyped-call]
    """The network as it was, asked at every turn of the groups."""

    config_class = EditedConfig

    def forward(self, input_ids: Any = None, attention_mask: Any = None, **given: Any) -> Any:
        return answered(self, super().forward, input_ids, {**given, "attention_mask": attention_mask})
