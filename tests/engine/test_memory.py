"""Batches for which memory runs out: the work goes on in halves, with the answers of small batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head
from levelhead.engine.collectors import StateCollector
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.memory import Handed, Packed
from levelhead.engine.readings import StaticVectors, TokenLikelihoods, WordVectors
from levelhead.engine.run import read
from levelhead.engine.trunk import Trunk
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import WordTable, word_table
from tests.tiny import tiny
from tests.word_lists import GENDER

Block = Callable[..., Any]


@pytest.fixture
def table() -> WordTable:
    return word_table(GENDER, template_contexts(GENDER, 2))


def small_card(monkeypatch: pytest.MonkeyPatch, tokens: int, calls: list[int], late: int = 0) -> None:
    """A card on which a block has room for so many tokens; `late`: only from that call on."""
    whole: Block = Trunk.block

    def block(self: Trunk, plan: Any, layer: int, hidden: torch.Tensor, **options: Any) -> torch.Tensor:
        size = hidden.shape[0] * hidden.shape[1]
        calls.append(size)
        if size > tokens and len(calls) > late:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return torch.as_tensor(whole(self, plan, layer, hidden, **options))

    monkeypatch.setattr(Trunk, "block", block)


def answers(model: Model, table: WordTable) -> list[Any]:
    """Sums, plain vectors and likelihoods, untouched and without a head."""
    readings: list[Any] = [
        table.static(),
        table.each(),
        TokenLikelihoods([Text(context.text) for context in table.contexts[:6]]),
    ]
    variants = [(), removed(model, [Head(1, 0)]), removed(model, [Head(0, 1)])]
    collected = read(model, readings, variants)
    likelihoods = [np.concatenate(each) for each in collected[readings[2]].values]
    return [collected[readings[0]], collected[readings[1]], np.array(likelihoods)]


@pytest.mark.parametrize("late", [0, 3, 4])  # later some variants of a batch have their answers already
def test_answers_after_memory_ran_out_are_those_of_small_batches(
    monkeypatch: pytest.MonkeyPatch, table: WordTable, late: int
) -> None:
    model, calls = tiny("bert"), list[int]()
    expected = answers(model, table)
    small_card(monkeypatch, 500, calls, late)
    for own, other in zip(answers(model, table), expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-6)
    assert max(calls) > 500  # it was tried
    limit = model.fitting_tokens["answers"]
    assert 0 < limit <= 500
    calls.clear()
    answers(model, table)
    assert max(calls) <= limit  # later work does not try again what did not fit


def test_gradients_after_memory_ran_out_are_those_of_small_batches(
    monkeypatch: pytest.MonkeyPatch, table: WordTable
) -> None:
    model, calls = tiny("gpt2"), list[int]()
    expected = gate_gradients(model, table.static(), word_objective(table).number)
    small_card(monkeypatch, 60, calls)
    measured = gate_gradients(model, table.static(), word_objective(table).number)
    np.testing.assert_allclose(measured.scores, expected.scores, atol=1e-6)
    np.testing.assert_allclose(measured.stderr, expected.stderr, atol=1e-6)
    assert set(model.fitting_tokens) == {"answers", "gradients"}


def test_one_text_that_does_not_fit_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, table: WordTable
) -> None:
    small_card(monkeypatch, 1, [])
    with pytest.raises(CannotDo, match=r"memory runs out at one text of \d+ tokens"):
        read(tiny("bert"), [WordVectors([Text("The nurse is here.")], [(4, 9)])])


def test_a_full_cpu_is_met_in_the_same_way_and_other_errors_are_not(
    monkeypatch: pytest.MonkeyPatch, table: WordTable
) -> None:
    model, whole = tiny("bert"), Trunk.block
    messages = [
        "DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes",
        "shapes do not match",
    ]

    def block(self: Trunk, *given: Any, **options: Any) -> Any:
        if messages:
            raise RuntimeError(messages.pop(0))
        return whole(self, *given, **options)

    monkeypatch.setattr(Trunk, "block", block)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        read(model, [table.static()])
    assert model.fitting_tokens["answers"] > 0
    read(model, [StaticVectors([Text("a nurse")], [(2, 7)], [0])])


def test_states_of_a_model_in_bfloat16_come_as_float32_here_and_from_another_process() -> None:
    """They travel as they were computed; numpy knows no bfloat16."""
    values = torch.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=torch.bfloat16)
    collector, asks = StateCollector(1, 1), np.array([0, 1])
    for position in (0, 1):
        collector.ask(0, position, 0)
    handed, packed = Handed(), Packed(collectors=[collector])
    handed.take(collector, 0, asks, values)
    ((states,),) = collector.answer()
    packed.take(collector, 0, asks, values)
    (parcel,) = packed.parcels
    for kept in (states, parcel.values):
        assert kept.dtype == np.float32
        np.testing.assert_array_equal(kept, [[1.5, -2.0], [0.25, 3.0]])
