"""Likelihoods of parts of texts: sums of token likelihoods, gradients, symmetrized, without meaning."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from levelhead.edits.gates import gates
from levelhead.edits.output import Symmetrized
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import SpanLikelihoods, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe
from levelhead.models.encoding import encode
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model
from levelhead.probes.group_swap import RowSwap
from tests.tiny import CONFIGS, tiny

TEXTS = [
    "The nurse said that she was tired.",
    "The engineer said that she was tired.",
    "He gave her a book.",
    "Women work.",
]
SCORED = [None, [2, 3, 5], [1], []]


def summed(model: Model, scored: bool) -> list[float]:
    """Token likelihoods, added up by hand."""
    scores = read_one(model, TokenLikelihoods(TEXTS))
    sums = []
    for values, positions, asked in zip(scores.values[0], scores.positions, SCORED, strict=True):
        chosen = np.ones(len(values), bool) if asked is None or not scored else np.isin(positions, asked)
        sums.append(float(values[chosen].sum(dtype=np.float64)))
    return sums


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama"])
def test_they_are_sums_of_token_likelihoods(family: str) -> None:
    model = tiny(family)
    for scored in (False, True):
        (ours,) = read_one(model, SpanLikelihoods(TEXTS, SCORED if scored else None))
        assert ours.dtype == np.float64
        np.testing.assert_allclose(ours, summed(model, scored), rtol=1e-5)
    assert ours[3] == 0.0


@pytest.mark.parametrize("family", list(CONFIGS))
def test_their_gradients_are_finite_differences_in_every_family(family: str) -> None:
    model = tiny(family)
    reading = SpanLikelihoods(TEXTS[:2], [None, [1, 3]])

    def gap(sums: Tensor) -> Tensor:
        return sums[0] - 0.5 * sums[1]

    scores = gate_gradients(model, reading, gap).scores
    head = np.unravel_index(np.abs(scores).argmax(), scores.shape)
    step = 1e-2
    variants = [gates(model, {(int(head[0]), int(head[1])): 1 + e}) for e in (step, -step)]
    up, down = (float(gap(torch.from_numpy(a))) for a in read_one(model, reading, variants))
    assert scores[head] == pytest.approx((up - down) / (2 * step), rel=3e-2, abs=2e-3)


def test_standard_errors_come_from_the_spread_of_items_and_not_of_rows() -> None:
    model = tiny("bert")
    texts = [*TEXTS, *TEXTS[:2]]
    items = [0, 0, 1, 1, 2, 2]
    signs = torch.tensor([1.0, -1.0] * 3, dtype=torch.float64)
    together = gate_gradients(model, SpanLikelihoods(texts, items=items), lambda sums: signs @ sums)
    alone = [
        gate_gradients(model, SpanLikelihoods(texts[i : i + 2]), lambda sums: sums[0] - sums[1]).scores
        for i in (0, 2, 4)
    ]
    np.testing.assert_allclose(together.scores, np.sum(alone, axis=0), rtol=1e-4, atol=1e-6)
    expected = np.sqrt(3) * np.std(alone, axis=0, ddof=1)
    np.testing.assert_allclose(together.stderr, expected, rtol=1e-3, atol=1e-6)
    assert together.n == 3


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_gap_between_a_text_and_its_counterfactual_is_none_under_symmetrization(family: str) -> None:
    model = tiny(family)
    variants = [(), (Symmetrized(RowSwap("gender", (("she", "he"),))),)]
    texts = ["The nurse said that she was tired.", "The nurse said that he was tired."]
    plain, mixed = read_one(model, SpanLikelihoods(texts), variants)
    assert mixed[0] == pytest.approx(mixed[1], abs=2e-5)
    assert abs(plain[0] - plain[1]) > 1e-3
    tokens = read_one(model, TokenLikelihoods(texts), variants[1:]).values[0]
    assert mixed == pytest.approx([float(v.sum()) for v in tokens], rel=1e-5)


def test_null_models_have_other_likelihoods() -> None:
    model = tiny("bert")
    reading = SpanLikelihoods(TEXTS, SCORED)
    plain = read_one(model, reading)
    with as_null_model(model, draw_null_model(model, 0)):
        assert not np.allclose(read_one(model, reading)[0, :2], plain[0, :2])
    assert np.array_equal(read_one(model, reading), plain)


def test_a_position_outside_the_row_and_lists_of_other_lengths_are_refused() -> None:
    model = tiny("bert")
    length = len(next(encode(model, TEXTS[:1])).ids)
    with pytest.raises(BadProbe, match=f"in a row of {length}"):
        read_one(model, SpanLikelihoods(TEXTS[:1], [[length]]))
    with pytest.raises(BadProbe, match="scored must be as many as texts, 4"):
        read_one(model, SpanLikelihoods(TEXTS, [None]))
