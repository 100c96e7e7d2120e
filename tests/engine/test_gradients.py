"""Gate gradients: one big graph, many batches, standard errors, memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from levelhead.edits.gates import gates
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import StaticVectors, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text, encode, find_word
from levelhead.models.hooks import on_heads
from levelhead.models.model import Model
from tests.tiny import tiny

FILLS = ["tired", "happy", "late", "early", "ready", "sorry", "glad", "hungry", "quiet", "busy"]
WORDS = ["nurse", "engineer", "teacher", "women"]


def contexts(n: int) -> tuple[list[Text], list[tuple[int, int]], list[int]]:
    texts, spans, word = [], [], []
    for i in range(n):
        number = i % len(WORDS)
        fills = " and ".join(FILLS[(i // k) % len(FILLS)] for k in range(4, 5 + i % 3))
        text = f"He said that the {WORDS[number]} was {fills}."
        texts.append(Text(text))
        spans.append(find_word(text, WORDS[number]))
        word.append(number)
    return texts, spans, word


def objective(vectors: torch.Tensor) -> torch.Tensor:
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    return (unit[0] @ unit[2] - unit[1] @ unit[3]).abs() + unit[0] @ unit[1]


def one_graph(model: Model, texts: list[Text], spans: list[tuple[int, int]], word: list[int]) -> np.ndarray:
    """All contexts in one padded batch, one graph, the model's own forward pass."""
    mask = torch.ones(model.layers, model.heads, requires_grad=True, dtype=torch.float64)
    handles = [
        model.output_projection(layer).register_forward_pre_hook(
            on_heads(model, lambda h, layer=layer: h * mask[layer][:, None].to(h))  # type: ignore[misc]
        )
        for layer in range(model.layers)
    ]
    inputs = model.tokenizer(
        [t.first for t in texts], return_tensors="pt", padding=True, padding_side="right"
    )
    hidden = model.base(**inputs).last_hidden_state.double()
    rows = list(encode(model, texts))
    each = [hidden[i, row.pieces(spans[i])].mean(0) for i, row in enumerate(rows)]
    vectors = [
        torch.stack([v for v, k in zip(each, word, strict=True) if k == w]).mean(0) for w in range(len(WORDS))
    ]
    objective(torch.stack(vectors)).backward()  # type: ignore[no-untyped-call]
    for handle in handles:
        handle.remove()
    assert mask.grad is not None
    return mask.grad.numpy()


@pytest.mark.parametrize("n", [4, 3000])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_gradients_over_many_batches_equal_one_big_graph(family: str, n: int) -> None:
    model = tiny(family)
    texts, spans, word = contexts(n)
    ours = gate_gradients(model, StaticVectors(texts, spans, word), objective, batch_tokens=500)
    reference = one_graph(model, texts, spans, word)
    np.testing.assert_allclose(ours.scores, reference, rtol=1e-4, atol=1e-4 * np.abs(reference).max())
    assert ours.n == n


def test_three_contexts_equal_one_big_graph_to_the_same_tolerance() -> None:
    model = tiny("bert")
    texts, spans, word = contexts(4)
    texts, spans, word = [*texts[:2], *texts[:2]], [*spans[:2], *spans[:2]], [0, 1, 2, 3]
    ours = gate_gradients(model, StaticVectors(texts, spans, word), objective)
    reference = one_graph(model, texts, spans, word)
    np.testing.assert_allclose(ours.scores, reference, rtol=1e-4, atol=1e-4 * np.abs(reference).max())
    assert np.isnan(ours.stderr).all()  # one context a word: no spread to learn from


