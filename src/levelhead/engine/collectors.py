"""How answers are put together: a collector gathers one reading's answers, batch by batch, in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import Site, beside, placed
from levelhead.models.encoding import Ints, TokenRow

T = TypeVar("T")
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Stage = Literal["final", "logits", "pooled", "classified", "state", "attention"]


@dataclass(eq=False)
class Collector(ABC, Generic[T]):
    """Gathers one reading's answers. `stage` says what the engine hands over for each ask:

    final: last_hidden_state [ask, hidden]; logits: [ask, token]; pooled: [ask, hidden]; classified: [ask,
    label]; state: the tensor at `site` [ask, ...]; attention: [ask, layer, head, token].
    """

    stage: ClassVar[Stage]
    adds_up: ClassVar[bool] = False  # values are summed where they lie; all others are kept on the host
    differentiable: ClassVar[bool] = False
    of_means: ClassVar[bool] = False  # each item is a mean, whose standard error comes from its asks
    of_sums: ClassVar[bool] = False  # each item is a text, and the answer one number for it

    variants: int
    items: int = 0
    rows: list[int] = field(default_factory=list)  # of each ask: the row in the pool
    positions: list[int] = field(default_factory=list)  # of each ask: the token
    item: list[int] = field(default_factory=list)  # of each ask: what of the answer it concerns
    share: list[float] = field(default_factory=list)  # of each ask: its weight in a mean
    tokens: list[int] = field(default_factory=list)  # of each ask: the token whose probability is wanted
    site: Site | None = None
    _values: Floats | None = None  # [variant, ask, ...]

    def ask(
        self, row: int, position: int, item: int | None = None, *, share: float = 1.0, token: int = 0
    ) -> None:
        """Note that the answer at one token of one row is wanted; by default each ask is an item."""
        self.item.append(len(self.rows) if item is None else item)
        self.rows.append(row)
        self.positions.append(position)
        self.share.append(share)
        self.tokens.append(token)

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        """What of the values is kept, made where they lie: [ask, ...]."""
        return values.float()

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        """Keep these asks' reduced values, which are on the host by now, under this variant."""
        if self._values is None:
            self._values = np.zeros((self.variants, len(self.rows), *values.shape[1:]), np.float32)
        self._values[variant, asks] = values.float().numpy()

    @abstractmethod
    def answer(self) -> T:
        """Everything that was taken, in the caller's order."""

    def pull(self, cotangent: Tensor, asks: Numbers, values: Tensor) -> Tensor:
        """<cotangent of the answer, what an ask adds to it> of each ask, differentiable in values: [ask]."""
        if not self.differentiable:
            raise NotImplementedError(
                f"{type(self).__name__} has no gradients; use StaticVectors, TokenLogProbs, Pooled or "
                "SpanLikelihoods."
            )
        item = placed(torch.tensor([self.item[a] for a in asks]), cotangent.device)
        pulled = self.reduced(asks, values) * beside(cotangent[item], values)
        if not self.of_means:
            return pulled.sum(-1) if pulled.dim() > 1 else pulled
        share = torch.tensor([self.share[a] for a in asks], dtype=torch.float64)
        return pulled.sum(-1) * beside(share, values)


# ---- one ask per text


class PooledCollector(Collector[Floats]):
    stage: ClassVar[Stage] = "pooled"

    def answer(self) -> Floats:
        empty = (self.variants, len(self.rows), 0)
        return np.zeros(empty, np.float32) if self._values is None else self._values


class ClassifiedCollector(PooledCollector):
    stage: ClassVar[Stage] = "classified"
    differentiable: ClassVar[bool] = True


@dataclass(eq=False, kw_only=True)
class TokenCollector(ClassifiedCollector):
    stage: ClassVar[Stage] = "logits"
    vocabulary: Tensor  # the tokens that are read

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        return values[:, placed(self.vocabulary, values.device)] - values.logsumexp(-1, keepdim=True)


class MassCollector(PooledCollector):
    """Probabilities of groups of tokens."""

    stage: ClassVar[Stage] = "logits"

    def __init__(self, variants: int, groups: Sequence[Sequence[int]]) -> None:
        super().__init__(variants)
        self._tokens = torch.tensor([token for group in groups for token in group], dtype=torch.int64)
        self._member = torch.zeros(len(self._tokens), len(groups))  # [token, group], 1 where it is in it
        of_token = [number for number, group in enumerate(groups) for _ in group]
        self._member[torch.arange(len(of_token)), torch.tensor(of_token, dtype=torch.int64)] = 1.0

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        logs = values[:, placed(self._tokens, values.device)] - values.logsumexp(-1, keepdim=True)
        return logs.float().exp() @ placed(self._member, values.device)


