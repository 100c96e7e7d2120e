"""Word vectors against a slow loop: one sentence at a time, no padding, the model's own forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from levelhead.engine.batches import RowPool
from levelhead.engine.collectors import WordCollector
from levelhead.engine.readings import StaticVectors, WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe
from levelhead.models.encoding import Text, encode, find_word
from levelhead.models.model import Model
from tests.tiny import bpe, tiny, unigram, wordpiece

CASES = [
    ("Nurses work.", "Nurses", 0),  # at sentence start, capitalized
    ("The NURSE said that she was tired.", "nurse", 0),
    ("He saw a nurse, an engineer and a teacher!", "engineer", 0),
    ("A teacher is a teacher?", "teacher", 1),  # the second of two
    ("A teacher is a teacher?", "teacher", 0),
    ("That is unmotherly; rarely so.", "unmotherly", 0),  # several tokens, then punctuation
    ("Unhappiness is rarely unhappiness in grandmothers.", "grandmothers", 0),
    ("Who knows", "knows", 0),  # last, without punctuation
    ("She gave (her) book.", "her", 0),
]


def slow_vector(model: Model, text: str, span: tuple[int, int]) -> npt.NDArray[np.float32]:
    """The mean over the tokens whose characters, by the tokenizer's own offsets, meet those of the span."""
    encoded = model.tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    if before := model.opening.tokens:
        encoded = {"input_ids": torch.cat([torch.tensor([before]), encoded["input_ids"]], dim=1)}
        offsets = [(0, 0)] * len(before) + offsets
    with torch.no_grad():
        hidden = model.base(**encoded).last_hidden_state[0]
    characters = set(range(*span))
    inside = [i for i, (a, b) in enumerate(offsets) if b > a and characters & set(range(a, b))]
    return np.asarray(hidden[inside].mean(0))


@pytest.mark.parametrize("tokenizer", [wordpiece, bpe, unigram], ids=["wordpiece", "bpe", "sentencepiece"])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_word_vectors_equal_a_slow_loop_without_padding(family: str, tokenizer: Callable[[], Any]) -> None:
    model = tiny(family, "base" if family == "bert" else "mlm", tokenizer=tokenizer())
    texts = [Text(text) for text, _, _ in CASES]
    spans = [find_word(text, word, which) for text, word, which in CASES]
    ours = read_one(model, WordVectors(texts, spans))[0]
    for i, (text, span) in enumerate(zip(texts, spans, strict=True)):
        np.testing.assert_allclose(ours[i], slow_vector(model, text.first, span), atol=1e-5)


def test_static_vectors_are_means_over_the_texts_of_a_word() -> None:
    model = tiny("bert")
    texts = [Text(text) for text, _, _ in CASES]
    spans = [find_word(text, word, which) for text, word, which in CASES]
    word = [0, 1, 0, 1, 2, 2, 0, 2, 1]
    each = read_one(model, WordVectors(texts, spans))[0]
    means = np.stack([each[np.asarray(word) == w].mean(0) for w in range(3)])
    np.testing.assert_allclose(read_one(model, StaticVectors(texts, spans, word))[0], means, atol=1e-6)


def test_the_split_word_really_is_split_and_the_whole_word_whole() -> None:
    model = tiny("bert")
    (row,) = encode(model, [Text("Unmotherly engineers work.")])
    assert len(row.tokens_of((0, 10))) > 1
    assert len(row.tokens_of((11, 20))) == 1


@pytest.mark.parametrize(
    ("texts", "spans", "message"),
    [
        ([Text("")], [(0, 1)], "must not be empty"),
        ([Text("Nurses work.")], [(40, 44)], "No word at characters 40 to 44"),
        ([Text("Nurses work.")], [(3, 3)], "No word at characters"),
        ([Text("Nurses work.")], [], "spans must be as many as texts, 1"),
        ([Text("work " * 120)], [(0, 4)], "does not fit into the 96 positions"),
    ],
)
def test_texts_that_cannot_be_asked_are_refused_in_one_line(
    texts: list[Text], spans: list[tuple[int, int]], message: str
) -> None:
    with pytest.raises(BadProbe, match=message) as caught:
        read_one(tiny("bert"), WordVectors(texts, spans))
    assert "\n" not in str(caught.value)


def test_a_word_that_is_not_in_its_sentence_is_refused_with_the_sentence() -> None:
    with pytest.raises(BadProbe, match=r"'doctor' occurs not at all in 'Nurses work\.'"):
        find_word("Nurses work.", "doctor")
    with pytest.raises(BadProbe, match="occurs not at all"):
        find_word("Nurses work.", "nurse")  # part of a word is not the word


@pytest.mark.parametrize("reading", ["words", "static"])
def test_rows_of_a_causal_model_end_with_the_word_that_is_read(reading: str) -> None:
    texts, spans = ["A teacher is a teacher?", "Who knows"], [(2, 9), (4, 9)]
    for family, cut in (("llama", True), ("bert", False)):
        model, pool = tiny(family), RowPool()
        asked = WordVectors(texts, spans) if reading == "words" else StaticVectors(texts, spans, [0, 1])
        collector = asked.prepare(model, pool, 1)
        read = list(zip(collector.rows, collector.positions, strict=True))
        last = [max(position for row, position in read if row == number) for number in (0, 1)]
        lengths = [len(row.ids) for row in pool.rows]
        whole = [len(row.ids) for row in encode(model, texts)]
        assert lengths == ([end + 1 for end in last] if cut else whole)
        assert lengths[0] < whole[0] or not cut


def test_a_model_of_a_causal_family_that_sees_later_tokens_reads_whole_texts() -> None:
    blind, seeing = tiny("gemma3_text"), tiny("gemma3_text", use_bidirectional_attention=True)
    assert blind.attends_back_only
    assert not seeing.attends_back_only
    text, span = "A teacher is a teacher?", (2, 9)
    ours = read_one(seeing, WordVectors([text], [span]))[0, 0]
    np.testing.assert_allclose(ours, slow_vector(seeing, text, span), atol=1e-5)
    pool = RowPool()
    WordVectors([text], [span]).prepare(seeing, pool, 1)
    assert len(pool.rows[0].ids) == len(next(iter(encode(seeing, [text]))).ids)


def test_a_card_adds_the_tokens_of_a_word_one_after_the_other() -> None:
    """What is added to one place in one go is added in any order there, and rounds otherwise each time."""
    collector = WordCollector(1, 3)
    for item, tokens in enumerate((1, 3, 2)):
        for position in range(tokens):
            collector.ask(item, position, item, share=1 / tokens)
    asks = np.array([0, 1, 2, 3, 4, 5])
    assert [turn.tolist() for turn in collector.rounds(asks)] == [[0, 1, 4], [2, 5], [3]]
    assert [turn.tolist() for turn in collector.rounds(asks[4:])] == [[0], [1]]
