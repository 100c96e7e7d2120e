"""Sentences that state a gender: balanced, about one person, without occupations."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from levelhead.probes.agreement import (
    NAME,
    NOUN,
    TITLE,
    AgreementItem,
    agreement_for,
    agreement_items,
    agreement_names,
    group_items,
    why_no_agreement,
)
from levelhead.probes.bias import swap_for
from levelhead.probes.cloze import load_cloze
from levelhead.probes.nli import nli_probe
from levelhead.probes.swap import name_pairs, swap
from levelhead.probes.words import load_words

ITEMS = agreement_items()
KINDS = {kind: [item for item in ITEMS if item.kind == kind] for kind in (NOUN, NAME, TITLE)}
FEMININE = {"she": "he", "her": "his", "herself": "himself", "She": "He", "Her": "His"}
KNOWN = {name for pair in name_pairs() for name in pair}


def test_names_and_titles_are_as_many_as_nouns() -> None:
    assert len(KINDS[NOUN]) == len(KINDS[NAME]) + len(KINDS[TITLE]) == 1_264
    assert len({item.text for item in ITEMS}) == len(ITEMS)
    assert sum(item.own in FEMININE for item in ITEMS) == len(ITEMS) / 2
    assert not {item.after for item in KINDS[NOUN]} & {item.after for item in KINDS[NAME]}


def test_names_are_read_across_a_sentence_boundary_and_with_title_and_surname() -> None:
    befores = [item.before for item in KINDS[NAME]]
    assert any(text.endswith(".") for text in befores)
    assert any(text.startswith("Dr. ") for text in befores)
    assert any("Bennett" in text for text in befores)


def test_a_third_of_the_names_is_in_no_table() -> None:
    names = {name for item in KINDS[NAME] for name in item.people.split(", ")}
    assert len(names) == 2 * 74
    assert 40 <= len(names - KNOWN) <= 50
    assert names == agreement_names()


@pytest.mark.parametrize("kind", [NOUN, TITLE])
def test_every_item_has_its_counterpart_about_the_other_gender(kind: str) -> None:
    texts = {item.text: item for item in KINDS[kind]}
    for item in KINDS[kind]:
        if "Ms." in item.text or "Miss" in item.text or "Mr." in item.text:
            continue  # titles of women share the one of men
        other = texts[swap(item.text).text]
        assert (other.people, other.own, other.other) == (item.people, item.other, item.own)


def test_names_of_the_table_and_their_pronouns_are_what_a_swap_changes() -> None:
    for item in KINDS[NAME]:
        changed = [change.original for change in swap(item.text, names=True).changes]
        named = [name for name in item.people.split(", ") if name in item.text and name in KNOWN]
        assert changed in ([*named, item.own], [item.own]), item.text


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
        assert len(changed.changes) == (1 if item.kind == NAME else 2), item.text
        assert not {word.strip(".,").casefold() for word in item.text.split()} & jobs


def test_no_word_that_states_a_gender_is_in_two_pairs() -> None:
    pairs = {item.people for item in ITEMS}
    words = Counter(word for pair in pairs for word in {*pair.replace(",", "").split()})
    shared = {word for word, times in words.items() if times > 1}
    assert shared == {"my", "the"}


def test_every_pair_stands_in_every_frame_about_either_gender() -> None:
    for kind in (NOUN, NAME):
        assert set(Counter(item.people for item in KINDS[kind]).values()) == {16}
        assert set(Counter((item.people, item.after) for item in KINDS[kind]).values()) == {2}
    assert {item.own for item in ITEMS} == {*FEMININE, *FEMININE.values()}
    assert {item.people for item in KINDS[TITLE]} == {TITLE}  # they share Mr., so that no part has only some


# ---- other groups


@pytest.mark.parametrize("axis", ["race", "religion", "age", "nationality", "disability"])
def test_a_shipped_list_exchanges_what_its_sentences_state_and_what_must_agree(axis: str) -> None:
    """So that the imam's mosque becomes the priest's church as a whole, and comes back."""
    exchange, items = swap_for(load_words(axis)), group_items()[axis]
    assert agreement_for(load_words(axis)) == items
    assert len(items) >= 280
    assert len({item.people for item in items}) >= 10
    assert len({item.sentences for item in items}) == len(items)
    two_groups = items[::3] if axis == "religion" else items  # the list says nothing of Jews
    for item in two_groups:
        (one, crossed), (crossed_back, other) = item.sentences
        for first, second in ((one, other), (crossed, crossed_back)):
            assert exchange(first).reversible, first
            # articles follow no exchange: an American, a Honduran
            swapped, expected = (
                re.sub(r"(?i)\ban ", "a ", x).casefold() for x in (exchange(first).text, second)
            )
            assert swapped == expected


def test_a_list_of_ones_own_has_the_sentences_in_which_it_changes_a_word() -> None:
    pairs = [["mosque", "church"], ["muslim", "christian"]]
    pairs += [["imam", "priest"], ["quran", "bible"], ["ramadan", "lent"]]
    own = {"X": ["violent"], "Y": ["peaceful"], "pairs": pairs}
    faiths, test = group_items()["religion"], load_words(own)
    found = agreement_for(test)
    assert len(faiths) / 2 < len(found) <= len(faiths)
    assert {*found} <= {*faiths}
    assert agreement_for(replace(test, axis="religion")) == found
    assert agreement_for(replace(test, axis="cuisine")) == ()
    assert agreement_for(load_words({**own, "pairs": [["tea", "coffee"]]})) == ()
    assert "no sentence that ships" in why_no_agreement(load_words("class"))
    assert not why_no_agreement(load_words("religion"))
