"""Answers that are kept: nothing is asked twice, and nobody gets another's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from levelhead import work
from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.engine import kept
from levelhead.engine.kept import keeping_answers, read_once
from levelhead.engine.readings import Pooled, WordVectors
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text
from levelhead.models.twins import draw_twin, twinned
from levelhead.probes.contexts import template_contexts
from levelhead.scoring.seat import context_vectors
from levelhead.scoring.word_table import word_table
from tests.tiny import tiny
from tests.word_lists import GENDER

READING = WordVectors(["The nurse is here.", "An engineer is not."], [(4, 9), (3, 11)])


@contextmanager
def counted() -> Iterator[list[float]]:
    """Tokens that pass through all blocks, one entry for each part of the work."""
    tokens: list[float] = []

    class Counted:
        def worked(self, more: float) -> None:
            tokens.append(more)

    token = work._whole.set(Counted())  # type: ignore[arg-type]
    try:
        yield tokens
    finally:
        work._whole.reset(token)


def test_an_answer_is_asked_once_and_only_of_variants_that_have_none_yet() -> None:
    model = tiny("bert")
    first, second = removed(model, [Head(2, 0)]), removed(model, [Head(2, 1)])
    with keeping_answers([model]), counted() as tokens:
        one = read_once(model, READING, [(), first], label="one")
        alone = sum(tokens)
        again = read_once(model, READING, [first, ()], label="again")
        assert sum(tokens) == alone > 0
        more = read_once(model, READING, [first, second, second], label="more")
        assert sum(tokens) < 2 * alone
    np.testing.assert_array_equal(one[::-1], again)
    np.testing.assert_array_equal(more, read_one(model, READING, [first, second, second]))


def test_a_twin_an_edited_model_and_another_reading_are_asked_for_themselves() -> None:
    model = tiny("bert")
    other = WordVectors(READING.texts[::-1], READING.spans[::-1])
    with keeping_answers([model]):
        own = read_once(model, READING, label="own")
        np.testing.assert_array_equal(read_once(model, other, label="other")[0], own[0, ::-1])
        for seed in (1, 2):
            with twinned(model, draw_twin(model, seed)):
                of_twin = read_once(model, READING, label="twin")
                np.testing.assert_array_equal(of_twin, read_one(model, READING))
                assert not np.allclose(of_twin, own)
        with model.without_heads([Head(0, 0)]):
            assert not np.allclose(read_once(model, READING, label="edited"), own)
        np.testing.assert_array_equal(read_once(model, READING, label="own"), own)


def test_a_model_that_is_not_named_is_asked_every_time() -> None:
    model = tiny("bert")
    with keeping_answers([tiny("gpt2")]), counted() as tokens:
        read_once(model, READING, label="one")
        once = sum(tokens)
        read_once(model, READING, label="again")
    assert sum(tokens) == pytest.approx(2 * once)
    assert once > 0


def test_answers_are_kept_until_the_outermost_context_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert")
    with keeping_answers([model]):
        with keeping_answers([model]):
            read_once(model, READING, label="inside")
        with counted() as tokens:
            read_once(model, READING, label="outside")
        assert not tokens
        monkeypatch.setattr(kept, "_MOST", 1)  # the oldest go when there are too many
        read_once(model, WordVectors(READING.texts[:1], READING.spans[:1]), label="more")
        with counted() as tokens:
            read_once(model, READING, label="again")
        assert tokens
    with counted() as tokens:
        read_once(model, READING, label="afterwards")
        read_once(model, READING, label="afterwards")
    assert sum(tokens) > 0
    assert len(tokens) % 2 == 0


def test_a_table_that_begins_like_another_one_is_asked_for_its_other_contexts_alone() -> None:
    model = tiny("bert")
    few, all_of_them = (word_table(GENDER, template_contexts(GENDER, n)) for n in (2, 4))
    with keeping_answers([model]), counted() as tokens:
        context_vectors(model, few)
        two = sum(tokens)
        vectors = context_vectors(model, all_of_them)
        assert sum(tokens) < 3 * two
    with counted() as tokens:
        (expected,) = read_one(model, all_of_them.each())
    assert sum(tokens) > 1.5 * two
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_texts_that_are_asked_sooner_are_asked_by_themselves_whether_they_are_kept_or_not() -> None:
    model = tiny("bert", "nsp")
    every = [Text("The nurse is here.", f"It is {n} o'clock.") for n in ("one", "two", "three", "four")]
    sooner = [every[2], every[0]]
    answers = []
    for asked_before in (True, False):
        with keeping_answers([model], sooner), counted() as tokens:
            if asked_before:
                read_once(model, Pooled(sooner[::-1]), label="a first look")
            first = sum(tokens)
            answers.append(read_once(model, Pooled(every), [(), ()], label="all"))
            assert not asked_before or sum(tokens) == pytest.approx(2 * first, rel=0.1)
            assert read_once(model, Pooled([]), label="none").shape[:2] == (1, 0)
    np.testing.assert_array_equal(answers[0], answers[1])
    parts = [read_one(model, Pooled(some))[0] for some in (sooner, every[1::2])]
    np.testing.assert_array_equal(answers[0][0][[2, 0, 1, 3]], np.concatenate(parts))
    np.testing.assert_allclose(answers[0][1], read_one(model, Pooled(every))[0], atol=1e-5)
