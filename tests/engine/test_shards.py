"""What batches of a long pass gave: how it is called in a run folder, and when it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.engine import shards
from levelhead.engine.jobs import Copy, Order
from levelhead.engine.memory import Parcel
from levelhead.engine.shards import Shards


def test_what_an_order_is_called_depends_on_its_values_and_not_on_objects_or_processes() -> None:
    def tokens(change: float) -> tuple[Any, ...]:
        array = np.arange(4)
        return (torch.ones(2, 3) * change, array, {"b", "a"}, "part", array)

    def name(value: object) -> bytes:
        written: list[bytes] = []
        shards._Canonical(written.append).dump(value)
        return b"".join(written)

    assert name(tokens(1.0)) == name(tokens(1.0))
    assert name(tokens(1.0)) == name((*tokens(1.0)[:4], np.arange(4)))
    assert name(tokens(1.0)) != name(tokens(2.0))


def order(job: Any) -> Order:
    return Order(Copy("name", {}, "fingerprint"), job, (), 64, ([0, 1], [2]))


def test_what_was_kept_comes_back_bit_for_bit_and_a_damaged_file_does_not(tmp_path: Path) -> None:
    kept = Shards(tmp_path, order(np.arange(3)))
    assert kept.missing() == [0, 1]
    values = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    kept.write(1, [Parcel(0, 2, np.array([4, 5]), values), Parcel(3, 0, np.array([1]), values[:1])])
    again = Shards(tmp_path, order(np.arange(3)))
    assert again.missing() == [0]
    first, second = again.read(1) or []
    assert (first.number, first.variant, first.asks.tolist()) == (0, 2, [4, 5])
    assert first.values.tobytes() == values.tobytes()
    assert (second.number, second.variant, second.values.shape) == (3, 0, (1, 3))
    assert Shards(tmp_path, order(np.arange(4))).missing() == [0, 1]  # another order's
    (file,) = tmp_path.rglob("1.npz")
    file.write_bytes(file.read_bytes()[:-9])
    assert again.read(1) is None


def test_an_order_with_an_edit_that_cannot_be_hashed_is_not_kept(tmp_path: Path) -> None:
    nameless = Shards(tmp_path, order(lambda h: h))
    nameless.write(0, [])
    assert nameless.missing() == [0, 1]
    assert nameless.read(0) is None
    assert list(tmp_path.iterdir()) == []


def test_a_pass_is_long_by_the_pace_of_its_batches_and_not_by_what_came_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([100.0, 100.0, 101.0, 104.0])
    monkeypatch.setattr("levelhead.engine.shards.time.monotonic", lambda: next(clock))
    pace = shards.Pace(20)
    assert [pace.is_long() for _ in range(3)] == [False, False, True]  # 20 batches of 1 s, then of 2 s
