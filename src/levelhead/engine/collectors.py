"""How answers are put together: a collector gathers one reading's answers, batch by batch, in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.placing import beside, placed
from levelhead.edits.sites import Site
from levelhead.models.encoding import Ints, TokenRow

T = TypeVar("T")
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Stage = Literal["final", "logits", "pooled", "classified", "state", "attention"]


class Collector(ABC, Generic[T]):
    """Gathers one reading's answers. `stage` says what the engine hands over for each ask:

    final: last_hidden_state [ask, hidden]; logits: [ask, token]; pooled: [ask, hidden]; classified: [ask,
    label]; state: the tensor at `site` [ask, ...]; attention: [ask, layer, head, token].
    """

    stage: ClassVar[Stage]
    adds_up: ClassVar[bool] = False  # values are summed where they lie; all others are kept on the host

    def __init__(self) -> None:
        self.rows: list[int] = []  # of each ask: the row in the pool
        self.positions: list[int] = []  # of each ask: the token
        self.site: Site | None = None

    def ask(self, row: int, position: int) -> None:
        """Note that the answer at one token of one row is wanted."""
        self.rows.append(row)
        self.positions.append(position)

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        """What of the values is kept, made where they lie: [ask, ...]."""
        return values.float()

    @abstractmethod
    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        """Keep these asks' reduced values, which are on the host by now, under this variant."""

    @abstractmethod
    def answer(self) -> T:
        """Everything that was taken, in the caller's order."""

    def pull(self, cotangent: Tensor, asks: Numbers, values: Tensor) -> Tensor:
        """<cotangent of the answer, what an ask adds to it> of each ask, differentiable in values: [ask]."""
        raise NotImplementedError(
            f"{type(self).__name__} has no gradients; use StaticVectors, TokenLogProbs, Pooled or "
            "SpanLikelihoods."
        )

    def stratum(self, ask: int) -> int:
        """Which of the answer's means this ask belongs to, for standard errors."""
        return 0

    def units(self) -> tuple[Numbers, Numbers] | None:
        """Of each ask: the text that it is about, where the answer is one number per text; and the item that
        the text belongs to. None: an answer of another form, in which each row is an item of its own."""
        return None


class PlainCollector(Collector[Floats]):
    def __init__(self, items: int, variants: int) -> None:
        super().__init__()
        self._shape = (variants, items)
        self._values: Floats | None = None

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        if self._values is None:
            self._values = np.zeros((*self._shape, *values.shape[1:]), np.float32)
        self._values[variant, asks] = values.numpy()

    def answer(self) -> Floats:
        return np.zeros((*self._shape, 0), np.float32) if self._values is None else self._values


class ClassifiedCollector(PlainCollector):
    stage: ClassVar[Stage] = "classified"

    def pull(self, cotangent: Tensor, asks: Numbers, values: Tensor) -> Tensor:
        return (values * cotangent[placed(torch.from_numpy(asks), cotangent.device)].to(values)).sum(-1)


class PooledCollector(PlainCollector):
    stage: ClassVar[Stage] = "pooled"


class WordCollector(Collector[Floats]):
    stage: ClassVar[Stage] = "final"
    adds_up: ClassVar[bool] = True

    def __init__(self, items: int, variants: int) -> None:
        super().__init__()
        self._shape = (variants, items)
        self._item: list[int] = []
        self._share: list[float] = []
        self._turn: list[int] = []  # of each ask: how many tokens of its item come before it
        self._tokens = [0] * items
        self._sums: Tensor | None = None

    def token(self, item: int, row: int, position: int, tokens: int) -> None:
        self.ask(row, position)
        self._item.append(item)
        self._share.append(1.0 / tokens)
        self._turn.append(self._tokens[item])
        self._tokens[item] += 1

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        if self._sums is None:
            self._sums = torch.zeros(
                (*self._shape, values.shape[1]), dtype=torch.float32, device=values.device
            )
        share = placed(torch.tensor([self._share[a] for a in asks]), values.device)
        item = placed(torch.tensor([self._item[a] for a in asks]), values.device)
        parts = values.float() * share[:, None]
        if values.is_cuda:  # a card adds to one place in any order, and rounds in that order
            turns = [placed(torch.from_numpy(own), values.device) for own in self.turns(asks)]
            pieces = [(item[own], parts[own]) for own in turns]
        else:
            pieces = [(item, parts)]
        for places, part in pieces:  # memory runs out before the first is added, or not at all
            self._sums[variant].index_add_(0, places, part)

    def turns(self, asks: Numbers) -> list[Numbers]:
        """Where among these asks first tokens of items stand, then second ones, and so on: in each turn an
        item comes once."""
        turn = np.asarray([self._turn[a] for a in asks], np.int64)
        return [np.flatnonzero(turn == number) for number in np.unique(turn)]

    def answer(self) -> Floats:
        if self._sums is None:
            return np.zeros((*self._shape, 0), np.float32)
        return np.asarray(self._sums.cpu().numpy())


