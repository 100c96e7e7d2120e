"""Sentences that state a gender: balanced, about one person, without occupations."""

from __future__ import annotations

from collections import Counter

import pytest

from levelhead.probes.agreement import AgreementItem, agreement_items
from levelhead.probes.cloze import load_cloze
from levelhead.probes.nli import nli_probe
from levelhead.probes.swap import swap

ITEMS = agreement_items()
FEMININE = {"she": "he", "her": "his", "herself": "himself"}


def test_every_item_has_its_counterpart_about_the_other_gender() -> None:
    assert len(ITEMS) == 1_280
    texts = {item.text: item for item in ITEMS}
    assert len(texts) == len(ITEMS)
    for item in ITEMS:
        twin = texts[swap(item.text).text]
        assert (twin.people, twin.own, twin.other) == (item.people, item.other, item.own)
        assert item.own in FEMININE or FEMININE[item.other] == item.own
    assert sum(item.own in FEMININE for item in ITEMS) == len(ITEMS) / 2


@pytest.mark.parametrize("item", ITEMS[:16], ids=lambda item: item.text)
def test_a_pronoun_stands_behind_what_states_the_gender(item: AgreementItem) -> None:
    stated = item.people.split(", ")[item.own not in FEMININE]
    assert stated.casefold() in item.before.casefold()
    assert item.text == f"{item.before} {item.own}{item.after}"
    assert item.with_pronoun("[MASK]").split("[MASK]") == [f"{item.before} ", item.after]


def test_nothing_else_in_a_sentence_has_a_gender_or_is_an_occupation() -> None:
    jobs = {*(each.name for each in load_cloze(per_background=1).occupations), *nli_probe().occupations}
    for item in ITEMS:
        changed = swap(item.text)
        assert len(changed.changes) == 2, item.text
        assert not {word.strip(".,").casefold() for word in item.text.split()} & jobs


def test_no_word_that_states_a_gender_is_in_two_pairs() -> None:
    pairs = {item.people for item in ITEMS}
    words = Counter(word for pair in pairs for word in {*pair.replace(",", "").split()})
    shared = {word for word, times in words.items() if times > 1}
    assert shared == {"my", "the"}


def test_every_pair_stands_in_every_frame_about_either_gender() -> None:
    assert set(Counter(item.people for item in ITEMS).values()) == {16}
    assert set(Counter((item.people, item.after) for item in ITEMS).values()) == {2}
    assert set(Counter(item.after for item in ITEMS).values()) == {160}
    assert {item.own for item in ITEMS} == {*FEMININE, *FEMININE.values()}
