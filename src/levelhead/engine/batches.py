"""Distinct token rows, in batches of similar length that fit a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from levelhead.models.encoding import Ints, TokenRow
from levelhead.models.model import Model

CPU_TOKENS, GPU_TOKENS = 2048, 65536  # rows x longest row; larger batches were not faster on either


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


def token_budget(model: Model) -> int:
    """How many tokens, padding included, go into one batch by default."""
    return GPU_TOKENS if model.device.type == "cuda" else CPU_TOKENS


def batches(rows: Sequence[Tokens], budget: int, *, equal: bool = False) -> Iterator[list[int]]:
    """Row numbers sorted by length and cut so that count x longest stays within the budget.

    A row that is longer than the budget is a batch of its own. A batch that is large enough to be fast, a
    quarter of the budget, takes no longer rows: nothing in it is padded for them. equal: never pad, that is,
    put only rows of one length into a batch.
    """
    order = sorted(range(len(rows)), key=lambda i: (len(rows[i].ids), i))
    enough = 0 if equal else budget // 4
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
    return {name: torch.from_numpy(array).to(model.device) for name, array in arrays.items()}
