"""Halves of a word test share no word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelhead.errors import BadProbe
from levelhead.probes.halves import linked, word_halves
from levelhead.probes.words import WordTest, load_words
from tests.word_lists import GENDER


@given(st.integers(0, 10_000))
def test_no_word_is_in_both_halves_and_none_is_lost(seed: int) -> None:
    test = load_words("gender")
    first, second = word_halves(test, seed)
    for group, words in test.groups().items():
        one, other = set(first.groups()[group]), set(second.groups()[group])
        assert not one & other
        assert one | other == set(words)
        assert abs(len(one) - len(other)) <= 4
    assert {*first.A, *first.B}.isdisjoint({*second.A, *second.B})
    assert len(first.pairs) + len(second.pairs) == len(test.pairs)


def test_entries_keep_their_order_and_their_repeats() -> None:
    first, second = word_halves(load_words("gender"), 3)
    her = first if "her" in first.A else second
    assert her.A.count("her") == load_words("gender").A.count("her") == 2
    assert [pair for pair in load_words("gender").pairs if pair in set(her.pairs)] == list(her.pairs)


def test_pairs_that_share_a_word_stay_together() -> None:
    groups = linked(("her", "hers", "mother"), (("her", "him"), ("hers", "her")))
    assert [sorted(group) for group in groups] == [["her", "hers"], ["mother"]]
    for seed in range(20):
        first, _ = word_halves(load_words("gender"), seed)
        assert len({"her", "him", "his", "hers"} & {*first.A, *first.B}) in (0, 4)


def test_other_seeds_give_other_halves_and_the_same_seed_the_same() -> None:
    assert word_halves(GENDER, 1) == word_halves(GENDER, 1)
    assert len({word_halves(GENDER, seed)[0].X for seed in range(10)}) > 3


def test_a_test_that_is_too_small_is_refused() -> None:
    with pytest.raises(BadProbe, match="cannot be halved: Y"):
        word_halves(WordTest("few", ("a", "b"), ("c", "d"), ("e", "f", "g", "h"), ("i", "j", "k")), 0)
