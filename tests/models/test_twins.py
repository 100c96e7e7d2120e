"""A twin by token numbers answers as a model whose rows were really exchanged, whatever its family."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import (
    Pooled,
    Predictions,
    Reading,
    TokenLikelihoods,
    TokenLogProbs,
    WordVectors,
)
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, CannotDo
from levelhead.models.encoding import Text, find_word, token_id
from levelhead.models.model import Model
from levelhead.models.sources import Source
from levelhead.models.twins import Twin, draw_twin, twin_copy, twinned
from levelhead.models.vocabulary import token_counts, token_kinds
from tests.tiny import CONFIGS, ENCODERS, tiny

SENTENCES = ("The nurse said that she was tired.", "He gave her a book about grandmothers.")


def exchanged(model: Model, order: torch.Tensor) -> Model:
    """A copy in which every tensor with a row for each token has new rows; such tensors are found by size
    alone."""
    hf = deepcopy(model.hf)
    rows = model.hf.get_input_embeddings().num_embeddings
    for tensor in {id(t): t for t in (*hf.parameters(), *hf.buffers())}.values():
        for axis, size in enumerate(tensor.shape):
            if size == rows:
                tensor.data = tensor.data.index_select(axis, order)
    return Model(Source("exchanged", hf, model.tokenizer, "test", ()))


def readings(model: Model) -> list[Reading[Any]]:
    texts = [Text(sentence) for sentence in SENTENCES]
    spans = [find_word(SENTENCES[0], "nurse"), find_word(SENTENCES[1], "grandmothers")]
    asked: list[Reading[Any]] = [WordVectors(texts, spans)]
    blank = texts
    if "mlm" in model.abilities:
        blank = [Text(f"The nurse and the engineer saw {model.tokenizer.mask_token} in the kitchen.")]
    if model.abilities & {"mlm", "causal"}:
        tokens = [t for t in (token_id(model, w) for w in ("nurse", "she", "the")) if t is not None]
        asked += [TokenLogProbs(blank, [*tokens, 3, 40]), TokenLikelihoods(texts), Predictions(blank, 5)]
    if "nsp" in model.abilities:
        asked.append(Pooled([Text(*SENTENCES)]))
    return asked


def flat(answer: Any) -> np.ndarray[Any, Any]:
    if hasattr(answer, "values"):
        return np.concatenate([part for variant in answer.values for part in variant])
    if hasattr(answer, "ids"):
        return np.concatenate([answer.ids.ravel(), answer.log_probs.ravel()])
    return np.asarray(answer).ravel()


def answers(model: Model) -> list[np.ndarray[Any, Any]]:
    return [flat(read_one(model, reading)) for reading in readings(model)]


def far_apart(first: list[np.ndarray[Any, Any]], second: list[np.ndarray[Any, Any]]) -> bool:
    return all(np.abs(a - b).max() > 1e-3 for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("family", CONFIGS)
def test_a_twin_answers_as_a_copy_with_exchanged_rows(family: str) -> None:
    model = tiny(family, "nsp" if family == "bert" else "mlm")
    plain = answers(model)
    twin = draw_twin(model, 1)
    with twinned(model, twin):
        by_numbers = answers(model)
    by_rows = answers(exchanged(model, torch.from_numpy(twin.order)))
    for a, b in zip(by_numbers, by_rows, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=0)
    assert far_apart(by_numbers, plain)
    for before, after in zip(plain, answers(model), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_twins_of_the_shipped_models_agree_with_exchanged_rows_and_with_their_own_copy(
    name: str, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(name)
    twin = draw_twin(model, 3)
    with twinned(model, twin):
        by_numbers = answers(model)
    by_rows = answers(exchanged(model, torch.from_numpy(twin.order)))
    own = answers(twin_copy(model, twin))
    for a, b, c in zip(by_numbers, by_rows, own, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=0)
        np.testing.assert_array_equal(b, c)


def test_gradients_of_the_gates_are_those_of_the_exchanged_rows() -> None:
    model = tiny("bert")
    twin = draw_twin(model, 2)
    reading = TokenLogProbs([Text("The [MASK] was tired.")], [token_id(model, "nurse") or 7])

    def objective(answer: torch.Tensor) -> torch.Tensor:
        return answer.sum()

    with twinned(model, twin):
        scores = gate_gradients(model, reading, objective).scores
    copied = exchanged(model, torch.from_numpy(twin.order))
    np.testing.assert_allclose(scores, gate_gradients(copied, reading, objective).scores, atol=1e-6)
    assert np.abs(scores - gate_gradients(model, reading, objective).scores).max() > 1e-4


def test_a_twin_of_a_twin_is_a_twin() -> None:
    model = tiny("gpt2")
    first, second = draw_twin(model, 1), draw_twin(model, 2)
    with twinned(model, first), twinned(model, second):
        nested = answers(model)
    with twinned(model, second.after(first)):
        composed = answers(model)
    with twinned(model, first.after(second)):
        other_way_round = answers(model)
    for a, b in zip(nested, composed, strict=True):
        np.testing.assert_array_equal(a, b)
    assert far_apart(nested, other_way_round)


def test_the_twin_is_taken_off_after_an_error() -> None:
    model = tiny("bert")
    before = answers(model)
    with pytest.raises(RuntimeError), twinned(model, draw_twin(model, 1)):
        raise RuntimeError
    for a, b in zip(before, answers(model), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_words_move_within_their_kind_and_everything_else_stays(
    name: str, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(name)
    kinds = token_kinds(model)
    order = draw_twin(model, 5).order
    moved = order != np.arange(len(order))
    assert sorted(order) == list(range(len(order)))
    assert (kinds[order] == kinds).all()
    assert set(kinds[moved]) <= {"word", "Word", "continuation"}
    assert moved[kinds == "word"].mean() > 0.99
    assert not moved[model.tokenizer.all_special_ids].any()


def test_continuations_stay_when_asked_to_and_kept_tokens_always_do(bert: Model) -> None:
    kinds = token_kinds(bert)
    kept = np.flatnonzero(kinds == "word")[:50]
    moved = draw_twin(bert, 5, kept=kept).order != np.arange(len(kinds))
    assert moved[kinds == "continuation"].mean() > 0.99
    order = draw_twin(bert, 5, continuations=False, kept=kept).order
    moved = order != np.arange(len(order))
    assert not moved[kinds == "continuation"].any()
    assert not moved[kept].any()
    assert not np.isin(kept, order[moved]).any()


def test_bands_hold_a_word_among_words_of_its_rank(bert: Model) -> None:
    words = np.flatnonzero(token_kinds(bert) == "word")
    rank = np.zeros(bert.config.vocab_size)
    rank[words] = np.arange(len(words)) / len(words)

    def farthest(bands: int) -> float:
        return float(np.abs(rank[draw_twin(bert, 1, bands=bands).order[words]] - rank[words]).max())

    assert farthest(1) > 0.9
    assert farthest(10) < 0.101


def test_the_same_seed_draws_the_same_twin_and_another_seed_another(bert: Model) -> None:
    np.testing.assert_array_equal(draw_twin(bert, 1).order, draw_twin(bert, 1).order)
    assert (draw_twin(bert, 1).order != draw_twin(bert, 2).order).mean() > 0.5


def test_a_twin_of_another_vocabulary_and_wrong_settings_are_refused(bert: Model) -> None:
    with pytest.raises(BadOption, match="has 16384"), twinned(bert, Twin(0, np.arange(7))):
        pass
    with pytest.raises(BadOption, match="bands=0"):
        draw_twin(bert, 0, bands=0)
    with pytest.raises(CannotDo, match="no twin"):
        draw_twin(bert, 0, kept=np.arange(bert.config.vocab_size))


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2"])
def test_kinds_of_tokens_follow_the_tokenizers_own_marks(family: str) -> None:
    model = tiny(family)
    kinds = token_kinds(model)
    number = model.tokenizer.backend_tokenizer.token_to_id
    before = {"bert": "", "albert": "▁", "gpt2": "Ġ"}[family]
    assert kinds[number(f"{before}nurse")] == "word"
    assert kinds[token_id(model, "a")] == "other"
    assert set(kinds[model.tokenizer.all_special_ids]) == {"other"}
    assert family in ENCODERS or kinds[number("The")] == "continuation"


def test_continuations_that_continue_a_word_are_told_from_words(bert: Model) -> None:
    kinds, number = token_kinds(bert), bert.tokenizer.convert_tokens_to_ids
    continuations = [
        token for token in bert.tokenizer.get_vocab() if token.startswith("##") and len(token) > 3
    ]
    assert {kinds[number(token)] for token in continuations if token[2:].isalpha()} == {"continuation"}


def test_token_counts_are_those_of_words_inside_a_text(bert: Model) -> None:
    counts = token_counts(bert, ["nurse", "headmistress", "he"])
    assert counts["nurse"] == counts["he"] == 1
    assert counts["headmistress"] == len(bert.tokenizer.tokenize("headmistress")) > 1
