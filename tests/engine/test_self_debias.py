"""Self-Debias: p~(w | x) ∝ α(Δ) p(w | x), by hand and through the engine."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from levelhead.edits.gates import removed
from levelhead.edits.output import SelfDebiased, Symmetrized
from levelhead.edits.sites import Site, Variant
from levelhead.engine.readings import Predictions, SentenceVectors, States, TokenLikelihoods, TokenLogProbs
from levelhead.engine.run import read, read_one
from levelhead.engine.self_debias import debiased, gap
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text, token_id
from levelhead.models.model import Model, load
from levelhead.probes.group_swap import GenderSwap
from tests.tiny import tiny

Doubles = NDArray[np.float64]
PREFIX = "Women work, and men work too:"
EDIT = SelfDebiased((PREFIX,), decay=20.0)
TEXTS = ["The nurse said that she was tired.", "He gave her a book."]


@pytest.fixture(params=["bert", "gpt2"])
def speaker(request: pytest.FixtureRequest) -> Model:
    return tiny(request.param)


def blank(model: Model, text: str) -> str:
    mask = model.tokenizer.mask_token
    return f"{text} {mask} was tired." if mask else text


def whole(model: Model, texts: list[str]) -> Doubles:
    every = TokenLogProbs(texts, range(int(model.config.vocab_size)))
    return np.asarray(read_one(model, every)[0], np.float64)


def by_hand(plain: Doubles, prefixed: Doubles, decay: float) -> Doubles:
    p, q = np.exp(plain), np.exp(prefixed)
    alpha = np.where(p >= q, 1.0, np.maximum(0.01, np.exp(decay * (p - q))))
    return np.asarray(np.log(alpha * p / (alpha * p).sum(axis=-1, keepdims=True)))


def test_three_words_by_hand() -> None:
    plain, prefixed = np.log([0.5, 0.3, 0.2]), np.log([0.2, 0.3, 0.5])
    alpha = np.exp(10 * -0.3)
    expected = np.array([0.5, 0.3, 0.2 * alpha]) / (0.8 + 0.2 * alpha)
    ours = np.exp(debiased(plain, [prefixed], SelfDebiased(("",), decay=10.0)))
    np.testing.assert_allclose(ours, expected, rtol=1e-12)
    floored = np.exp(debiased(plain, [prefixed], SelfDebiased(("",), decay=1000.0)))
    np.testing.assert_allclose(floored[2] / floored[0], 0.01 * 0.2 / 0.5, rtol=1e-12)
    both = np.exp(debiased(plain, [prefixed, plain], SelfDebiased(("", ""), decay=10.0)))
    np.testing.assert_allclose(both, expected, rtol=1e-12)  # the prefix that raises a word most counts


def test_tokens_at_a_blank_are_debiased_by_the_prefix(speaker: Model) -> None:
    texts = [blank(speaker, text) for text in TEXTS]
    behind = [f"{PREFIX}{gap(speaker)}{text}" for text in texts]
    expected = by_hand(whole(speaker, texts), whole(speaker, behind), EDIT.decay)
    tokens = [7, 3, 20]
    reading, likeliest = TokenLogProbs(texts, tokens), Predictions(texts, 4)
    answers = read(speaker, [reading, likeliest], [(), (EDIT,)])
    np.testing.assert_allclose(answers[reading][1], expected[:, tokens], atol=1e-4)
    assert np.abs(answers[reading][1] - answers[reading][0]).max() > 1e-4
    ids = answers[likeliest].ids[1]
    np.testing.assert_allclose(
        np.take_along_axis(expected, ids, axis=1), np.sort(expected, axis=1)[:, :-5:-1], atol=1e-4
    )


def test_likelihoods_are_debiased_token_by_token(speaker: Model) -> None:
    reading = TokenLikelihoods([Text(text) for text in TEXTS])
    answer = read_one(speaker, reading, [(), (EDIT,)])
    row, positions = answer.rows[0], answer.positions[0]
    assert [len(each) for each in answer.values[1]] == [len(each) for each in answer.values[0]]
    last = int(positions[-2])  # the word before the full stop
    start, end = (int(at) for at in row.offsets[last])
    if speaker.tokenizer.mask_token:
        text = TEXTS[0][:start] + speaker.tokenizer.mask_token + TEXTS[0][end:]
    else:
        text = TEXTS[0][:start]
    logs = by_hand(whole(speaker, [text]), whole(speaker, [f"{PREFIX}{gap(speaker)}{text}"]), EDIT.decay)
    assert answer.values[1][0][-2] == pytest.approx(logs[0, int(row.ids[last])], abs=1e-4)


@pytest.mark.slow
def test_a_first_word_that_is_split_otherwise_behind_a_space_is_compared_too() -> None:
    """ "Their" is two tokens at the start of a text of lh:gpt-mini, and one inside."""
    model = load("lh:gpt-mini")
    first, inside = (len(model.tokenizer.tokenize(text)) for text in ("Their", " Their"))
    assert (first, inside) == (2, 1)
    answer = read_one(model, TokenLikelihoods([Text("Their son was late.")]), [(), (EDIT,)])
    assert len(answer.values[1][0]) == len(answer.values[0][0])


def test_a_decay_of_zero_changes_no_bit(speaker: Model) -> None:
    texts = [blank(speaker, text) for text in TEXTS]
    tokens, likelihoods = TokenLogProbs(texts, [5, 6]), TokenLikelihoods(TEXTS)
    nothing = SelfDebiased((PREFIX,), 0.0)
    plain, same = (read(speaker, [tokens, likelihoods], [each]) for each in ((), (nothing,)))
    assert np.array_equal(plain[tokens], same[tokens])
    both = zip(plain[likelihoods].values[0], same[likelihoods].values[0], strict=True)
    assert all(np.array_equal(mine, theirs) for mine, theirs in both)


def test_what_needs_no_vocabulary_is_what_it_was(speaker: Model) -> None:
    vectors = read_one(speaker, SentenceVectors(TEXTS), [(), (EDIT,)])
    assert np.array_equal(vectors[0], vectors[1])
    plain, same = read_one(speaker, States(TEXTS, Site(1, "block")), [(), (EDIT,)])
    assert all(np.array_equal(a, b) for a, b in zip(plain, same, strict=True))


def test_it_stands_beside_other_edits_and_under_symmetrization() -> None:
    model = tiny("bert")
    she, he = (token_id(model, word) for word in ("she", "he"))
    assert she is not None
    assert he is not None
    asked = TokenLogProbs([blank(model, "The nurse was here.")], [she, he])
    variants: list[Variant] = [(*removed(model, [(0, 1)]), EDIT), (EDIT,), (Symmetrized(GenderSwap()), EDIT)]
    gated, alone, both = read_one(model, asked, variants)
    assert not np.allclose(gated, alone)
    assert both[0, 0] == pytest.approx(both[0, 1], abs=1e-5)


def test_what_it_cannot_answer_is_refused_in_one_line() -> None:
    model = tiny("gpt2")
    chat = TokenLogProbs([Text("Hello.", whole=True)], [1])
    with pytest.raises(CannotDo, match="no prefix for a chat"):
        read_one(model, chat, [(EDIT,)])
    with pytest.raises(CannotDo, match="give it as a variant"), model.edited(EDIT):
        pass
    with pytest.raises(CannotDo, match="as a variant"):
        EDIT(torch.zeros(1))
