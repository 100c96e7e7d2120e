"""Rows of a test by number of tokens: what is left has no difference in tokens."""

from __future__ import annotations

from collections import Counter

import pytest

from levelhead.errors import BadProbe
from levelhead.models.encoding import token_counts
from levelhead.models.model import Model
from levelhead.probes.words import ALL_WORDS, MATCHED, ONE_TOKEN, WordTest, load_words, rows_by_token_count

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
    assert rows[ONE_TOKEN].pairs == (("she", "he"), ("queen", "king"))
    assert rows[ONE_TOKEN].X == ("nurse", "gentle")
    assert rows[ONE_TOKEN].Y == ("boss", "leader", "soldier")
    assert rows[MATCHED].A == ("she", "actress", "queen")
    assert rows[MATCHED].B == ("he", "actor", "king")
    assert rows[MATCHED].X == ("nurse", "gentle", "florist")
    assert rows[MATCHED].Y == ("boss", "leader", "plumber")
    assert rows[ALL_WORDS] is TEST
    assert list(rows) == ["all words", "matched by tokens", "one token"]


def test_matched_words_of_the_shipped_list_do_not_differ_in_tokens(bert: Model) -> None:
    test = load_words("gender")
    counts = token_counts(bert, sorted({word for words in test.groups().values() for word in words}))
    rows = rows_by_token_count(test, counts)
    for one, other in (("A", "B"), ("X", "Y")):
        sides = [Counter(counts[w] for w in rows[MATCHED].groups()[group]) for group in (one, other)]
        assert sides[0] == sides[1]
        whole = [Counter(counts[w] for w in test.groups()[group]) for group in (one, other)]
        assert whole[0] != whole[1]
    assert {counts[word] for words in rows[ONE_TOKEN].groups().values() for word in words} == {1}


def test_lists_without_pairs_are_matched_set_by_set() -> None:
    rows = rows_by_token_count(WordTest("no pairs", TEST.A, TEST.B, TEST.X, TEST.Y), COUNTS)
    assert rows[MATCHED].A == ("she", "queen", "heroine")
    assert rows[MATCHED].B == ("he", "hero", "actor")
    assert rows[MATCHED].pairs == ()


def test_a_row_with_too_few_words_is_absent_and_an_unknown_word_is_named() -> None:
    rows = rows_by_token_count(TEST, {**COUNTS, "nurse": 2})
    assert ONE_TOKEN not in rows
    with pytest.raises(BadProbe, match="'she' is missing"):
        rows_by_token_count(TEST, {})
