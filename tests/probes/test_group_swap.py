"""The exchange of groups in texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelhead.errors import BadProbe
from levelhead.probes.group_swap import GenderSwap, RowSwap

_FAITHS = RowSwap(
    "faith", (("church", "mosque", "temple"), ("pastor", "imam", "priest"), ("bible", "quran", "veda"))
)


def test_gender_is_swapped_by_grammar_and_the_places_of_words_are_known() -> None:
    text = "The mother lost her book."
    turned = GenderSwap()(text)
    assert turned.text == "The father lost his book."
    assert [turned.text[slice(*new)] for _, new in turned.changes] == ["father", "his"]
    assert turned.text[slice(*turned.place((20, 24)))] == "book" == text[20:24]
    assert turned.text[slice(*turned.place((4, 10)))] == "father"
    assert turned.reversible


def test_a_span_of_several_words_keeps_its_ends() -> None:
    text = "A duchess and a nurse met her."
    turned = GenderSwap()(text)
    start, end = turned.place((2, 21))
    assert text[2:21] == "duchess and a nurse"
    assert turned.text[start:end] == "duke and a nurse"


def test_rows_of_three_groups_are_turned_and_come_back_after_three_turns() -> None:
    text = "The pastor of this Church read the BIBLE."
    once = _FAITHS(text)
    assert once.text == "The imam of this Mosque read the QURAN."
    assert _FAITHS(once.text, 2).text == text
    assert _FAITHS(text, 3).text == text
    assert once.reversible


@given(st.lists(st.sampled_from(["church", "Mosque", "temple", "a", "imam", "words,"]), max_size=8))
def test_swapping_again_gives_what_several_orientations_give(words: list[str]) -> None:
    text = " ".join(words)
    assert _FAITHS(_FAITHS(text, 1).text, 1).text == _FAITHS(text, 2).text


def test_words_that_stand_for_each_other_make_one_class() -> None:
    by_word = {word: groups for groups in GenderSwap().classes() for group in groups for word in group}
    assert by_word["her"] == (frozenset({"her", "hers"}), frozenset({"his", "him"}))
    assert by_word["she"] == (frozenset({"she"}), frozenset({"he"}))


def test_a_word_of_several_rows_is_exchanged_so_that_every_exchange_comes_back() -> None:
    """The race pairs of Yang et al.: black and Caucasian stand in two pairs each."""
    swap = RowSwap("race", (("black", "Caucasian"), ("African", "Caucasian"), ("black", "white")))
    text = "a black, an African, a Caucasian and a white house"
    assert swap(text).text == "a white, an Caucasian, a African and a black house"
    assert swap(text).reversible
    assert {frozenset(map(frozenset, groups)) for groups in swap.classes()} == {
        frozenset({frozenset({"black"}), frozenset({"white"})}),
        frozenset({frozenset({"african"}), frozenset({"caucasian"})}),
    }


def test_rows_need_one_word_per_group() -> None:
    with pytest.raises(BadProbe, match="one word per group"):
        RowSwap("odd", (("a", "b"), ("c",)))
    with pytest.raises(BadProbe, match="one word per group"):
        RowSwap("none", ())
