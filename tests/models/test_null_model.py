"""A null model by token numbers answers as a model whose rows were really exchanged, whatever its family."""

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
from levelhead.models.encoding import Text, find_word, token_counts, token_id, token_kinds
from levelhead.models.model import Model
from levelhead.models.null_model import NullModel, as_null_model, draw_null_model, null_model_copy
from levelhead.models.sources import Source
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
def test_a_null_model_answers_as_a_copy_with_exchanged_rows(family: str) -> None:
    model = tiny(family, "nsp" if family == "bert" else "mlm")
    plain = answers(model)
    null_model = draw_null_model(model, 1)
    with as_null_model(model, null_model):
        by_numbers = answers(model)
    by_rows = answers(exchanged(model, torch.from_numpy(null_model.order)))
    for a, b in zip(by_numbers, by_rows, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=0)
    assert far_apart(by_numbers, plain)
    for before, after in zip(plain, answers(model), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_null_models_of_the_shipped_models_agree_with_exchanged_rows_and_with_their_own_copy(
    name: str, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(name)
    null_model = draw_null_model(model, 3)
    with as_null_model(model, null_model):
        by_numbers = answers(model)
    by_rows = answers(exchanged(model, torch.from_numpy(null_model.order)))
    own = answers(null_model_copy(model, null_model))
    for a, b, c in zip(by_numbers, by_rows, own, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=0)
        np.testing.assert_array_equal(b, c)


def test_gradients_of_the_gates_are_those_of_the_exchanged_rows() -> None:
    model = tiny("bert")
    null_model = draw_null_model(model, 2)
    reading = TokenLogProbs([Text("The [MASK] was tired.")], [token_id(model, "nurse") or 7])

    def objective(answer: torch.Tensor) -> torch.Tensor:
        return answer.sum()

    with as_null_model(model, null_model):
        scores = gate_gradients(model, reading, objective).scores
    copied = exchanged(model, torch.from_numpy(null_model.order))
    np.testing.assert_allclose(scores, gate_gradients(copied, reading, objective).scores, atol=1e-6)
    assert np.abs(scores - gate_gradients(model, reading, objective).scores).max() > 1e-4


def test_a_null_model_of_a_null_model_is_a_null_model() -> None:
    model = tiny("gpt2")
    first, second = draw_null_model(model, 1), draw_null_model(model, 2)
    with as_null_model(model, first), as_null_model(model, second):
        nested = answers(model)
    with as_null_model(model, NullModel(0, first.order[second.order])):
        composed = answers(model)
    with as_null_model(model, NullModel(0, second.order[first.order])):
        other_way_round = answers(model)
    for a, b in zip(nested, composed, strict=True):
        np.testing.assert_array_equal(a, b)
    assert far_apart(nested, other_way_round)


def test_the_null_model_is_taken_off_after_an_error() -> None:
    model = tiny("bert")
    before = answers(model)
    with pytest.raises(RuntimeError), as_null_model(model, draw_null_model(model, 1)):
        raise RuntimeError
    for a, b in zip(before, answers(model), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_words_move_within_their_kind_and_everything_else_stays(
    name: str, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(name)
    kinds = token_kinds(model)
    order = draw_null_model(model, 5).order
    moved = order != np.arange(len(order))
    assert sorted(order) == list(range(len(order)))
    assert (kinds[order] == kinds).all()
    assert set(kinds[moved]) <= {"word", "Word", "continuation"}
    assert moved[kinds == "word"].mean() > 0.99
    assert moved[kinds == "continuation"].mean() > 0.99
    assert not moved[model.tokenizer.all_special_ids].any()


def test_the_same_seed_draws_the_same_null_model_and_another_seed_another(bert: Model) -> None:
    np.testing.assert_array_equal(draw_null_model(bert, 1).order, draw_null_model(bert, 1).order)
    assert (draw_null_model(bert, 1).order != draw_null_model(bert, 2).order).mean() > 0.5


def test_a_null_model_of_another_vocabulary_and_wrong_settings_are_refused(
    bert: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        pytest.raises(BadOption, match="must have its 16384 tokens"),
        as_null_model(bert, NullModel(0, np.arange(7))),
    ):
        pass
    with pytest.raises(BadOption, match="got -1"):
        draw_null_model(bert, -1)
    nothing = np.full(bert.config.vocab_size, "other")
    monkeypatch.setattr("levelhead.models.null_model.token_kinds", lambda model: nothing)
    with pytest.raises(CannotDo, match="no null model"):
        draw_null_model(bert, 0)


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
