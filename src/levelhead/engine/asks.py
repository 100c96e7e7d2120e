"""Which tokens of a batch are read, and by which collector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelhead.engine.collectors import Collector, Numbers


@dataclass(frozen=True, eq=False)
class Asks:
    """One collector's asks within a batch."""

    collector: Collector[Any]
    numbers: Numbers  # [ask]: its number within the collector
    row: Tensor  # [ask]: which row of the batch
    position: Tensor  # [ask]: which token of that row

    def pick(self, h: Tensor) -> Tensor:
        """The asks' own vectors: [batch, token, ...] -> [ask, ...]."""
        return h[self.row, self.position]


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
    return Asks(collector, numbers, torch.from_numpy(row).to(device), torch.from_numpy(position).to(device))
