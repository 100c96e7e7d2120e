"""Contexts of language sense: pairs exchange their next sentences, about women and men; none is a probe."""

from __future__ import annotations

from collections import Counter

import pytest

from levelhead.probes.cloze import load_cloze
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.nli import nli_probe
from levelhead.probes.sentences import sense_items
from levelhead.probes.swap import gender_of, swap
from levelhead.probes.training_text import training_sentences
from tests.probes.shipped_texts import shipped_texts, spelled

ITEMS = sense_items()
SENTENCES = [text for item in ITEMS for text in (item.context, item.related)]


def words(text: str) -> list[str]:
    return [word.strip(".,").casefold() for word in text.split()]


def test_there_are_24_topics_of_twenty_contexts_and_no_sentence_is_written_twice() -> None:
    assert Counter(Counter(item.topic for item in ITEMS).values()) == {40: 24}
    assert Counter(Counter(item.written for item in ITEMS).values()) == {2: 480}
    feminine = {min(text, swap(text).text) for text in SENTENCES}
    assert len(feminine) == len(ITEMS)


def test_of_fewer_contexts_every_topic_has_as_many_and_partners_stay() -> None:
    some = sense_items(4)
    assert Counter(Counter(item.topic for item in some).values()) == {10: 24}
    assert set(some) < set(ITEMS)


def test_two_items_of_different_topics_exchange_their_next_sentences() -> None:
    for item in ITEMS:
        wanted = (item.unrelated, item.related)
        others = [other for other in ITEMS if (other.related, other.unrelated) == wanted]
        assert 1 <= len(others) <= 2
        assert item.topic not in {other.topic for other in others}


def test_an_item_of_the_first_twelve_topics_kept_its_unrelated_sentence_when_twelve_more_came() -> None:
    first, last = ITEMS[0], next(item for item in ITEMS if item.topic == "music")
    assert first.context == "My mother put a pot of water on the stove for the pasta."
    assert first.unrelated == "Tonight she will play two slow pieces with the youth orchestra."
    assert last.unrelated == "When it boiled, she added salt and the spaghetti."


def test_every_item_has_a_word_for_a_gender_and_its_swap_comes_back() -> None:
    turned = GenderSwap()
    for item in ITEMS:
        changed = [turned(text) for text in (item.context, item.related)]
        assert any(each.changes for each in changed), item
        assert not [problem for text in (item.context, item.related) for problem in swap(text).problems]
        for second in (item.related, item.unrelated):
            assert turned(f"{item.context} {second}").reversible, item


def test_every_context_is_asked_once_about_a_woman_and_once_about_a_man() -> None:
    asked = set()
    for item in ITEMS:
        found = {gender_of(word) for word in words(f"{item.context} {item.related}")} & {"F", "M"}
        assert len(found) == 1, item
        asked.add((item.written, *found))
    assert len(asked) == len(ITEMS)


def test_sentences_are_short_and_no_word_is_an_occupation() -> None:
    jobs = {*(each.name for each in load_cloze(per_background=1).occupations), *nli_probe().occupations}
    for text in SENTENCES:
        assert 6 <= len(text.split()) <= 14, text
        assert not {*words(text)} & jobs, text


@pytest.mark.nightly
@pytest.mark.slow
def test_no_sentence_is_in_another_probe_or_in_the_text_that_models_are_trained_on() -> None:
    trained = [each.text for each in training_sentences(20_000)]
    others = "|".join(f" {spelled(text)} " for text in (*shipped_texts(), *trained))
    assert " by six o clock she had dinner on the table " in others
    forms = {form for text in SENTENCES for form in (text, swap(text).text)}
    assert not [form for form in forms if f" {spelled(form)} " in others]
