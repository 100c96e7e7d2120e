"""SEAT by numbers of subword tokens: three rows from one pass, their twins, and the pool of random words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twinned
from levelhead.models.vocabulary import random_words, token_counts
from levelhead.probes.contexts import template_contexts
from levelhead.probes.token_rows import rows_by_token_count
from levelhead.probes.words import WordTest, load_words
from levelhead.scoring.seat import ask_seat
from levelhead.scoring.token_rows import RowsQuestion, ask_seat_rows, pool_null
from tests.tiny import tiny
from tests.word_lists import GENDER

QUICK = Resampling(200)


def one_token(model: Model) -> WordTest:
    test = load_words("gender")
    words = sorted({word for listed in test.groups().values() for word in listed})
    row = rows_by_token_count(test, token_counts(model, words)).one_token
    assert row is not None
    return row


@pytest.mark.parametrize("name", ["bert", "gpt"])
@pytest.mark.parametrize("tokens", [1, 2, 4])
def test_random_words_have_the_length_that_was_asked_for(
    name: str, tokens: int, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(name)
    words = random_words(model, tokens, 40, 3, taken=("nurse",))
    assert len(set(words)) == 40
    assert set(token_counts(model, words).values()) == {tokens}
    assert words == random_words(model, tokens, 40, 3, taken=("nurse",))
    assert words != random_words(model, tokens, 40, 4)


def test_a_kind_of_targets_has_the_value_and_the_null_of_a_list_of_its_own() -> None:
    model = tiny("bert")
    kind = ("nurse", "dancer", "gentle", "engineer", "soldier", "boss")
    test = replace(GENDER, parts=(("people", kind),))
    contexts = template_contexts(test, 3)
    twins = [draw_twin(model, seed) for seed in range(4)]
    answers = ask_seat_rows(model, test, contexts, twins)
    alone = replace(GENDER, X=("nurse", "gentle", "dancer"), Y=("engineer", "soldier", "boss"))
    own = ask_seat_rows(model, alone, template_contexts(alone, 3), twins)
    assert answers.parts == ("people",)
    measured, expected = answers.rows["people"], own.rows["all words"]
    assert measured.value == pytest.approx(expected.value, abs=1e-6)
    assert measured.interval == pytest.approx(expected.interval, abs=1e-4)
    assert measured.null is not None
    assert expected.null is not None
    assert measured.null.floor == pytest.approx(expected.null.floor, abs=1e-6)
    assert answers.sound != "people"
    assert ask_seat_rows(model, test, contexts).why == "no null twin was asked"


@pytest.mark.nightly
def test_every_row_has_the_value_and_the_null_that_it_has_alone(bert: Model) -> None:
    whole = load_words("gender")
    few = {word for pair in whole.pairs[::5] for word in pair} | {*whole.X[::5], *whole.Y[::5]}
    test, twins = whole.of(few), [draw_twin(bert, seed) for seed in (1, 2)]
    found = ask_seat_rows(bert, test, template_contexts(test, 1), twins, Resampling(100))
    assert list(found.rows) == ["all words", "matched by tokens", "one token", *found.parts]
    assert found.parts == ("occupations", "traits", "things")
    for name, row in found.tests.items():
        alone = ask_seat(bert, row, template_contexts(row, 1), intervals=False)[0]
        assert found.rows[name].value == pytest.approx(alone.value, abs=1e-6)
        values = []
        for twin in twins:
            with twinned(bert, twin):
                values.append(ask_seat(bert, row, template_contexts(row, 1), intervals=False)[0].value)
        null = found.rows[name].null
        assert null is not None
        assert null.floor == pytest.approx(
            np.mean([value for value in values if value is not None]), abs=1e-6
        )
    assert found.sound in ("all words", "matched by tokens", "one token")


@pytest.mark.nightly
def test_the_pool_lies_around_0_for_one_token_words_and_the_real_words_far_beyond_it(bert: Model) -> None:
    row = one_token(bert)
    null = pool_null(bert, row, 1, size=300)
    assert abs(null.floor) < 0.03
    assert null.spread == pytest.approx(0.18, abs=0.05)
    value = ask_seat(bert, row, template_contexts(row, 1), intervals=False)[0].value
    assert value is not None
    assert null.p_value(value) == 1 / 2001


@pytest.mark.nightly
@pytest.mark.slow
def test_words_that_differ_in_length_have_a_floor_of_their_own(bert: Model) -> None:
    """A and X of three tokens, B and Y of one: the pool knows, and so random words are not called
    associated."""
    long, short = random_words(bert, 3, 24, 1), random_words(bert, 1, 24, 2)
    test = WordTest("lengths", tuple(long[:8]), tuple(short[:8]), tuple(long[8:]), tuple(short[8:]))
    null = pool_null(bert, test, 1, size=200)
    assert null.floor > 0.5
    assert not null.sound
    value = ask_seat(bert, test, template_contexts(test, 1), intervals=False)[0].value
    assert value is not None
    assert null.p_value(value) > 0.01
    same = replace(test, X=tuple(long[8:16] + short[8:16]), Y=tuple(long[16:] + short[16:]))
    assert pool_null(bert, same, 1, size=200).sound


def test_rows_that_were_begun_in_the_background_are_those_that_are_asked_for_at_once() -> None:
    model, contexts = tiny("bert"), template_contexts(GENDER, 3)
    at_once, begun = (RowsQuestion(model, GENDER, contexts, QUICK) for _ in range(2))
    assert begun.measurable
    begun.begin()
    assert begun.answers().rows == at_once.answers().rows


def test_one_target_on_a_side_is_not_measurable() -> None:
    model, few = tiny("bert"), replace(GENDER, X=("nurse",), Y=("engineer",), parts=())
    assert not RowsQuestion(model, few, template_contexts(few, 2), QUICK).measurable
