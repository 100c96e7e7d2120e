"""What batches of a long pass are called in a run folder."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from levelhead.engine import shards


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
