"""Heads count from 0 in code and from 1 on paper; gates multiply one head each."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from levelhead.edits.gates import HeadGates, all_heads, gates, removed
from levelhead.edits.sites import Head, Site
from levelhead.errors import BadOption


@dataclass
class Shape:
    """What gates need to know of a model."""

    name: str = "small"
    layers: int = 2
    heads: int = 3


def test_a_head_is_written_from_one_and_read_back() -> None:
    assert str(Head(7, 5)) == "8-6"
    assert [Head.parse(str(head)) for head in all_heads(Shape())] == all_heads(Shape())
    assert Head.parse(" 8 - 6 ") == Head(7, 5) == (7, 5)


@pytest.mark.parametrize("text", ["", "8", "0-1", "1-0", "8-6-1", "-1-2", "a-b", "8.0-6", "1-1234567"])
def test_what_is_no_head_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadOption, match=r"is no head\. Write layer-head[^\n]*$"):
        Head.parse(text)


def test_gates_are_one_edit_a_layer_and_leave_the_other_heads_at_one() -> None:
    assert gates(Shape(), {(1, 2): 0.5, (0, 0): 0.0, (1, 0): 2.0}) == (
        HeadGates(0, (0.0, 1.0, 1.0)),
        HeadGates(1, (2.0, 1.0, 0.5)),
    )
    assert removed(Shape(), [(1, 1)]) == (HeadGates(1, (1.0, 0.0, 1.0)),)
    assert gates(Shape(), {}) == ()


def test_a_gate_multiplies_its_own_head_and_no_other_and_writes_nothing_in_place() -> None:
    h = torch.randn(2, 5, 3, 4, generator=torch.Generator().manual_seed(0))
    before = h.clone()
    edit = HeadGates(1, (1.0, 0.0, -2.0))
    out = edit(h)
    assert edit.site == Site(1, "heads")
    assert torch.equal(out[:, :, 0], h[:, :, 0])
    assert not out[:, :, 1].any()
    assert torch.equal(out[:, :, 2], -2 * h[:, :, 2])
    assert torch.equal(h, before)


@pytest.mark.parametrize("head", [(2, 0), (0, 3), (-1, 0), (0, -1)])
def test_a_head_that_the_model_does_not_have_is_refused_with_those_that_it_has(head: tuple[int, int]) -> None:
    with pytest.raises(BadOption, match="small has heads 1-1 to 2-3"):
        removed(Shape(), [head])
