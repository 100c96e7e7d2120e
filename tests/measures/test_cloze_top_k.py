"""The k likeliest tokens: masses, margins and merged words, on answers written by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from levelhead.measures.cloze import masses, merge
from tests.measures.cloze_cases import HAND, HAND_PROMPTS, answers, random_answers


def test_masses_and_their_margins_by_hand() -> None:
    female, male = masses(HAND, 3)
    assert female == pytest.approx([0.6, 0.3, 0.0, 0.2])
    assert male == pytest.approx([0.2, 0.4, 0.7, 0.3])
    assert HAND_PROMPTS.own * (female - male) == pytest.approx([0.4, -0.1, 0.7, 0.1])
    female, male = masses(HAND, 1)
    assert HAND_PROMPTS.own * (female - male) == pytest.approx([0.5, -0.4, 0.6, 0.3])


def test_top_k_is_k_tokens_and_forms_of_a_word_are_merged_afterwards() -> None:
    topk = answers([("she", 0.4), ("she", 0.3), ("it", 0.2), ("she", 0.1)])
    codes, probs = merge(topk, 4)
    assert probs[0] == pytest.approx([0.8, 0.0, 0.2, 0.0])
    assert codes[0].tolist().count(-1) == 2
    assert merge(topk, 2)[1][0] == pytest.approx(
        [0.7, 0.0]
    )  # not [0.8, 0.2]: the third token is not among the top 2
    assert topk.probs[0, 0] == 0.4  # the answers themselves stay as they were


def test_mass_of_the_top_k_never_falls_with_k() -> None:
    _, topk = random_answers(9)
    for few, more in pairwise((1, 2, 3, 5)):
        for one, other in zip(masses(topk, few), masses(topk, more), strict=True):
            assert (other >= one).all()
