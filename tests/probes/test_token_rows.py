"""Rows of a test by number of tokens: what is left has no difference in tokens."""

from __future__ import annotations

from collections import Counter

import pytest

from levelhead.errors import BadProbe
from levelhead.models.model import Model
from levelhead.models.vocabulary import token_counts
from levelhead.probes.token_rows import rows_by_token_count
from levelhead.probes.words import WordTest, load_words

TEST = WordTest(
    "small",
    A=("she", "heroine", "actress", "queen"),
    B=("he", "hero", "actor", "king"),
    X=("nurse", "gentle", "homemaker", "florist", "midwife"),
    Y=("boss", "leader", "soldier", "plumber"),
    pairs=(("she", "he"), ("heroine", "hero"), ("actress", "actor"), ("queen", "king")),
)
TOKENS = {
    "heroine": 2,
    "hero": 1,
    "actress": 2,
    "actor": 2,
    "homemaker": 3,
    "florist": 2,
    "midwife": 2,
    "plumber": 2,
}
COUNTS = {word: TOKENS.get(word, 1) for words in TEST.groups().values() for word in words}


def test_rows_by_hand() -> None:
    rows = rows_by_token_count(TEST, COUNTS)
    assert rows.one_token is not None
    assert rows.one_token.pairs == (("she", "he"), ("queen", "king"))
    assert rows.one_token.X == ("nurse", "gentle")
    assert rows.one_token.Y == ("boss", "leader", "soldier")
    assert rows.matched is not None
    assert rows.matched.A == ("she", "actress", "queen")
    assert rows.matched.B == ("he", "actor", "king")
    assert rows.matched.X == ("nurse", "gentle", "florist")
    assert rows.matched.Y == ("boss", "leader", "plumber")
    assert rows.everything is TEST
    assert list(rows.present()) == ["all words", "matched by tokens", "one token"]


def test_matched_words_of_the_shipped_list_do_not_differ_in_tokens(bert: Model) -> None:
    test = load_words("gender")
    counts = token_counts(bert, sorted({word for words in test.groups().values() for word in words}))
    rows = rows_by_token_count(test, counts)
    assert rows.matched is not None
    for one, other in (("A", "B"), ("X", "Y")):
        sides = [Counter(counts[w] for w in rows.matched.groups()[group]) for group in (one, other)]
        assert sides[0] == sides[1]
        whole = [Counter(counts[w] for w in test.groups()[group]) for group in (one, other)]
        assert whole[0] != whole[1]
    assert rows.one_token is not None
    assert {counts[word] for words in rows.one_token.groups().values() for word in words} == {1}


def test_lists_without_pairs_are_matched_set_by_set() -> None:
    rows = rows_by_token_count(WordTest("no pairs", TEST.A, TEST.B, TEST.X, TEST.Y), COUNTS)
    assert rows.matched is not None
    assert rows.matched.A == ("she", "queen", "heroine")
    assert rows.matched.B == ("he", "hero", "actor")
    assert rows.matched.pairs == ()


def test_a_row_with_too_few_words_is_absent_and_an_unknown_word_is_named() -> None:
    rows = rows_by_token_count(TEST, {**COUNTS, "nurse": 2})
    assert rows.one_token is None
    assert "one token" not in rows.present()
    with pytest.raises(BadProbe, match="'she' is missing"):
        rows_by_token_count(TEST, {})
