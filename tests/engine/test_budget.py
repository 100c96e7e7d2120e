"""How large batches are: as told, measured on a card, and noted; a row that does not fit is recomputed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.engine import gradients, memory
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.memory import CPU_TOKENS, GPU_TOKENS, fitting_tokens, known_budget, token_budget
from levelhead.engine.trunk import Trunk, gated_blocks
from levelhead.errors import CannotDo
from levelhead.models.model import Model, load
from levelhead.probes.contexts import template_contexts
from levelhead.runs.folder import Run
from levelhead.runs.study import PLACES
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.placed import note_places, placed
from levelhead.scoring.seat import WordTable, word_table
from levelhead.studies.compare_heads import CompareHeads, CompareHeadsStored
from tests.tiny import tiny
from tests.word_lists import GENDER


@pytest.fixture
def table() -> WordTable:
    return word_table(GENDER, template_contexts(GENDER, 1))


def test_tokens_follow_from_free_memory_and_the_peaks_of_two_probes() -> None:
    """100 bytes a token and 1,000 for any batch: 0.8 x 101,250 = 81,000 bytes hold 800 tokens."""
    assert fitting_tokens(101_250, (1_000 + 64 * 100, 1_000 + 256 * 100), (64, 256)) == 800
    assert fitting_tokens(0, (6_400, 25_600), (64, 256)) == 1
    assert fitting_tokens(10**12, (6_400, 25_600), (64, 256)) == GPU_TOKENS


def test_a_card_is_measured_once_for_each_kind_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    card, probes = torch.device("cuda:0"), list[tuple[str, int]]()
    costs = {"answers": 100, "gradients": 900}

    def peaks(model: Model, work: str, rows: int, length: int, cards: Sequence[torch.device]) -> Any:
        probes.append((work, rows))
        return {card: costs[work] * rows * length}

    model = tiny("bert")
    monkeypatch.setattr(Model, "device", card)
    monkeypatch.setattr(memory, "_probe", lambda *given: None)
    monkeypatch.setattr(memory, "_peaks", peaks)
    monkeypatch.setattr(memory, "free_bytes", lambda card: 900_000)
    assert known_budget(model, "answers") is None
    assert token_budget(model, "answers") == 7_200  # 0.8 x 900,000 / 100
    assert token_budget(model, "gradients") == 800
    token_budget(model, "gradients")
    assert [work for work, _ in probes] == ["answers"] * 2 + ["gradients"] * 2


def test_a_probe_runs_both_kinds_of_work_and_leaves_the_model_as_it_was() -> None:
    model = tiny("llama")
    before = [weight.clone() for weight in model.hf.parameters()]
    for work in memory.KINDS:
        memory._probe(model, work, 2, 8)
    assert all(torch.equal(a, b) for a, b in zip(before, model.hf.parameters(), strict=True))
    assert not model.output_projection(0)._forward_pre_hooks


def test_on_a_cpu_batches_have_the_default_size_and_what_is_told_wins() -> None:
    network = tiny("bert")
    assert token_budget(network, "answers") == CPU_TOKENS
    told = load(network.hf, network.tokenizer, batch_tokens=96)
    assert token_budget(told, "gradients") == 96


@pytest.mark.parametrize("family", ["bert", "llama", "albert"])
def test_blocks_that_run_again_give_the_gradients_of_blocks_that_are_kept(
    family: str, table: WordTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card on which not even one row fits unless blocks run again on the way back."""
    model, objective = tiny(family), word_objective(table).number
    expected = gate_gradients(model, table.static(), objective)
    tried: list[tuple[int, bool]] = []

    def small_card(*given: Any, recompute: bool = False) -> torch.Tensor:
        tried.append((len(given[3][0]), recompute))
        if not recompute:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return gated_blocks(*given, recompute=True)

    monkeypatch.setattr(gradients, "gated_blocks", small_card)
    measured = gate_gradients(model, table.static(), objective)
    np.testing.assert_allclose(measured.scores, expected.scores, atol=1e-6)
    np.testing.assert_allclose(measured.stderr, expected.stderr, atol=1e-6)
    first = tried.index((1, True))  # halved down to one row; longer rows are not tried in vain
    assert {recompute for _, recompute in tried[first:]} == {True}


def test_a_row_that_does_not_fit_in_any_way_says_its_length_and_what_would_help(
    table: WordTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def block(self: Trunk, plan: Any, layer: int, hidden: torch.Tensor, **options: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    model = tiny("bert")
    expected = table.static()
    monkeypatch.setattr(Trunk, "block", block)
    with pytest.raises(
        CannotDo, match=r"one text of \d+ tokens. Shorter texts, --dtype bfloat16, --device-map"
    ):
        gate_gradients(model, expected, word_objective(table).number)


def test_places_and_sizes_of_batches_are_noted_and_earlier_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("bert")
    line = placed(model)
    assert (line.dtype, line.device, line.device_map) == ("float32", "cpu", None)
    assert (line.batch_tokens, line.gradient_tokens) == (CPU_TOKENS, CPU_TOKENS)
    settings = CompareHeadsStored(study="compare_heads", models=("a", "b"), top=3, test="gender")
    with Run.open(tmp_path / "run", CompareHeads, settings) as run:
        model.fitting_tokens["answers"] = 640  # memory ran out at more
        note_places(run, [model])
        before = (run.folder / PLACES.name).read_bytes()
        assert PLACES.read(run.folder)[0].batch_tokens == 640
        model.fitting_tokens.clear()
        monkeypatch.setattr("levelhead.scoring.placed.known_budget", lambda model, work: None)
        note_places(run, [model])  # the part of a run that only reads what is there
        assert (run.folder / PLACES.name).read_bytes() == before
