"""Gate gradients: one big graph, many batches, standard errors, memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from levelhead.edits.gates import gates
from levelhead.engine.gradients import gate_gradients, several_gate_gradients
from levelhead.engine.readings import StaticVectors, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text, encode, find_word
from levelhead.models.hooks import on_heads
from levelhead.models.model import Model
from tests.tiny import tiny

FILLS = ["tired", "happy", "late", "early", "ready", "sorry", "glad", "hungry", "quiet", "busy"]
WORDS = ["nurse", "engineer", "teacher", "women"]
Doubles = npt.NDArray[np.float64]


def contexts(n: int) -> StaticVectors:
    """n sentences, each with one of the words in it."""
    texts, spans, word = [], [], []
    for i in range(n):
        number = i % len(WORDS)
        fills = " and ".join(FILLS[(i // k) % len(FILLS)] for k in range(4, 5 + i % 3))
        text = f"He said that the {WORDS[number]} was {fills}."
        texts.append(Text(text))
        spans.append(find_word(text, WORDS[number]))
        word.append(number)
    return StaticVectors(texts, spans, word)


def chosen(reading: StaticVectors, numbers: Sequence[int]) -> StaticVectors:
    """The same reading of some of its sentences."""
    return StaticVectors(
        [reading.texts[i] for i in numbers],
        [reading.spans[i] for i in numbers],
        [reading.word[i] for i in numbers],
    )


def objective(vectors: Tensor) -> Tensor:
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    return (unit[0] @ unit[2] - unit[1] @ unit[3]).abs() + unit[0] @ unit[1]


def one_graph(model: Model, reading: StaticVectors) -> Doubles:
    """All contexts in one padded batch, one graph, the model's own forward pass."""
    mask = torch.ones(model.layers, model.heads, requires_grad=True, dtype=torch.float64)

    def times(gates: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda h: h * gates[:, None].to(h)

    handles = [
        model.output_projection(layer).register_forward_pre_hook(on_heads(model, times(mask[layer])))
        for layer in range(model.layers)
    ]
    texts = [Text.of(text).first for text in reading.texts]
    inputs = dict(model.tokenizer(texts, return_tensors="pt", padding=True, padding_side="right"))
    first = torch.tensor([list(model.opening.tokens or ())] * len(texts), dtype=torch.long)
    if first.numel():  # the tokens that open texts
        inputs = {
            name: torch.cat([first if name == "input_ids" else torch.ones_like(first), value], dim=1)
            for name, value in inputs.items()
        }
    hidden = model.base(**inputs).last_hidden_state.double()
    rows = encode(model, reading.texts)
    each = [
        hidden[i, row.tokens_of(span)].mean(0)
        for i, (row, span) in enumerate(zip(rows, reading.spans, strict=True))
    ]
    vectors = [
        torch.stack([v for v, k in zip(each, reading.word, strict=True) if k == w]).mean(0)
        for w in range(len(WORDS))
    ]
    (gradient,) = torch.autograd.grad(objective(torch.stack(vectors)), mask)
    for handle in handles:
        handle.remove()
    return np.asarray(gradient)


@pytest.mark.parametrize("n", [4, 300])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_gradients_over_many_batches_equal_one_big_graph(family: str, n: int) -> None:
    model = tiny(family)
    ours = gate_gradients(model, contexts(n), objective, batch_tokens=100)
    reference = one_graph(model, contexts(n))
    np.testing.assert_allclose(ours.scores, reference, rtol=1e-4, atol=1e-4 * np.abs(reference).max())
    assert ours.n == n


def test_with_one_context_a_word_the_gradients_are_exact_and_have_no_standard_error() -> None:
    model = tiny("bert")
    two = contexts(2)
    reading = StaticVectors([*two.texts, *two.texts], [*two.spans, *two.spans], [0, 1, 2, 3])  # a text twice
    ours = gate_gradients(model, reading, objective)
    reference = one_graph(model, reading)
    np.testing.assert_allclose(ours.scores, reference, rtol=1e-4, atol=1e-4 * np.abs(reference).max())
    assert ours.n == 2  # words 2 and 3 lie on words 0 and 1, where their cosine is flat up to rounding
    assert np.isnan(ours.stderr).all()  # no spread to learn from


def test_which_words_an_objective_depends_on_does_not_hang_on_the_last_bit() -> None:
    model, eight = tiny("bert"), contexts(8)

    def besides(slope: float) -> Callable[[Tensor], Tensor]:
        return lambda v: v[0].square().sum() + slope * v[1].square().sum()

    exact, rounded = (gate_gradients(model, eight, besides(slope)) for slope in (0.0, 1e-9))
    assert exact.n == rounded.n == 2  # of four words with two contexts each
    np.testing.assert_allclose(exact.scores, rounded.scores, rtol=1e-5)
    np.testing.assert_allclose(exact.stderr, rounded.stderr, rtol=1e-5)
    assert gate_gradients(model, eight, besides(1e-3)).n == 4


def by_hand(model: Model, reading: StaticVectors) -> tuple[list[Doubles], Doubles]:
    """Of each word: <g, dv_c/dm> of its contexts c, one model run each, [context, layer, head]; and |g|².

    g = dJ/dv.
    """
    vectors = torch.from_numpy(read_one(model, reading)[0]).requires_grad_()
    (cotangent,) = torch.autograd.grad(objective(vectors), vectors)

    def along(g: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda v: (v[0] * g).sum()

    by_word: list[list[Doubles]] = [[] for _ in WORDS]
    for text, span, w in zip(reading.texts, reading.spans, reading.word, strict=True):
        alone = gate_gradients(model, StaticVectors([text], [span], [0]), along(cotangent[w]))
        by_word[w].append(alone.scores)
    return [np.stack(own) for own in by_word], cotangent.square().sum(-1).numpy()


def test_standard_errors_equal_the_stratified_formula_by_hand() -> None:
    model = tiny("bert")
    whole = gate_gradients(model, contexts(40), objective)
    by_word, _ = by_hand(model, contexts(40))
    expected = np.sqrt(sum(own.var(0, ddof=1) / len(own) for own in by_word))
    np.testing.assert_allclose(whole.stderr, expected, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(whole.scores, sum(own.mean(0) for own in by_word), rtol=1e-4, atol=1e-6)


def test_a_word_with_one_context_has_the_pooled_variance_of_the_others_times_its_squared_cotangent() -> None:
    model = tiny("bert")
    many = contexts(40)
    reading = chosen(many, [i for i, w in enumerate(many.word) if i // len(WORDS) < (10, 5, 2, 1)[w]])
    whole = gate_gradients(model, reading, objective)
    by_word, steep = by_hand(model, reading)
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
    eight = contexts(8)
    reading = StaticVectors(eight.texts, eight.spans, [0, 0, 0, 0, 0, 0, 0, 1])
    assert np.isnan(gate_gradients(tiny("bert"), reading, lambda v: v[1].square().sum()).stderr).all()
    assert np.isfinite(gate_gradients(tiny("bert"), reading, lambda v: v.square().sum()).stderr).all()


def test_several_objectives_of_one_answer_have_the_gradients_of_each_alone() -> None:
    model, reading = tiny("bert"), contexts(12)

    def length(rows: list[int]) -> Callable[[Tensor], Tensor]:
        return lambda vectors: vectors[rows].square().sum().sqrt()

    objectives = [length([0, 1]), length([2, 3]), objective]  # two on different words, and one on all
    together = several_gate_gradients(model, reading, objectives)
    for ours, alone in zip(
        together, (gate_gradients(model, reading, each) for each in objectives), strict=True
    ):
        assert ours.objective == pytest.approx(alone.objective)
        np.testing.assert_allclose(ours.scores, alone.scores, atol=1e-9)
        np.testing.assert_allclose(ours.stderr, alone.stderr, atol=1e-9)
    assert together[0].n + together[1].n == together[2].n


def test_objectives_on_different_rows_are_pushed_back_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model, reading, ways, backward = tiny("bert"), contexts(8), list[bool](), torch.autograd.grad

    def counted(outputs: Tensor, inputs: Any, **options: Any) -> Any:
        ways.append(isinstance(inputs, list))  # of gates
        return backward(outputs, inputs, **options)

    def first(vectors: Tensor) -> Tensor:
        return vectors[:2].square().sum()

    def second(vectors: Tensor) -> Tensor:
        return vectors[2:].square().sum()

    monkeypatch.setattr(torch.autograd, "grad", counted)
    several_gate_gradients(model, reading, [first, second], batch_tokens=10_000)
    assert sum(ways) == 1
    several_gate_gradients(model, reading, [first, first], batch_tokens=10_000)
    assert sum(ways) == 3


def test_objectives_of_token_log_probs_have_gate_gradients_too() -> None:
    model = tiny("bert")
    texts = [Text(f"The nurse said that [MASK] was {fill}.") for fill in FILLS]
    reading = TokenLogProbs(texts, [7, 11])

    def gap(log_probs: Tensor) -> Tensor:
        return (log_probs[:, 0] - log_probs[:, 1]).sum()

    model.hf.double()
    scores = gate_gradients(model, reading, gap).scores
    variants = [gates(model, {(1, 2): 1 + e}) for e in (1e-2, -1e-2)]
    up, down = (float(gap(torch.from_numpy(a))) for a in read_one(model, reading, variants))
    assert scores[1, 2] == pytest.approx((up - down) / 2e-2, rel=1e-2)


def test_an_objective_without_a_finite_gradient_is_refused() -> None:
    with pytest.raises(CannotDo, match="no finite gradient"):
        gate_gradients(tiny("bert"), contexts(4), lambda v: (v * 0).sum().sqrt())


MEMORY = """
import resource, sys
sys.path.insert(0, {root!r})
from tests.engine.test_gradients import contexts, objective
from tests.tiny import tiny
from levelhead.engine.gradients import gate_gradients
model = tiny("bert", layers=2)
for n in map(int, sys.argv[1:]):
    gate_gradients(model, contexts(n), objective)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("few", ["300", "3000"])
def test_peak_memory_for_ten_times_as_many_contexts_is_within_a_tenth(few: str) -> None:
    script = MEMORY.format(root=str(Path(__file__).resolve().parents[2]))
    command = [sys.executable, "-c", script, few, f"{few}0"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    of_few, of_many = map(int, printed.split())
    assert of_many < 1.1 * of_few


def test_a_network_that_passes_no_gradients_on_is_refused_not_scored_as_zero() -> None:
    """As bitsandbytes on a CPU."""
    model = tiny("llama")
    handle = model.output_projection(0).register_forward_hook(lambda _, args, out: out.detach())
    try:
        with pytest.raises(CannotDo, match=r"passes no gradients on to its gates here\. Load it in floats"):
            gate_gradients(model, contexts(4), objective)
    finally:
        handle.remove()
