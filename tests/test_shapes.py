"""What large models need, from configurations alone: against published counts and what a 7B model took."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.shapes import SHAPES, Machine, needs, table

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("7B (Llama 2)", 6_738_415_616),
        ("13B (Llama 2)", 13_015_864_320),
        ("70B (Llama 2)", 68_976_648_192),
        ("405B (Llama 3.1)", 405_853_388_800),
    ],
)
def test_parameters_are_those_of_the_published_checkpoints(name: str, parameters: int) -> None:
    assert needs(SHAPES[name], Machine()).parameters == parameters


def test_what_a_7b_model_took_on_a_card_is_within_a_quarter_of_what_is_computed() -> None:
    computed = needs(SHAPES["7B (Llama 2)"], Machine(card=141))
    measured = (
        22.6 + 28.5
    ) / 2  # docs/results/speed.md: scores of all heads on all contexts, loading included
    text = (ROOT / "docs/results/speed.md").read_text(encoding="utf-8")
    assert "| scores of all heads on all contexts, loading included | 22.6 to 28.5 s |" in text
    assert computed.scores + computed.reading == pytest.approx(measured, rel=0.25)
    assert computed.cards == 1
    assert computed.weights == pytest.approx(13.5e9, rel=0.01)  # what is loaded there


def test_what_a_driver_without_weights_took_is_within_a_quarter_of_what_is_computed() -> None:
    sizes = {"hidden_size": 2048, "intermediate_size": 5504, "num_hidden_layers": 8}
    heads = {"num_attention_heads": 16, "num_key_value_heads": 16}
    computed = needs({**SHAPES["7B (Llama 2)"], **sizes, **heads}, Machine())
    assert computed.parameters == 535_857_152
    assert computed.driver == pytest.approx(1.24, rel=0.25)  # its peak while it loads; 1.0 GiB of weights


def test_a_worker_gets_as_many_cards_as_hold_its_weights_and_a_batch() -> None:
    shape = SHAPES["70B (Llama 2)"]
    assert [needs(shape, Machine(card=card)).cards for card in (141.0, 80.0, 48.0)] == [2, 2, 4]
    text = (ROOT / "docs/results/speed.md").read_text(encoding="utf-8")
    assert "2 cards of 80 GB or of 141 GB (one has 3 GB left for a batch), or 4 of 48 GB" in text
    assert round(141 - needs(shape, Machine()).weights / 1e9) == 3
    assert f"| memory of the driver | {needs(shape, Machine()).driver:.1f} GiB" in text


def test_the_table_of_the_guide_is_what_its_command_prints() -> None:
    assert table(SHAPES, Machine()) in (ROOT / "docs/scale.md").read_text(encoding="utf-8")
