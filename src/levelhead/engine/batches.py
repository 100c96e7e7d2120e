"""Distinct token rows, in batches of similar length that fit a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from levelhead.edits.sites import placed
from levelhead.models.encoding import Ints, TokenRow
from levelhead.models.model import Model

_FAST = 4096  # tokens of a batch that keep a card busy
_POOLED = 50  # batches whose rows are sorted together, as in transformers' LengthGroupedSampler


@dataclass(frozen=True, eq=False)
class Tokens:
    """What of a row the model is given; kept small because a corpus has many."""

    ids: Ints
    types: Ints | None


@dataclass
class RowPool:
    """Token rows of all readings; texts that the model cannot tell apart are one row, unless merge=False."""

    merge: bool = True
    rows: list[Tokens] = field(default_factory=list)
    _index: dict[bytes, int] = field(default_factory=dict)

    def add(self, row: TokenRow) -> int:
        """The number of this row; equal rows share one."""
        number = self._index.setdefault(row.key, len(self.rows)) if self.merge else len(self.rows)
        if number == len(self.rows):
            self.rows.append(Tokens(row.ids, row.types))
        return number


def batches(rows: Sequence[Tokens], budget: int, *, equal: bool = False) -> Iterator[list[int]]:
    """Row numbers sorted by length and cut so that count x longest stays within the budget.

    A row that is longer than the budget is a batch of its own. A batch that is large enough to be fast, a
    quarter of the budget or 4,096 tokens, takes no longer rows: nothing in it is padded for them, and without
    padding attention has faster kernels. equal: never pad, that is, put only rows of one length into a batch.
    """
    order = sorted(range(len(rows)), key=lambda i: (len(rows[i].ids), i))
    enough = 0 if equal else min(budget // 4, _FAST)
    batch: list[int] = []
    longest = 0
    for number in order:
        length = len(rows[number].ids)
        is_full = (len(batch) + 1) * length > budget
        if batch and (is_full or (length > longest and len(batch) * longest >= enough)):
            yield batch
            batch = []
        batch.append(number)
        longest = length
    if batch:
        yield batch


@dataclass(eq=False)
class SimilarLengths(Sampler[int]):
    """Row numbers in a random order in which rows of similar length come together: little is padded.

    The order depends on the seed and the epoch alone, so that a training that goes on meets it again.
    """

    lengths: Sequence[int]
    batch: int
    seed: int
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        rng, lengths = np.random.default_rng([self.seed, self.epoch]), np.asarray(self.lengths)
        shuffled = rng.permutation(len(self))
        pool = self.batch * _POOLED
        pools = [shuffled[start : start + pool] for start in range(0, len(self), pool)]
        order = np.concatenate([some[np.argsort(lengths[some], kind="stable")] for some in pools])
        whole = len(order) // self.batch * self.batch
        by_batch = order[:whole].reshape(-1, self.batch)
        yield from (int(number) for number in rng.permutation(by_batch).ravel())
        yield from (int(number) for number in order[whole:])  # the batch that is not full comes last


def inputs(model: Model, rows: Sequence[Tokens]) -> dict[str, Tensor]:
    """The model's arguments for some rows: padded on the right, with an attention mask, on its device."""
    width = max(len(row.ids) for row in rows)
    pad = model.tokenizer.pad_token_id
    ids = np.full((len(rows), width), 0 if pad is None else pad, np.int64)
    mask = np.zeros((len(rows), width), np.int64)
    types = np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        mask[i, : len(row.ids)] = 1
        if row.types is not None:
            types[i, : len(row.ids)] = row.types
    arrays = {"input_ids": ids, "attention_mask": mask}
    if rows[0].types is not None:
        arrays["token_type_ids"] = types
    return {name: placed(torch.from_numpy(array), model.device) for name, array in arrays.items()}
