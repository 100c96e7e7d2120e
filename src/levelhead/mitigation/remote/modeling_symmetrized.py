"""A model whose answers are the mean over the exchange of groups, written by levelhead: it needs torch and
transformers, and nothing of levelhead.

    p(y | x) = ½ f(y | x) + ½ f(σy | σx)        σ exchanges groups; for k groups, the mean over k orientations

Classifiers and next sentences: the mean of probabilities. Vectors: the mean. Blanks: the mean, word by word.
Next words: a mixture with weights in proportion to what the model gives each text so far, so that a text gets
the mean of both probabilities. Every text is asked once per group, in one batch, and once where no word of it
is exchanged; with "coin" in config.json it is asked once, at an orientation that a hash of the text and that
seed decides.
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

from levelhead.mitigation.remote.caching import OrientedCache
from levelhead.mitigation.remote.orienting import Orienter, Row, SwappedRow
from levelhead.probes.group_swap import GenderSwap, RowSwap
from levelhead.probes.name_beliefs import KNOWN, WORDS, belief_texts, believed, strange_names
from levelhead.probes.swap.gendered import Gender

_INSIDE = ("output_hidden_states", "output_attentions", "inputs_embeds")
_DROPPED = ("position_ids", "cache_position")
_AT_ONCE = 32  # texts about names
_FLOATS = 1 << 24  # logits that are held at once beside the answers; on a card eight times as many


class Symmetry:
    """What is asked of a network at every orientation, and its answers as one."""

    def __init__(self, config: Any, device: torch.device) -> None:
        self._settings, self._source = config.levelhead, config._name_or_path
        rows = self._settings["rows"]
        self._swap = RowSwap(self._settings["words"], tuple(map(tuple, rows))) if rows else GenderSwap()
        self._beliefs: dict[str, Gender | None] = {}  # of names that no table has
        self._known: list[float] | None = None  # what names of the table score, once one was met
        self.groups = self._swap.groups
        self.vocabulary = self._settings["vocabulary"]
        self.causal = self._settings["causal"]
        cells = [[(t, i) for t in group] for i, group in enumerate(chain(*self._settings["classes"]))]
        flat = [pair for cell in cells for pair in cell]
        self.columns = torch.tensor([token for token, _ in flat], dtype=torch.long, device=device)
        self.cell = torch.tensor([cell for _, cell in flat], dtype=torch.long, device=device)
        every = torch.arange(len(cells), device=device)
        base, group = every // self.groups * self.groups, every % self.groups
        self.shift = torch.stack(
            [base + (group + orientation) % self.groups for orientation in range(self.groups)]
        )

    @cached_property
    def orienter(self) -> Orienter:
        """The tokenizer that lies beside the weights, and the exchange."""
        tokenizer: Any = PreTrainedTokenizerFast  # no Auto class: it would ask again whether code may run
        return Orienter(tokenizer.from_pretrained(self._source), self._swap, self.causal)

    def believe(self, forward: Callable[..., Any], ids: Tensor, real: Tensor) -> None:
        """Take names of these texts that no table has for what the network itself takes them to be."""
        if not isinstance(self._swap, GenderSwap):
            return
        texts = self.orienter.texts([row[own].tolist() for row, own in zip(ids, real, strict=True)])
        new = [name for name in strange_names(texts) if name not in self._beliefs]
        if not new:
            return
        if self._known is None:
            self._known = self._she_or_he(forward, KNOWN)
        genders = dict(believed(new, self._known, self._she_or_he(forward, new))) if self._known else {}
        self._beliefs |= {name: genders.get(name) for name in new}
        sure = tuple((name, gender) for name, gender in self._beliefs.items() if gender is not None)
        self.orienter.swap = replace(self._swap, believed=sure)

    @torch.no_grad()
    def _she_or_he(self, forward: Callable[..., Any], names: Sequence[str]) -> list[float]:
        """log p(she) − log p(he) in every text about these names; none if the network predicts no words."""
        tokenizer, found = self.orienter.tokenizer, []
        she, he = (tokenizer(f"a {word}", add_special_tokens=False)["input_ids"][-1] for word in WORDS)
        texts = belief_texts(names, "" if self.causal else tokenizer.mask_token or "")
        opening, own = self._settings["opening"], self._settings["own_opening"]
        rows = [row if opening is None else opening + row[own:] for row in tokenizer(texts)["input_ids"]]
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            lengths = torch.tensor([len(row) for row in some], device=self.columns.device)
            width = int(lengths.max())
            ids = lengths.new_tensor([[*row, *[0] * (width - len(row))] for row in some])
            mask = (torch.arange(width, device=ids.device) < lengths[:, None]).long()
            out = forward(input_ids=ids, attention_mask=mask, return_dict=True)
            logits = out.get("prediction_logits", out.get("logits"))
            if logits is None or logits.dim() < 3 or logits.shape[-1] != self.vocabulary:
                return []
            blank = ids == tokenizer.mask_token_id
            at = lengths - 1 if self.causal else blank.int().argmax(1)
            read = logits[torch.arange(len(some), device=ids.device), at]
            found += (read[:, she] - read[:, he]).float().tolist()
        return found

    def oriented(self, rows: Sequence[Row]) -> list[list[tuple[int, SwappedRow]]]:
        """Every row at each orientation, or at the orientation that the coin decides: [pass][row]"""
        seed = self._settings["coin"]
        if seed is None:
            return [
                [(orientation, self.orienter(row, orientation)) for row in rows]
                for orientation in range(self.groups)
            ]
        tossed = []
        for row in rows:
            digest = hashlib.sha256(f"{seed}\n{list(row.ids)}".encode()).digest()
            orientation = int.from_bytes(digest[:8], "big") % self.groups
            oriented = self.orienter(row, orientation)
            if oriented.reversible:
                tossed.append((orientation, replace(oriented, places=list(accumulate(oriented.places, max)))))
            else:
                tossed.append((0, self.orienter(row, 0)))
        return [tossed]

    def mixed(self, logs: Sequence[Tensor], weights: Tensor) -> Tensor:
        """Log-probabilities [answer, token] of all orientations as one; weights [orientation, answer], as
        logarithms."""
        total = torch.stack([log + own[:, None] for log, own in zip(logs, weights, strict=True)]).logsumexp(0)
        if len(self.columns):
            masses = [self._mass(log) for log in logs]
            oriented = zip(masses, weights, self.shift, strict=True)
            mass = torch.stack([m[:, to] * own.double().exp()[:, None] for m, own, to in oriented]).sum(0)
            share = logs[0][:, self.columns].double() - masses[0].log()[:, self.cell]
            total[:, self.columns] = (mass.log()[:, self.cell] + share).to(total)
        return total

    def returned(self, log: Tensor, orientations: Tensor) -> Tensor:
        """Log-probabilities at an orientation as those about the text: a word gets what its counterparts
        got."""
        if not len(self.columns):
            return log
        number = torch.bincount(self.cell).double().log()
        mass = self._mass(log).log().gather(1, self.shift[orientations]) - number
        moved = log.clone()
        moved[:, self.columns] = mass[:, self.cell].to(log)
        return torch.where((orientations == 0)[:, None], log, moved)

    def _mass(self, log: Tensor) -> Tensor:
        own = log[:, self.columns].double().exp()
        return own.new_zeros(len(log), self.shift.shape[1]).index_add_(1, self.cell, own)


class Passes:
    """One batch: which rows the network is asked about, and its answers at the tokens that came in."""

    def __init__(self, symmetry: Symmetry, ids: Tensor, real: Tensor, types: Tensor) -> None:
        self.symmetry, self._device = symmetry, ids.device
        rows = [Row(i[r].tolist(), t[r].tolist()) for i, t, r in zip(ids, types, real, strict=True)]
        passes = symmetry.oriented(rows)
        every = [(tuple(row.ids), tuple(row.types)) for some in passes for _, row in some]
        self.rows = list(dict.fromkeys(every))  # that are run: each once
        number = {row: i for i, row in enumerate(self.rows)}
        self.which = self._tensor([number[row] for row in every]).view(len(passes), -1)  # [pass, text]
        self.orientations = self._tensor([[orientation for orientation, _ in some] for some in passes])
        # where the answer about each token stands in its row; -1: nowhere. [pass, text, token]
        self.places = torch.full((len(passes), *ids.shape), -1, device=ids.device)
        self.places[:, real] = torch.stack(
            [self._tensor([p for _, r in some for p in r.places]) for some in passes]
        )
        self.first = self._tensor([0] * len(self.rows))  # the token of each row that answers begin with
        self.total: Tensor | None = None  # log P of each row up to each token that is answered about

    def arguments(self, pad: int) -> dict[str, Tensor]:
        """The arguments of the network, padded on the right."""
        ids, types = zip(*self.rows, strict=True)
        ones = [[1] * len(row) for row in ids]
        named = {"input_ids": (ids, pad), "attention_mask": (ones, 0), "token_type_ids": (types, 0)}
        width = max(map(len, ids))
        return {
            name: self._tensor([[*row, *[value] * (width - len(row))] for row in rows])
            for name, (rows, value) in named.items()
        }

    def needed(self, columns: Tensor) -> list[int]:
        """The first token of each row that must be answered about, for these tokens of every text."""
        lengths = self._tensor([len(ids) for ids, _ in self.rows])
        places = self.places[..., columns]
        behind = lengths[self.which][..., None] - 1
        first = torch.where(places < 0, behind, places).amin(-1)
        return lengths.scatter_reduce(0, self.which.flatten(), first.flatten(), "amin").tolist()

    def _tensor(self, values: Sequence[Any]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._device)

    def one(self, name: str, value: Tensor) -> Tensor:
        """The answers about all rows under one name as one for each text."""
        if value.dim() == 3:
            every = torch.arange(self.places.shape[2], device=self._device)
            return self.by_token(name, value, every)
        if "logits" not in name:
            return value[self.which].mean(0)
        return value.log_softmax(-1)[self.which].logsumexp(0) - math.log(len(self.which))

    def by_token(self, name: str, value: Tensor, columns: Tensor) -> Tensor:
        """The same at some tokens of each text; few texts at a time, so that little is held twice."""
        texts, width = self.which.shape[1], value.shape[-1]
        some = max(1, _floats(value) // (len(self.which) * len(columns) * width))
        answers = value.new_empty(texts, len(columns), width)
        for first in range(0, texts, some):
            texts_of = slice(first, first + some)
            answers[texts_of] = self._by_token(name, value, columns, texts_of)
        return answers

    def _by_token(self, name: str, value: Tensor, columns: Tensor, texts: slice) -> Tensor:
        which, places = self.which[:, texts], self.places[:, texts][..., columns]
        at = (places - self.first[which][..., None]).clamp(min=0)
        given = value[which[..., None], at]  # [pass, text, token, value]
        there = (places >= 0).double()
        there[0] = 1.0  # the text itself is always there
        if "logits" not in name:
            return (given * (there / there.sum(0)).to(given)[..., None]).sum(0)
        logs = given.float().log_softmax(-1).flatten(1, 2)
        worth = there.log().flatten(1)
        if self.total is not None:
            worth = worth + self.total[which[..., None], at].flatten(1)
        shares = worth.log_softmax(0).to(logs)
        if len(logs) == 1:
            mixed = self.symmetry.returned(
                logs[0], self.orientations[0, texts].repeat_interleave(len(columns))
            )
        elif value.shape[-1] == self.symmetry.vocabulary:
            mixed = self.symmetry.mixed(list(logs), shares)
        else:
            mixed = (logs + shares[..., None]).logsumexp(0)
        return mixed.view(given.shape[1:]).to(given.dtype)


def _floats(where: Tensor) -> int:
    return _FLOATS * (8 if where.is_cuda else 1)


def answered(model: Any, forward: Callable[..., Any], ids: Tensor | None, given: dict[str, Any]) -> Any:
    """What the symmetrized model answers, as an output of the network's own kind."""
    inside = [name for name in _INSIDE if _is_given(given.pop(name, None))]
    mask = given.pop("attention_mask", None)
    if ids is None or inside:
        raise ValueError(f"A symmetrized model takes input_ids, and no {', '.join(inside) or 'other'}.")
    if mask is not None and mask.dim() != 2:
        raise ValueError(
            "A symmetrized model takes an attention_mask [text, token]; leave out cache_implementation."
        )
    known = model.__dict__.get("levelhead_symmetry")
    if known is None or known.columns.device != ids.device:
        known = model.__dict__["levelhead_symmetry"] = Symmetry(model.config, ids.device)
    as_dict, labels = given.pop("return_dict", None), given.pop("labels", None)
    own = {name: value for name, value in given.items() if name not in _DROPPED}
    real = torch.ones_like(ids).bool() if mask is None else mask[:, -ids.shape[1] :].bool()
    known.believe(forward, ids, real)
    ask = _next_words if known.causal else _answers
    out = ask(model, forward, (known, ids, real), {**own, "labels": labels})
    return out if (model.config.return_dict if as_dict is None else as_dict) else out.to_tuple()