def by_hand(
    model: Model, texts: list[Text], spans: list[tuple[int, int]], word: list[int]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Of each word: <g, dv_c/dm> of its contexts c, one model run each, [context, layer, head]; and |g|², g =
    dJ/dv."""
    vectors = torch.from_numpy(read_one(model, StaticVectors(texts, spans, word))[0]).requires_grad_()
    (cotangent,) = torch.autograd.grad(objective(vectors), vectors)
    alone = [
        gate_gradients(model, StaticVectors([t], [s], [0]), lambda v, w=w: (v[0] * cotangent[w]).sum()).scores  # type: ignore[misc]
        for t, s, w in zip(texts, spans, word, strict=True)
    ]
    by_word = [np.stack([a for a, w in zip(alone, word, strict=True) if w == k]) for k in range(len(WORDS))]
    return by_word, cotangent.square().sum(-1).numpy()


def test_standard_errors_equal_the_stratified_formula_by_hand() -> None:
    model = tiny("bert")
    texts, spans, word = contexts(40)
    whole = gate_gradients(model, StaticVectors(texts, spans, word), objective)
    by_word, _ = by_hand(model, texts, spans, word)
    expected = np.sqrt(sum(own.var(0, ddof=1) / len(own) for own in by_word))
    np.testing.assert_allclose(whole.stderr, expected, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(whole.scores, sum(own.mean(0) for own in by_word), rtol=1e-4, atol=1e-6)


def test_a_word_with_one_context_has_the_pooled_variance_of_the_others_in_proportion_to_its_cotangent() -> (
    None
):
    model = tiny("bert")
    many = contexts(40)
    kept = [i for i, w in enumerate(many[2]) if i // len(WORDS) < (10, 5, 2, 1)[w]]
    texts, spans, word = ([part[i] for i in kept] for part in many)
    whole = gate_gradients(model, StaticVectors(texts, spans, word), objective)
    by_word, steep = by_hand(model, texts, spans, word)
    *several, single = by_word
    assert [len(own) for own in by_word] == [10, 5, 2, 1]
    certain = sum(own.var(0, ddof=1) / len(own) for own in several)
    squares = sum(((own - own.mean(0)) ** 2).sum(0) for own in several)
    pooled = steep[3] * squares / (9 * steep[0] + 4 * steep[1] + 1 * steep[2])
    np.testing.assert_allclose(whole.stderr, np.sqrt(certain + pooled), rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(
        whole.scores, sum(own.mean(0) for own in several) + single[0], rtol=1e-4, atol=1e-6
    )
    assert (whole.stderr > 1.05 * np.sqrt(certain)).all()  # what it was when one context counted as certain


def test_words_without_influence_lend_no_certainty_to_a_word_with_one_context() -> None:
    texts, spans, word = contexts(8)
    word = [0, 0, 0, 0, 0, 0, 0, 1]
    reading = StaticVectors(texts, spans, word)
    assert np.isnan(gate_gradients(tiny("bert"), reading, lambda v: v[1].square().sum()).stderr).all()
    assert np.isfinite(gate_gradients(tiny("bert"), reading, lambda v: v.square().sum()).stderr).all()


def test_objectives_of_token_log_probs_have_gate_gradients_too() -> None:
    model = tiny("bert")
    texts = [Text(f"The nurse said that [MASK] was {fill}.") for fill in FILLS]
    reading = TokenLogProbs(texts, [7, 11])

    def gap(log_probs: torch.Tensor) -> torch.Tensor:
        return (log_probs[:, 0] - log_probs[:, 1]).sum()

    model.hf.double()
    found = gate_gradients(model, reading, gap)
    variants = [gates(model, {(1, 2): 1 + e}) for e in (1e-2, -1e-2)]
    up, down = (float(gap(torch.from_numpy(a))) for a in read_one(model, reading, variants))
    assert found.scores[1, 2] == pytest.approx((up - down) / 2e-2, rel=1e-2)


def test_an_objective_without_a_finite_gradient_is_refused() -> None:
    texts, spans, word = contexts(4)
    with pytest.raises(CannotDo, match="no finite gradient"):
        gate_gradients(tiny("bert"), StaticVectors(texts, spans, word), lambda v: (v * 0).sum().sqrt())


MEMORY = """
import resource, sys
sys.path.insert(0, {root!r})
from tests.engine.test_gradients import contexts, objective
from tests.tiny import tiny
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import StaticVectors
model = tiny("bert")
gate_gradients(model, StaticVectors(*contexts(int(sys.argv[1]))), objective)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_peak_memory_for_30000_contexts_is_within_a_tenth_of_3000() -> None:
    script = MEMORY.format(root=str(Path(__file__).resolve().parents[2]))
    peak = [
        int(
            subprocess.run(
                [sys.executable, "-c", script, str(n)], capture_output=True, text=True, check=True
            ).stdout
        )
        for n in (3_000, 30_000)
    ]
    assert peak[1] < 1.1 * peak[0]
