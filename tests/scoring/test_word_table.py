"""Contexts numbered by word: what is missing, what is drawn, what fits into a model."""

from __future__ import annotations

import pytest

from levelhead.errors import BadProbe
from levelhead.probes.contexts import template_contexts
from levelhead.scoring.seat import fitting, sample_contexts, unknown_words, word_table
from tests.tiny import tiny
from tests.word_lists import GENDER


def test_words_without_context_are_counted_and_named() -> None:
    contexts = [c for c in template_contexts(GENDER, 1) if c.word not in ("nurse", "she")]
    table = word_table(GENDER, contexts)
    assert table.missing == ("she", "nurse")
    assert table.lost == 2
    with pytest.raises(BadProbe, match="none of the 6 words of Y"):
        word_table(GENDER, [c for c in contexts if c.group != "Y"])


def test_a_context_that_comes_twice_counts_once() -> None:
    contexts = template_contexts(GENDER, 2)
    assert word_table(GENDER, [*contexts, *contexts]) == word_table(GENDER, contexts)


def test_sampled_contexts_hold_each_word_once_and_repeat_with_their_seed() -> None:
    contexts = template_contexts(GENDER, 2)
    sample = sample_contexts(GENDER, contexts, 3, 1)
    assert len(sample) == len({(c.group, c.word) for c in sample}) == 12
    assert sample == sample_contexts(GENDER, contexts, 3, 1)
    assert sample != sample_contexts(GENDER, contexts, 3, 2)


def test_sampled_words_take_turns_in_which_of_their_contexts_is_used() -> None:
    contexts = template_contexts(GENDER, 2)
    first, second = ({c.text for c in contexts[turn::2]} for turn in (0, 1))
    texts = [c.text for c in sample_contexts(GENDER, contexts, 99, 0) if c.group == "X"]
    assert [text in first for text in texts] == [True, False] * 3
    assert [text in second for text in texts] == [False, True] * 3


def test_a_text_fits_as_long_as_its_tokens_have_positions() -> None:
    assert fitting(tiny("bert"), ["the nurse", "the nurse " * 60]) == [True, False]


def test_words_that_the_tokenizer_cannot_write_are_unknown() -> None:
    assert unknown_words(tiny("bert"), ["nurse", "Ω"]) == {"Ω"}
    assert unknown_words(tiny("gpt2"), ["nurse", "Ω"]) == set()  # bytes can write everything
