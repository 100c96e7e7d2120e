"""Asks: every one of them belongs to one row, and a batch picks its own."""

from __future__ import annotations

import numpy as np
import torch

from levelhead.engine.collectors import ClassifiedCollector, asks_by_row, asks_of_batch

CPU = torch.device("cpu")


def collector() -> ClassifiedCollector:
    """Five asks of four rows: row 0 twice, row 1 never."""
    asks = ClassifiedCollector(variants=1)
    for row, position in [(2, 1), (0, 3), (3, 0), (0, 2), (2, 0)]:
        asks.ask(row, position)
    return asks


def test_each_ask_stands_once_under_its_row_in_the_order_of_asking() -> None:
    by_row = asks_by_row(collector(), rows=4)
    assert [numbers.tolist() for numbers in by_row] == [[1, 3], [], [0, 4], [2]]
    assert asks_by_row(ClassifiedCollector(variants=1), rows=0) == []


def test_a_batch_picks_the_vectors_of_its_own_asks() -> None:
    batch = [3, 1, 0]  # rows of the pool, as the batch holds them
    asks = asks_of_batch(collector(), asks_by_row(collector(), rows=4), batch, CPU)
    assert asks.numbers.tolist() == [2, 1, 3]
    assert (asks.row.tolist(), asks.position.tolist()) == ([0, 2, 2], [0, 3, 2])
    h = torch.arange(3 * 4 * 2).view(3, 4, 2)  # [batch, token, hidden]
    assert torch.equal(asks.pick(h), torch.stack([h[0, 0], h[2, 3], h[2, 2]]))


def test_a_batch_without_an_ask_picks_nothing() -> None:
    asks = asks_of_batch(collector(), asks_by_row(collector(), rows=4), [1], CPU)
    assert asks.numbers.dtype == np.int64
    assert asks.pick(torch.zeros(1, 4, 2)).shape == (0, 2)