class StaticCollector(Collector[Doubles]):
    stage: ClassVar[Stage] = "final"
    adds_up: ClassVar[bool] = True

    def __init__(self, words: int, variants: int) -> None:
        super().__init__()
        self._shape = (variants, words)
        self._word: list[int] = []
        self._share: list[float] = []
        self._sums: Tensor | None = None

    def token(self, word: int, row: int, position: int, share: float) -> None:
        self.ask(row, position)
        self._word.append(word)
        self._share.append(share)

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        if self._sums is None:
            self._sums = torch.zeros(
                (*self._shape, values.shape[1]), dtype=torch.float64, device=values.device
            )
        share = placed(torch.tensor([self._share[a] for a in asks], dtype=torch.float64), values.device)
        word = placed(torch.tensor([self._word[a] for a in asks]), values.device)
        self._sums[variant].index_add_(0, word, values.double() * share[:, None])

    def pull(self, cotangent: Tensor, asks: Numbers, values: Tensor) -> Tensor:
        share = beside(torch.tensor([self._share[a] for a in asks], dtype=torch.float64), values)
        word = placed(torch.tensor([self._word[a] for a in asks]), values.device)
        return (values * cotangent[word].to(values)).sum(-1) * share

    def stratum(self, ask: int) -> int:
        return self._word[ask]

    def answer(self) -> Doubles:
        if self._sums is None:
            return np.zeros((*self._shape, 0))
        return np.asarray(self._sums.cpu().numpy())


@dataclass(frozen=True)
class TopK:
    """The k most probable tokens: ids and log-probabilities, each [variant, text, k]."""

    ids: Numbers
    log_probs: Floats


class TokenCollector(PlainCollector):
    stage: ClassVar[Stage] = "logits"

    def __init__(self, items: int, variants: int, tokens: Tensor) -> None:
        super().__init__(items, variants)
        self._tokens = tokens

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        return self._chosen(values)

    def pull(self, cotangent: Tensor, asks: Numbers, values: Tensor) -> Tensor:
        own = cotangent[placed(torch.from_numpy(asks), cotangent.device)].to(values)
        return (self._chosen(values) * own).sum(-1)

    def _chosen(self, values: Tensor) -> Tensor:
        return values[:, placed(self._tokens, values.device)] - values.logsumexp(-1, keepdim=True)


class TopKCollector(Collector[TopK]):
    stage: ClassVar[Stage] = "logits"

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self._answer = TopK(np.zeros(shape, np.int64), np.zeros(shape, np.float32))

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        """Ids and log-probabilities side by side; float32 holds every id up to 2^24 exactly."""
        top = values.topk(self._answer.ids.shape[-1], dim=-1)
        normal = values.logsumexp(-1, keepdim=True)
        return torch.cat([top.indices.float(), top.values - normal], dim=-1)

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        ids, log_probs = values.numpy().reshape(len(asks), 2, -1).swapaxes(0, 1)
        self._answer.ids[variant, asks] = ids.astype(np.int64)
        self._answer.log_probs[variant, asks] = log_probs

    def answer(self) -> TopK:
        return self._answer


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


def log_probs_of(tokens: Sequence[int], logits: Tensor) -> Tensor:
    """Log-probability of one token for each row of logits [ask, token]: [ask]."""
    token = placed(torch.tensor(tokens), logits.device)
    return logits.gather(1, token[:, None])[:, 0] - logits.logsumexp(-1)


class LikelihoodCollector(Collector[TokenScores]):
    stage: ClassVar[Stage] = "logits"

    def __init__(self, variants: int) -> None:
        super().__init__()
        self._variants = variants
        self._texts: list[tuple[TokenRow, Ints]] = []
        self._tokens: list[int] = []
        self._values: Floats | None = None

    def text(self, row: TokenRow, scored: Ints) -> None:
        self._texts.append((row, scored))

    def want(self, row: int, position: int, token: int) -> None:
        self.ask(row, position)
        self._tokens.append(token)

    def reduced(self, asks: Numbers, values: Tensor) -> Tensor:
        return log_probs_of([self._tokens[a] for a in asks], values)

    def take(self, variant: int, asks: Numbers, values: Tensor) -> None:
        if self._values is None:
            self._values = np.zeros((self._variants, len(self._tokens)), np.float32)
        self._values[variant, asks] = values.numpy()

    def answer(self) -> TokenScores:
        ends = np.cumsum([len(scored) for _, scored in self._texts])
        flat = np.zeros((self._variants, 0), np.float32) if self._values is None else self._values
        values = [list(np.split(flat[v], ends[:-1])) for v in range(self._variants)]
        return TokenScores(values, [r for r, _ in self._texts], [s for _, s in self._texts])
