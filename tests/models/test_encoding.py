"""Token rows: pairs, offsets, masked characters, single tokens; and tiny tokenizers that never change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from levelhead.errors import BadProbe, CannotDo
from levelhead.models.encoding import Text, encode, find_word, fits, token_id
from levelhead.models.model import Model
from tests.tiny import bpe, tiny, unigram, wordpiece

SENTENCE = "The nurse said that unmotherly engineers work."
TOKENIZERS = """
import sys
sys.path.insert(0, {root!r})
from tests.models.test_encoding import tokenizers
print(tokenizers())
"""


@pytest.fixture(scope="module")
def bert_like() -> Model:
    return tiny("bert")


@pytest.mark.parametrize("word", ["nurse", "unmotherly"])
def test_masked_characters_are_mask_tokens_and_all_other_tokens_stay(bert_like: Model, word: str) -> None:
    span = find_word(SENTENCE, word)
    (plain,), (masked,) = (
        encode(bert_like, [Text(SENTENCE)]),
        encode(bert_like, [Text(SENTENCE, masked=(span,))]),
    )
    tokens = plain.tokens_of(span)
    assert len(tokens) == (1 if word == "nurse" else 10)
    assert (masked.ids[tokens] == bert_like.tokenizer.mask_token_id).all()
    others = np.setdiff1d(np.arange(len(plain.ids)), tokens)
    assert np.array_equal(masked.ids[others], plain.ids[others])
    assert np.array_equal(masked.offsets, plain.offsets)
    assert masked.key != plain.key


def test_only_the_first_sentence_of_a_pair_is_masked(bert_like: Model) -> None:
    span = find_word(SENTENCE, "nurse")
    (row,) = encode(bert_like, [Text(SENTENCE, SENTENCE, masked=(span,))])
    assert (row.ids == bert_like.tokenizer.mask_token_id).sum() == 1
    assert row.part[row.ids == bert_like.tokenizer.mask_token_id] == [0]


def test_what_cannot_be_masked_is_refused_in_one_line(bert_like: Model) -> None:
    with pytest.raises(BadProbe, match=r"^No token lies at characters 90 to 95\. [^\n]*$"):
        list(encode(bert_like, [Text(SENTENCE, masked=((90, 95),))]))
    with pytest.raises(CannotDo, match=r"has no mask token"):
        list(encode(tiny("gpt2"), [Text(SENTENCE, masked=((0, 3),))]))


def test_rows_come_in_the_order_of_their_texts_with_pairs_between_single_ones(bert_like: Model) -> None:
    texts = [Text("Nurses work."), Text("She saw him.", "Who knows?"), Text("Engineers work.")]
    together = list(encode(bert_like, texts))
    for text, row in zip(texts, together, strict=True):
        (alone,) = encode(bert_like, [text])
        assert row.key == alone.key
    assert [set(row.part) for row in together] == [{-1, 0}, {-1, 0, 1}, {-1, 0}]
    assert together[1].types is not None
    assert set(together[1].types) == {0, 1}


def test_a_word_has_one_token_where_it_is_whole_and_none_where_it_is_split_or_unknown() -> None:
    model = tiny("bert")
    vocabulary = model.tokenizer.get_vocab()
    assert token_id(model, "nurse") == vocabulary["nurse"]
    assert token_id(model, "unmotherly") is None
    assert token_id(model, "日") is None
    bpe = tiny("gpt2")
    assert token_id(bpe, "nurse") == bpe.tokenizer.get_vocab()["Ġnurse"]  # as it stands inside a sentence


def tokenizers() -> str:
    """The tokenizers of tiny models in full, and what they make of a sentence."""
    made = (bpe(), unigram(), wordpiece())
    return repr([(sorted(each.get_vocab().items()), each.tokenize(SENTENCE)) for each in made])


@pytest.mark.nightly
def test_the_tokenizers_of_tiny_models_are_the_same_in_every_process() -> None:
    code = TOKENIZERS.format(root=str(Path(__file__).resolve().parents[2]))
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert other.strip() == tokenizers()


def test_a_text_fits_only_if_all_tokens_of_its_last_character_do() -> None:
    long = tiny("gpt2")
    text = Text("The nurse 😀")  # one character, several tokens with one span
    count = len(next(encode(long, [text])).ids)
    offsets = next(encode(long, [text])).offsets
    assert (offsets[-1] == offsets[-2]).all()
    assert fits(tiny("gpt2", n_positions=count), text)
    assert not fits(tiny("gpt2", n_positions=count - 1), text)
