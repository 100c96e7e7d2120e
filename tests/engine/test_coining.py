"""A coin instead of two passes: a text is asked once, and the mean over coins is the symmetrized answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import levelhead as lh
from levelhead.edits.output import Coined, Symmetrized
from levelhead.edits.sites import Variant
from levelhead.engine import run as engine
from levelhead.engine.readings import Pooled, TokenLikelihoods, TokenLogProbs, WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, CannotDo
from levelhead.models.encoding import Text, find_word, token_id
from levelhead.models.model import Model
from levelhead.probes.coin import Coin
from levelhead.probes.group_swap import GenderSwap
from tests.tiny import tiny

SWAP = GenderSwap()
SYMMETRIZED: Variant = (Symmetrized(SWAP),)
TEXTS = ["She saw him in the kitchen.", "The nurse said that she was tired.", "The engineer was tired."]


def both_sides(texts: list[str]) -> list[list[Variant]]:
    """For each text a coin that leaves it as it is, and one that exchanges its groups."""
    return [
        [
            next((Coined(coin),) for coin in map(_coin, range(99)) if coin.orientation(text) == turn)
            for turn in (0, 1)
        ]
        for text in texts
    ]


def _coin(seed: int) -> Coin:
    return Coin(SWAP, seed)


def test_the_mean_over_both_sides_of_the_coin_is_the_symmetrized_answer_about_tokens() -> None:
    model = tiny("bert")
    tokens = [token for word in ("she", "he", "book", "mothers") if (token := token_id(model, word))]
    for text in TEXTS:
        blank = f"{text} {model.tokenizer.mask_token} was tired."
        reading = TokenLogProbs([blank], tokens)
        (sides,) = both_sides([f"{blank}\n"])
        given = read_one(model, reading, [*sides, SYMMETRIZED])[:, 0].astype(np.float64)
        np.testing.assert_allclose(np.exp(given[:2]).mean(0), np.exp(given[2]), rtol=1e-5)


def test_the_mean_over_both_sides_is_the_symmetrized_answer_of_a_classification_head_and_of_vectors() -> None:
    model = tiny("bert", "nsp")
    pair = Text(TEXTS[0], TEXTS[1])
    (sides,) = both_sides([f"{pair.first}\n{pair.second}"])
    logits = read_one(model, Pooled([pair]), [*sides, SYMMETRIZED])[:, 0].astype(np.float64)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(p[:2].mean(0), p[2], rtol=1e-5)
    words = WordVectors([TEXTS[1]], [find_word(TEXTS[1], "nurse")])
    (sides,) = both_sides([f"{TEXTS[1]}\n"])
    vectors = read_one(model, words, [*sides, SYMMETRIZED])[:, 0]
    np.testing.assert_allclose(vectors[:2].mean(0), vectors[2], atol=1e-5)


def test_every_text_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = tiny("bert", "nsp"), Counter[str]()
    real = engine.answer_prepared

    def counted(given: Model, pool: Any, *rest: Any, **options: Any) -> None:
        rows["asked"] += len(pool.rows)
        real(given, pool, *rest, **options)

    monkeypatch.setattr(engine, "answer_prepared", counted)
    read_one(model, Pooled([Text(text, TEXTS[0]) for text in TEXTS]), [(Coined(Coin(SWAP)),)])
    assert rows["asked"] == len(TEXTS)


def test_the_coin_is_fair_and_the_same_for_the_same_text() -> None:
    turns = [Coin(SWAP, seed).orientation(text) for seed in range(200) for text in TEXTS]
    assert 0.45 < np.mean(turns) < 0.55
    assert Coin(SWAP, 3).orientation(TEXTS[0]) == Coin(SWAP, 3).orientation(TEXTS[0])


def test_what_a_coin_cannot_do_is_one_line() -> None:
    model, tossed = tiny("gpt2"), Coined(Coin(SWAP))
    with pytest.raises(CannotDo, match="TokenLikelihoods cannot be evaluated by a coin"):
        read_one(model, TokenLikelihoods(TEXTS), [(tossed,)])
    with pytest.raises(BadOption, match="either a symmetrized model or a coin"):
        read_one(model, TokenLogProbs(TEXTS, [3]), [(tossed, *SYMMETRIZED)])


# ---- before an API


def test_a_wrapped_function_answers_about_the_text_that_it_was_given() -> None:
    asked = []

    def api(text: str) -> str:
        asked.append(text)
        return f"I heard that {text[0].lower()}{text[1:]}"

    text = "She gave her brother a book."
    answers = {lh.coin(api, seed=seed)(text) for seed in range(20)}
    assert answers == {"I heard that she gave her brother a book."}
    assert set(asked) == {text, "He gave his sister a book."}
    assert len(asked) == 20


def test_the_mean_of_wrapped_scores_is_that_of_both_questions() -> None:
    def scores(text: str) -> dict[str, float]:
        return {"she": 0.8, "he": 0.2} if "nurse" in text else {"she": 0.3, "he": 0.7}

    given = [lh.coin(scores, seed=seed)("The nurse said that")["she"] for seed in range(400)]
    assert set(given) == {0.8, 0.2}
    assert np.mean(given) == pytest.approx(0.5, abs=0.06)
    assert lh.coin(len, seed=1)("It rained.") == 10


def test_scores_of_words_with_one_counterpart_are_added_up() -> None:
    assert Coin(SWAP).back({"him": 0.25, "he": 0.5, 3: 0.25}, 0) == {"him": 0.25, "he": 0.5, 3: 0.25}
    assert Coin(SWAP).back({"he": 0.5}, 1) == {"she": 0.5}
