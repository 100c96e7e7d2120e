"""SEAT by numbers of subword tokens: three rows from one pass, their null models, and the pool of random
words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from levelhead.measures.statistics import Resampling
from levelhead.models.encoding import token_counts
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import ONE_TOKEN, WordTest, load_words, rows_by_token_count
from levelhead.scoring.seat import ask_seat
from levelhead.studies.heads.null_models import RowsQuestion, ask_seat_rows
from tests.tiny import tiny
from tests.word_lists import GENDER

QUICK = Resampling(200)


def one_token(model: Model) -> WordTest:
    test = load_words("gender")
    words = sorted({word for listed in test.groups().values() for word in listed})
    return rows_by_token_count(test, token_counts(model, words))[ONE_TOKEN]


def test_a_kind_of_targets_has_the_value_and_the_null_of_a_list_of_its_own() -> None:
    model = tiny("bert")
    kind = ("nurse", "dancer", "gentle", "engineer", "soldier", "boss")
    test = replace(GENDER, parts=(("people", kind),))
    contexts = template_contexts(test, 3)
    null_models = [draw_null_model(model, seed) for seed in range(4)]
    answers = ask_seat_rows(model, test, contexts, null_models)
    alone = replace(GENDER, X=("nurse", "gentle", "dancer"), Y=("engineer", "soldier", "boss"))
    own = ask_seat_rows(model, alone, template_contexts(alone, 3), null_models)
    assert answers.parts == ("people",)
    measured, expected = answers.rows["people"], own.rows["all words"]
    assert measured.value == pytest.approx(expected.value, abs=1e-6)
    assert measured.interval == pytest.approx(expected.interval, abs=1e-4)
    assert measured.null is not None
    assert expected.null is not None
    assert measured.null.floor == pytest.approx(expected.null.floor, abs=1e-6)
    assert answers.sound != "people"
    assert ask_seat_rows(model, test, contexts).why == "no null model was evaluated"


@pytest.mark.nightly
def test_every_row_has_the_value_and_the_null_that_it_has_alone(bert: Model) -> None:
    whole = load_words("gender")
    few = {word for pair in whole.pairs[::5] for word in pair} | {*whole.X[::5], *whole.Y[::5]}
    test, null_models = whole.of(few), [draw_null_model(bert, seed) for seed in (1, 2)]
    found = ask_seat_rows(bert, test, template_contexts(test, 1), null_models, Resampling(100))
    assert list(found.rows) == ["all words", "matched by tokens", "one token", *found.parts]
    assert found.parts == ("occupations", "traits", "things")
    for name, row in found.tests.items():
        alone = ask_seat(bert, row, template_contexts(row, 1), intervals=False)[0]
        assert found.rows[name].value == pytest.approx(alone.value, abs=1e-6)
        values = []
        for null_model in null_models:
            with as_null_model(bert, null_model):
                values.append(ask_seat(bert, row, template_contexts(row, 1), intervals=False)[0].value)
        null = found.rows[name].null
        assert null is not None
        assert null.floor == pytest.approx(
            np.mean([value for value in values if value is not None]), abs=1e-6
        )
    assert found.sound in ("all words", "matched by tokens", "one token")


def test_rows_that_were_begun_in_the_background_are_those_that_are_asked_for_at_once() -> None:
    model, contexts = tiny("bert"), template_contexts(GENDER, 3)
    at_once, begun = (RowsQuestion(model, GENDER, contexts, QUICK) for _ in range(2))
    assert begun.measurable
    _ = begun.measured
    assert begun.answers().rows == at_once.answers().rows


def test_one_target_on_a_side_is_not_measurable() -> None:
    model, few = tiny("bert"), replace(GENDER, X=("nurse",), Y=("engineer",), parts=())
    assert not RowsQuestion(model, few, template_contexts(few, 2), QUICK).measurable