@dataclass(frozen=True)
class TopK:
    """The k most probable tokens: ids and log-probabilities, each [variant, text, k]."""

    ids: Numbers
    log_probs: Floats


@dataclass(eq=False, kw_only=True)
class TopKCollector(Collector[TopK]):
    stage: ClassVar[Stage] = "logits"
    k: int

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        """Ids and log-probabilities side by side; float32 holds every id up to 2^24 exactly."""
        top = values.topk(self.k, dim=-1)
        normal = values.logsumexp(-1, keepdim=True)
        return torch.cat([top.indices.float(), top.values - normal], dim=-1)

    def answer(self) -> TopK:
        empty = np.zeros((self.variants, len(self.rows), 2 * self.k), np.float32)
        ids, log_probs = np.split(empty if self._values is None else self._values, 2, axis=-1)
        return TopK(ids.astype(np.int64), log_probs.copy())


# ---- means of vectors


class WordCollector(Collector[Any]):
    """A mean of vectors per item, [variant, item, hidden], summed where the vectors lie."""

    stage: ClassVar[Stage] = "final"
    adds_up: ClassVar[bool] = True
    dtype: ClassVar[torch.dtype] = torch.float32
    _sums: Tensor | None = None

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        if self._sums is None:
            shape = (self.variants, self.items, values.shape[1])
            self._sums = torch.zeros(shape, dtype=self.dtype, device=values.device)
        share = placed(torch.tensor([self.share[a] for a in asks], dtype=self.dtype), values.device)
        item = placed(torch.tensor([self.item[a] for a in asks]), values.device)
        pieces = [(item, values.to(self.dtype) * share[:, None])]
        # a card adds to one place in any order, and rounds in that order (float64 would need too many rounds)
        if values.is_cuda and self.dtype == torch.float32:
            ((item, parts),) = pieces
            rounds = [placed(torch.from_numpy(own), values.device) for own in self.rounds(asks)]
            pieces = [(item[own], parts[own]) for own in rounds]
        for places, part in pieces:  # memory runs out before the first is added, or not at all
            self._sums[variant].index_add_(0, places, part)

    def rounds(self, asks: Numbers) -> list[Numbers]:
        """Where among these asks first tokens of items stand, then second ones, and so on: in each round an
        item comes once."""
        item = np.asarray([self.item[a] for a in asks], np.int64)
        order = np.argsort(item, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order)) - np.searchsorted(item[order], item[order])
        return [np.flatnonzero(rank == number) for number in np.unique(rank)]

    def answer(self) -> Any:
        empty = torch.zeros((self.variants, self.items, 0), dtype=self.dtype)
        return np.asarray((empty if self._sums is None else self._sums).cpu().numpy())


class StaticCollector(WordCollector):
    """Means over many texts, in float64."""

    dtype: ClassVar[torch.dtype] = torch.float64
    differentiable: ClassVar[bool] = True
    of_means: ClassVar[bool] = True


# ---- likelihoods


@dataclass(frozen=True)
class TokenScores:
    """Log-likelihood of each scored token: values[variant][text] is an array, in the order of positions."""

    values: list[list[Floats]]
    rows: list[TokenRow]
    positions: list[Ints]  # of each text: the scored tokens

    @property
    def unscored(self) -> int:
        """Real tokens without a score: the first of a causal text that has nothing before it."""
        real = sum(int((row.part != -1).sum()) for row in self.rows)
        return real - sum(map(len, self.positions))


class SpanCollector(Collector[Any]):
    """Sums over the tokens of each text. groups: the item of benchmarks that each text belongs to."""

    stage: ClassVar[Stage] = "logits"
    differentiable: ClassVar[bool] = True
    of_sums: ClassVar[bool] = True
    groups: Numbers | None = None

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        token = placed(torch.tensor([self.tokens[a] for a in asks]), values.device)
        return values.gather(1, token[:, None])[:, 0] - values.logsumexp(-1)

    def answer(self) -> Any:
        if self._values is None:
            return np.zeros((self.variants, self.items))
        text = np.asarray(self.item, np.int64)
        return np.stack([np.bincount(text, weights=each, minlength=self.items) for each in self._values])


