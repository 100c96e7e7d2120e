"""A typed sentence: its blank, its twin with what could not be swapped, and the tokens of a pair."""

from __future__ import annotations

import pytest

from levelhead.errors import BadProbe
from levelhead.exploring.sentences import Mark, Words, askable_pairs, question, twin_of
from levelhead.models.encoding import token_id
from levelhead.models.model import Model
from levelhead.probes.words import WordTest, load_words
from tests.tiny import tiny

PAIR = ("she", "he")
GENDER = load_words("gender")


@pytest.fixture(scope="module")
def masked() -> Model:
    return tiny("bert")


@pytest.fixture(scope="module")
def causal() -> Model:
    return tiny("gpt2")


def test_the_twin_marks_what_was_swapped_and_what_was_not() -> None:
    twin = twin_of("My mother has a maiden name.", GENDER)
    assert twin.text.startswith("My father")
    assert Mark(3, 9, "mother") in twin.changed
    (problem,) = twin.problems
    assert "My mother has a maiden name."[problem.start : problem.end] == "maiden"
    assert problem.note


def test_a_bias_with_pairs_of_its_own_is_swapped_by_them() -> None:
    colors = WordTest(
        "colors", ("red",), ("blue",), ("hot",), ("cold",), pairs=(("red", "blue"),), axis="color"
    )
    assert twin_of("The red door and the Blue one.", colors).text == "The blue door and the Red one."


@pytest.mark.parametrize("blank", ["___", "_____", "[MASK]", "<mask>"])
def test_a_blank_may_be_written_in_several_ways(masked: Model, blank: str) -> None:
    asked = question(masked, f"The nurse said that {blank} was tired.", PAIR)
    assert asked.text == "The nurse said that [MASK] was tired."
    assert asked.text[slice(*asked.blank)] == "[MASK]"
    assert asked.tokens == (token_id(masked, "she"), token_id(masked, "he"))


def test_without_a_blank_a_word_of_the_pair_is_taken_out(masked: Model) -> None:
    assert question(masked, "She was tired.", PAIR).text == "[MASK] was tired."


def test_a_causal_model_reads_up_to_the_blank_or_the_end(causal: Model) -> None:
    assert question(causal, "The nurse said that ___ was tired.", PAIR).text == "The nurse said that"
    assert question(causal, "The nurse said that ", PAIR).text == "The nurse said that"


@pytest.mark.parametrize("sentence", ["", "   ", "A ___ and a ___.", "The nurse was tired."])
def test_what_cannot_be_asked_is_one_line(masked: Model, sentence: str) -> None:
    with pytest.raises(BadProbe, match=r"^[^\n]+$"):
        question(masked, sentence, PAIR)


def test_a_causal_model_needs_something_before_the_blank(causal: Model) -> None:
    with pytest.raises(BadProbe, match="before"):
        question(causal, "___ was tired.", PAIR)


def test_only_pairs_of_one_token_each_are_offered(masked: Model) -> None:
    pairs = askable_pairs(masked, GENDER)
    assert PAIR in pairs
    assert all(token_id(masked, word) is not None for pair in pairs for word in pair)
    with pytest.raises(BadProbe, match="more than one subword token"):
        question(masked, "The ___ spoke.", ("abbess", "abbot"))


def test_words_are_found_by_their_characters() -> None:
    words = Words.of("It's [MASK], here", "[MASK]")
    assert ["It's [MASK], here"[slice(*span)] for span in words.spans] == ["It's", "[MASK]", "here"]
    assert words.at(6, (0, 4)) == (5, 11)
    assert words.at(4, (0, 4)) == (0, 4)
    assert words.at(None, (13, 17)) == (13, 17)