Given = tuple[Symmetry, Tensor, Tensor]  # what is exchanged, tokens, and which of them are no padding


def _answers(model: Any, forward: Callable[..., Any], batch: Given, own: dict[str, Any]) -> Any:
    """Of a model that reads both ways, or answers about a text as a whole."""
    if any(_is_given(own.pop(name, None)) for name in ("use_cache", "past_key_values")):
        raise ValueError(
            "Only a causal language model keeps a cache; leave use_cache and past_key_values out."
        )
    symmetry, ids, real = batch
    types, labels, _ = (own.pop(name, None) for name in ("token_type_ids", "labels", "logits_to_keep"))
    passes = Passes(symmetry, ids, real, torch.zeros_like(ids) if types is None else types)
    rows = passes.arguments(model.config.pad_token_id or 0)
    if types is None:
        del rows["token_type_ids"]
    out = forward(**rows, **own, return_dict=True)
    tensors = {
        name: passes.one(name, value)
        for name, value in out.items()
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1
    }
    if labels is not None:
        tensors["loss"] = loss(tensors["logits"], labels, causal=False)
    return type(out)(**tensors)


def _next_words(model: Any, forward: Callable[..., Any], batch: Given, own: dict[str, Any]) -> Any:
    """Of a causal language model."""
    symmetry, ids, real = batch
    past, use, keep, labels, _ = (
        own.pop(name, None)
        for name in ("past_key_values", "use_cache", "logits_to_keep", "labels", "token_type_ids")
    )
    if not isinstance(past, OrientedCache):
        if past is not None and past.get_seq_length():
            raise ValueError("A symmetrized model goes on with a cache of its own (past_key_values) only.")
        caches = bool(getattr(model.config, "use_cache", True) if use is None else use)
        past = OrientedCache(ids.device, caches)
    before = past.get_seq_length()
    ids, real = past.with_tokens(ids, real)
    passes = Passes(symmetry, ids, real, torch.zeros_like(ids))
    new = torch.arange(before, ids.shape[1], device=ids.device)
    kept = new[keep] if isinstance(keep, Tensor) else new[-(keep or 0) :]
    columns = kept if labels is None else new
    rows = [row for row, _ in passes.rows]
    most = max(1, _floats(ids) // (len(rows) * symmetry.vocabulary))
    out, total = past.run(forward, rows, passes.needed(columns), most, own)
    passes.first = torch.tensor([len(row) - total.shape[1] for row in rows], device=ids.device)
    passes.total = total
    past.ids, past.real = ids, real
    logits = passes.by_token("logits", out["logits"], columns)
    tensors = {"logits": logits, "past_key_values": past if past.keeps else None}
    if labels is not None:
        tensors |= {"loss": loss(logits, labels, causal=True), "logits": logits[:, kept - before]}
    return type(out)(**tensors)


def _is_given(value: Any) -> bool:
    return value is not None and value is not False


def loss(logits: Tensor, labels: Tensor, causal: bool) -> Tensor:
    """Cross-entropy of the mixture; causal: of each next token."""
    if logits.dim() == 3 and causal:
        logits, labels = logits[:, :-1], labels[:, 1:]
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten().to(logits.device))


class EditedConfig(Config):  # type: ignore[no-untyped-call]
    """Under another model type, so that no Auto class loads the weights without the exchange by mistake."""

    model_type = "levelhead"


class EditedModel(Base):  # type: ignore[no-untyped-call]
    """The network as it was, asked at every orientation of the groups."""

    config_class = EditedConfig

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, logits_to_keep: Any = 0, **given: Any
    ) -> Any:
        own = {**given, "attention_mask": attention_mask, "logits_to_keep": logits_to_keep}
        return answered(self, super().forward, input_ids, own)