@dataclass(eq=False)
class LikelihoodCollector(SpanCollector):
    """Each token of each text by itself."""

    differentiable: ClassVar[bool] = False
    of_sums: ClassVar[bool] = False
    texts: list[tuple[TokenRow, Ints]] = field(default_factory=list)  # each with its scored tokens

    def answer(self) -> TokenScores:
        ends = np.cumsum([len(scored) for _, scored in self.texts])
        flat = np.zeros((self.variants, 0), np.float32) if self._values is None else self._values
        values = [list(np.split(of_variant, ends[:-1])) for of_variant in flat]
        return TokenScores(values, [row for row, _ in self.texts], [scored for _, scored in self.texts])


# ---- inside the model


class StateCollector(Collector[list[list[Floats]]]):
    stage: ClassVar[Stage] = "state"

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        """As the model computes them: bfloat16 is half as long on the way as the same numbers in float32."""
        return values

    def answer(self) -> list[list[Floats]]:
        if self._values is None:
            return [[] for _ in range(self.variants)]
        ends = np.cumsum(np.bincount(self.item, minlength=self.items))[:-1]
        return [list(np.split(of_variant, ends)) for of_variant in self._values]


class PooledStateCollector(StateCollector):
    stage: ClassVar[Stage] = "pooled"


@dataclass(frozen=True)
class AttentionRow:
    """Attention of one text: from each token of the target word to every token, in every head."""

    weights: Floats  # [layer, head, target token, token]
    target: Ints  # positions of the target's tokens
    attribute: Ints  # positions of the attribute's tokens
    counted: NDArray[np.bool_]  # [token]: neither a special token nor punctuation
    tokens: tuple[str, ...]  # as written in the text


@dataclass(eq=False)
class AttentionCollector(Collector[list[list[AttentionRow]]]):
    stage: ClassVar[Stage] = "attention"
    texts: list[AttentionRow] = field(default_factory=list)  # still without weights
    _weights: dict[tuple[int, int], Floats] = field(default_factory=dict)  # [variant, ask]

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        for ask, weights in zip(asks, values.numpy(), strict=True):
            length = len(self.texts[self.item[ask]].tokens)  # without the padding
            self._weights[variant, int(ask)] = weights[:, :, :length].copy()

    def answer(self) -> list[list[AttentionRow]]:
        asks: list[list[int]] = [[] for _ in self.texts]
        for ask, text in enumerate(self.item):
            asks[text].append(ask)
        return [
            [
                replace(row, weights=np.stack([self._weights[variant, ask] for ask in own], axis=2))
                for row, own in zip(self.texts, asks, strict=True)
            ]
            for variant in range(self.variants)
        ]


# ---- asks within a batch


@dataclass(frozen=True, eq=False)
class Asks:
    """One collector's asks within a batch."""

    collector: Collector[Any]
    numbers: Numbers  # [ask]: its number within the collector
    row: Tensor  # [ask]: which row of the batch
    position: Tensor  # [ask]: which token of that row
    places: tuple[Numbers, Numbers]  # the same two on the host, where nobody waits for them

    def pick(self, h: Tensor) -> Tensor:
        return h[self.row.to(h.device), self.position.to(h.device)]


def asks_by_row(collector: Collector[Any], rows: int) -> list[Numbers]:
    """Of each row of the pool, the numbers of the asks that concern it."""
    row = np.asarray(collector.rows, np.int64)
    order = np.argsort(row, kind="stable")
    return list(np.split(order, np.cumsum(np.bincount(row, minlength=rows))[:-1])) if rows else []


def asks_of_batch(
    collector: Collector[Any], by_row: Sequence[Numbers], batch: Sequence[int], device: torch.device
) -> Asks:
    """The asks that concern the rows of a batch."""
    parts = [by_row[number] for number in batch]
    numbers = np.concatenate(parts)
    row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    position = np.asarray([collector.positions[number] for number in numbers], np.int64)
    on_device = [placed(torch.from_numpy(places), device) for places in (row, position)]
    return Asks(collector, numbers, on_device[0], on_device[1], (row, position))
