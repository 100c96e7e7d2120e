"""Answers that are kept: nothing is asked twice, and nobody gets another's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from levelhead import progress
from levelhead.edits.gates import removed
from levelhead.edits.output import Symmetrized
from levelhead.edits.sites import Head
from levelhead.engine import kept
from levelhead.engine.collectors import TokenScores
from levelhead.engine.kept import ByText, keeping_answers
from levelhead.engine.readings import (
    Pooled,
    Predictions,
    SentenceVectors,
    TokenLikelihoods,
    TokenLogProbs,
    WordVectors,
)
from levelhead.engine.run import read, read_one
from levelhead.models.encoding import Text
from levelhead.models.null_model import as_null_model, draw_null_model
from levelhead.probes.contexts import template_contexts
from levelhead.probes.group_swap import GenderSwap
from levelhead.scoring.seat import context_vectors, word_table
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

    token = progress._whole.set(Counted())  # type: ignore[arg-type]
    try:
        yield tokens
    finally:
        progress._whole.reset(token)


def test_an_answer_is_asked_once_and_only_of_variants_that_have_none_yet() -> None:
    model = tiny("bert")
    first, second = removed(model, [Head(2, 0)]), removed(model, [Head(2, 1)])
    with keeping_answers([model]), counted() as tokens:
        one = read_one(model, READING, [(), first])
        alone = sum(tokens)
        again = read_one(model, READING, [first, ()])
        assert sum(tokens) == alone > 0
        more = read_one(model, READING, [first, second, second])
        assert sum(tokens) < 2 * alone
    np.testing.assert_array_equal(one[::-1], again)
    np.testing.assert_array_equal(more, read_one(model, READING, [first, second, second]))


@pytest.mark.parametrize("named", [(), (READING,)], ids=["not named", "named"])
def test_nobody_writes_to_an_answer_that_others_are_given(named: Sequence[ByText]) -> None:
    model = tiny("bert")
    with keeping_answers([model], named):
        given = read_one(model, READING)
        as_given = given.copy()
        with suppress(ValueError):  # it is sealed; else it is a copy
            given += 1.0
        np.testing.assert_array_equal(read_one(model, READING), as_given)


@pytest.mark.parametrize("named", [(), (READING,)], ids=["not named", "named"])
def test_a_null_model_an_edited_model_and_another_reading_are_asked_for_themselves(
    named: Sequence[ByText],
) -> None:
    model = tiny("bert")
    other = WordVectors(READING.texts[::-1], READING.spans[::-1])
    with keeping_answers([model], named):
        own = read_one(model, READING)
        np.testing.assert_array_equal(read_one(model, other)[0], own[0, ::-1])
        for seed in (1, 2):
            with as_null_model(model, draw_null_model(model, seed)):
                of_counterfactual = read_one(model, READING)
                np.testing.assert_array_equal(of_counterfactual, read_one(model, READING))
                assert not np.allclose(of_counterfactual, own)
        with model.without_heads([Head(0, 0)]):
            assert not np.allclose(read_one(model, READING), own)
        np.testing.assert_array_equal(read_one(model, READING), own)


def test_a_model_that_is_not_named_is_asked_every_time() -> None:
    model = tiny("bert")
    with keeping_answers([tiny("gpt2")]), counted() as tokens:
        read_one(model, READING)
        once = sum(tokens)
        read_one(model, READING)
    assert sum(tokens) == pytest.approx(2 * once)
    assert once > 0


def test_answers_are_kept_until_the_outermost_context_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert")
    with keeping_answers([model]):
        with keeping_answers([model]):
            read_one(model, READING)
        with counted() as tokens:
            read_one(model, READING)
        assert not tokens
        monkeypatch.setattr(kept, "_MOST", 1)  # the oldest go when there are too many
        read_one(model, WordVectors(READING.texts[:1], READING.spans[:1]))
        with counted() as tokens:
            read_one(model, READING)
        assert tokens
    with counted() as tokens:
        read_one(model, READING)
        read_one(model, READING)
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


EVERY = [Text("The nurse is here.", f"It is {n} o'clock.") for n in ("one", "two", "three", "four")]


def test_texts_of_a_named_reading_are_asked_by_themselves_whether_they_are_kept_or_not() -> None:
    model = tiny("bert", "nsp")
    sooner = [EVERY[2], EVERY[0]]
    answers = []
    for asked_before in (True, False):
        with keeping_answers([model], [Pooled(sooner)]), counted() as tokens:
            if asked_before:
                read_one(model, Pooled(sooner[::-1]), label="a first look")
            first = sum(tokens)
            answers.append(read_one(model, Pooled(EVERY), [(), ()]))
            assert not asked_before or sum(tokens) == pytest.approx(2 * first, rel=0.1)
            assert read_one(model, Pooled([])).shape[:2] == (1, 0)
    np.testing.assert_array_equal(answers[0], answers[1])
    parts = [read_one(model, Pooled(some))[0] for some in (sooner, EVERY[1::2])]
    np.testing.assert_array_equal(answers[0][0][[2, 0, 1, 3]], np.concatenate(parts))
    np.testing.assert_allclose(answers[0][1], read_one(model, Pooled(EVERY))[0], atol=1e-5)


def test_a_part_of_a_named_reading_is_taken_from_the_whole_and_what_two_share_from_the_first() -> None:
    model = tiny("bert", "nsp")
    named = [Pooled(EVERY[:2]), Pooled(EVERY[1:])]
    removing = removed(model, [Head(1, 0)])
    with keeping_answers([model], named), counted() as tokens:
        part = read_one(model, Pooled([EVERY[3], EVERY[1]]))
        asked = sum(tokens)
        every = read_one(model, Pooled(EVERY))
        assert sum(tokens) == asked > 0  # both wholes were asked for their parts
        changed = read_one(model, Pooled([EVERY[3]]), [(), removing])
        assert asked < sum(tokens) < 1.5 * asked  # of a changed model no more than is wanted
    np.testing.assert_array_equal(every[0, [3, 1]], part[0])
    wholes = [read_one(model, Pooled(some))[0] for some in (EVERY[:2], EVERY[2:])]
    np.testing.assert_array_equal(every[0], np.concatenate(wholes))
    np.testing.assert_allclose(changed, read_one(model, Pooled([EVERY[3]]), [(), removing]), atol=1e-5)


def test_a_null_model_is_asked_no_more_of_a_named_reading_than_is_wanted() -> None:
    model = tiny("bert", "nsp")
    with as_null_model(model, draw_null_model(model, 1)):
        with counted() as alone:
            expected = read_one(model, Pooled(EVERY[:1]))
        with keeping_answers([model], [Pooled(EVERY)]), counted() as tokens:
            np.testing.assert_array_equal(read_one(model, Pooled(EVERY[:1])), expected)
    assert sum(tokens) == pytest.approx(sum(alone))


def test_a_symmetrized_model_asks_only_about_texts_that_nobody_has_asked() -> None:
    model, symmetry = tiny("bert", "nsp"), (Symmetrized(GenderSwap()),)
    texts = [Text("The nurse is here.", "She is kind."), Text("The nurse is here.", "He is kind."), EVERY[0]]
    expected = read_one(model, Pooled(texts), [symmetry])
    with keeping_answers([model], [Pooled(texts)]), counted() as tokens:
        read_one(model, Pooled(texts))
        asked = sum(tokens)
        mixed = read_one(model, Pooled(texts), [symmetry])
        assert sum(tokens) == asked > 0  # either sentence is the other one's counterpart
        alone = read_one(model, Pooled([Text("The nurse is here.", "Her coat is red.")]), [symmetry])
        assert sum(tokens) > asked
        nothing = Pooled([])
        assert read(model, [Pooled(texts), nothing])[nothing].shape[:2] == (1, 0)
    np.testing.assert_allclose(mixed, expected, atol=1e-6)
    assert alone.shape == (1, 1, 2)


@pytest.mark.parametrize(
    ("family", "head", "reading"),
    [
        ("gpt2", "causal", TokenLikelihoods(["The nurse is here.", "An engineer.", "It is late now."])),
        ("bert", "mlm", TokenLikelihoods(["The nurse is here.", "An engineer.", "It is late now."])),
        ("gpt2", "causal", TokenLogProbs(["The nurse said that", "An engineer", "It is"], [5, 7])),
        ("bert", "mlm", SentenceVectors(["The nurse is here.", "An engineer.", "It is late now."])),
    ],
    ids=["likelihoods", "masked likelihoods", "tokens", "sentences"],
)
def test_every_kind_of_answer_is_taken_apart_and_put_together(family: str, head: str, reading: Any) -> None:
    model = tiny(family, head)
    removing = removed(model, [Head(1, 0)])
    first = replace(reading, texts=reading.texts[1:2])
    turned = replace(reading, texts=reading.texts[::-1])
    with keeping_answers([model], [first]), counted() as tokens:
        given = read_one(model, reading, [removing, ()])
        asked = sum(tokens)
        back = read_one(model, turned, [()])
        read_one(model, reading, [(), removing])
        assert sum(tokens) < 1.9 * asked
    expected = read_one(model, reading, [removing, ()])
    if not isinstance(expected, TokenScores):
        np.testing.assert_allclose(given, expected, atol=1e-5)
        np.testing.assert_allclose(back[:, ::-1], expected[1:], atol=1e-5)
        return
    assert isinstance(given, TokenScores)
    assert isinstance(back, TokenScores)
    assert given.unscored == expected.unscored == back.unscored
    for own, other, answers in ((given, expected, [0, 1]), (_reversed(back), expected, [1])):
        for place, variant in enumerate(answers):
            for a, b in zip(own.values[place], other.values[variant], strict=True):
                np.testing.assert_allclose(a, b, atol=1e-5)
        assert [row.key for row in own.rows] == [row.key for row in other.rows]
        assert [list(p) for p in own.positions] == [list(p) for p in other.positions]


def _reversed(scores: TokenScores) -> TokenScores:
    return TokenScores([v[::-1] for v in scores.values], scores.rows[::-1], scores.positions[::-1])


def test_readings_that_are_asked_together_with_one_that_is_not_kept_are_asked_every_time() -> None:
    model = tiny("gpt2", "causal")
    tokens_of, likeliest = TokenLogProbs(["The nurse said that"], [5, 7]), Predictions(["The nurse"], 3)
    with keeping_answers([model], [tokens_of]), counted() as tokens:
        for _ in range(2):
            read(model, [tokens_of, likeliest])
        together = sum(tokens)
        read_one(model, tokens_of)
    assert sum(tokens) > together > 0
