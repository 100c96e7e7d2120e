"""Which tokens of a batch are read, by which collector, and what edits make of their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelhead.edits.placing import placed
from levelhead.edits.sites import Edit
from levelhead.engine.collectors import Collector, Numbers


@dataclass(frozen=True, eq=False)
class Asks:
    """One collector's asks within a batch."""

    collector: Collector[Any]
    numbers: Numbers  # [ask]: its number within the collector
    row: Tensor  # [ask]: which row of the batch
    position: Tensor  # [ask]: which token of that row
    places: tuple[Numbers, Numbers]  # the same two on the host, where nobody waits for them

    def pick(self, h: Tensor) -> Tensor:
        """The asks' own vectors: [batch, token, ...] -> [ask, ...]."""
        return h[self.row.to(h.device), self.position.to(h.device)]

    @property
    def at_first_token(self) -> bool:
        """Whether nothing but first tokens of rows is read."""
        return not self.places[1].any()


def read_tokens(asks: Sequence[Asks], width: int) -> Numbers:
    """The tokens of a batch that are read, each once, as numbers of batch x token."""
    return np.unique(np.concatenate([some.places[0] * width + some.places[1] for some in asks]))


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


def edited_vectors(edits: Sequence[Edit], asks: Asks, hidden: Tensor) -> Tensor:
    """The asks' vectors of a block's output, under its edits: [ask, hidden].

    A cls edit concerns those at position 0.
    """
    vectors = asks.pick(hidden)
    for edit in edits:
        if edit.site.part == "block" or asks.at_first_token:
            vectors = edit(vectors)
        else:
            first = (asks.position == 0).to(vectors.device)
            vectors = torch.where(first[:, None], edit(vectors), vectors)
    return vectors
