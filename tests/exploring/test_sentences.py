"""A typed sentence: its blank, its counterfactual with what could not be swapped, and the tokens of a
pair."""

from __future__ import annotations

import pytest

from levelhead.errors import BadProbe
from levelhead.exploring.sentences import (
    Mark,
    Stated,
    about_instead,
    askable_pairs,
    counterfactual_of,
    occupation_in,
    other_occupations,
    question,
    stated,
)
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


def test_the_counterfactual_marks_what_was_swapped_and_what_was_not() -> None:
    counterfactual = counterfactual_of("My mother has a maiden name.", GENDER)
    assert counterfactual.text.startswith("My father")
    assert Mark(3, 9, "mother") in counterfactual.changed
    (problem,) = counterfactual.problems
    assert "My mother has a maiden name."[problem.start : problem.end] == "maiden"
    assert problem.note


COLORS = WordTest("colors", ("red",), ("blue",), ("hot",), ("cold",), pairs=(("red", "blue"),), axis="color")


def test_a_bias_with_pairs_of_its_own_is_swapped_by_them() -> None:
    assert (
        counterfactual_of("The red door and the Blue one.", COLORS).text == "The blue door and the Red one."
    )
    assert counterfactual_of("The nurse said it.", COLORS).text == "The nurse said it."


def test_names_are_exchanged_and_state_a_gender_only_while_their_switch_is_on() -> None:
    assert counterfactual_of("Mary said that ___ was late.", GENDER).text == "John said that ___ was late."
    assert (
        counterfactual_of("Mary said that ___ was late.", GENDER, names=False).text
        == "Mary said that ___ was late."
    )
    assert stated("Mary said that ___ was late.", GENDER, PAIR, True) == Stated(("Mary",), "she")
    assert stated("Mary said that ___ was late.", GENDER, PAIR, False) is None


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The nurse said that ___ was tired.", "My brother, a nurse, said that ___ was tired."),
        ("I called the engineer.", "I called my sister, an engineer."),
        ("The young nurse said that ___ was tired.", None),  # a sentence of one's own is better than a guess
        ("I work as a nurse.", None),
        ("The nurse's shift was long.", None),
        ("They judge us.", None),
    ],
)
def test_a_sentence_that_states_no_gender_gets_the_one_against_the_stereotype(
    sentence: str, expected: str | None
) -> None:
    counterfactual = counterfactual_of(sentence, GENDER)
    assert counterfactual.text == (expected or sentence)
    assert bool(counterfactual.changed) == bool(expected)
    if expected:
        assert stated(expected, GENDER, PAIR, True) is not None


def test_what_a_text_states_is_the_words_and_the_one_of_the_pair_that_agrees() -> None:
    assert stated("My sister said that [MASK] was tired.", GENDER, PAIR, True) == Stated(("sister",), "she")
    assert stated("His aunt met his son.", GENDER, PAIR, True) == Stated(("His", "aunt", "his", "son"), "")
    assert stated("He and he", GENDER, ("woman", "man"), True) == Stated(("He", "he"), "man")
    assert stated("The nurse said that [MASK] was tired.", GENDER, PAIR, True) is None
    assert stated("A Blue car", COLORS, ("red", "blue"), True) == Stated(("Blue",), "blue")
    assert stated("A green car", COLORS, ("red", "blue"), True) is None


def test_the_same_text_is_made_about_a_person_and_about_other_occupations() -> None:
    assert occupation_in("An old engineer met a nurse.") == "engineer"
    assert occupation_in("They engineer it.") == ""
    assert about_instead("An engineer is the engineer.", "engineer", "nurse") == "A nurse is the nurse."
    assert about_instead("I saw a nurse.", "nurse", "electrician") == "I saw an electrician."
    assert about_instead("the nurses, a nurse", "nurse", "person") == "the nurses, a person"
    others = other_occupations("nurse")
    assert len(set(others)) == 30
    assert "nurse" not in others
    assert set(others[:15]) <= set(GENDER.X)
    assert set(others[15:]) <= set(GENDER.Y)
    assert not any(stated(f"The {word} spoke.", GENDER, PAIR, True) for word in others)


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
