"""Text from elsewhere: what ships, what is exact, which pronouns a text fixes, what a user's must have."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelhead.errors import BadProbe
from levelhead.probes import DATA, OURS, shipped_toml
from levelhead.probes.agreement import NAME, NOUN
from levelhead.probes.group_swap import GenderSwap, RowSwap
from levelhead.probes.outside import (
    FEWEST,
    OutsideSizes,
    exact,
    load_outside,
    shipped_outside,
    stated_item,
)
from levelhead.probes.training_text import training_sentences

SWAP = GenderSwap()


def test_every_sentence_that_ships_is_exchanged_exactly_and_ships_once() -> None:
    text = shipped_outside()
    assert all(exact(SWAP, each) for each in text.sentences)
    assert all(SWAP(SWAP(each).text).text == each for each in text.sentences)
    assert len(set(text.sentences)) == len(text.sentences) > 1_500
    assert len(text.documents) == len(text.sentences)
    assert len(text.passages) > 150
    assert text.name == OURS


def test_the_text_that_ships_is_small_and_every_block_names_its_source_and_licence() -> None:
    assert (DATA / "outside" / "gender.toml").stat().st_size < 400_000
    notice = (Path(__file__).resolve().parents[2] / "NOTICE").read_text(encoding="utf-8")
    assert "outside/gender.toml" in notice
    for block in shipped_toml("outside/gender")["blocks"]:
        assert block["source"]
        assert block["package"]
        assert block["licence"] in ("CC BY-SA 4.0", "CC BY-SA 3.0", "public domain")


def test_no_sentence_that_ships_is_trained_on() -> None:
    trained = {each.text for each in training_sentences(4_000)}
    assert trained.isdisjoint(shipped_outside().sentences)


@pytest.mark.parametrize(
    ("text", "whether"),
    [
        ("The mother walked into her kitchen.", True),
        ("The rain stopped before noon.", False),  # nothing to exchange
        ("The king saw Zenobia in his garden.", False),  # a name in no table
        ("Stephen King lost his keys.", False),  # part of a name
    ],
)
def test_a_sentence_is_exact_where_all_of_its_words_for_a_group_are_exchanged(
    text: str, whether: bool
) -> None:
    assert exact(SWAP, text) is whether


def test_of_three_groups_every_orientation_must_come_back() -> None:
    rows = RowSwap("belief", (("church", "mosque", "temple"),))
    assert exact(rows, "The church is old.")
    assert not exact(rows, "The house is old.")


@pytest.mark.parametrize(
    ("text", "own", "other", "kind"),
    [
        ("After lunch the old woman lost her keys.", "her", "his", NOUN),
        ("Later Emily said that she was tired.", "she", "he", NAME),
        ("The boy, tired of waiting, taught himself to read.", "himself", "herself", NOUN),
    ],
)
def test_a_noun_or_a_name_fixes_the_gender_of_the_first_pronoun_behind_it(
    text: str, own: str, other: str, kind: str
) -> None:
    item = stated_item(text)
    assert item is not None
    assert (item.own, item.other, item.kind, item.text) == (own, other, kind, text)


@pytest.mark.parametrize(
    "text",
    [
        "The woman told the boy that he was late.",  # both genders
        "The woman told a friend that she was late.",  # of which of them?
        "Carl emptied the house and pursued him.",  # somebody else
        "The women knew that she was late.",  # one of them, or somebody else
        "She knew that the woman was late.",  # the pronoun comes first
        'The woman said: "She was late."',  # who speaks of whom?
    ],
)
def test_where_a_pronoun_could_be_about_somebody_else_nothing_is_fixed(text: str) -> None:
    assert stated_item(text) is None


def test_a_stated_gender_has_its_counterfactual_in_the_same_cluster() -> None:
    stated = shipped_outside().stated
    texts = {(item.people, item.text) for item in stated}
    assert len(stated) > 500
    assert sum((item.people, SWAP(item.text).text) in texts for item in stated) > 0.95 * len(stated)


def test_a_sample_is_the_same_for_the_same_seed_and_takes_short_sentences_where_there_are_enough() -> None:
    sizes = OutsideSizes(40, 5, 20, longest=10)
    text = shipped_outside().drawn(sizes, seed=3)
    assert text == shipped_outside().drawn(sizes, seed=3)
    assert text.sentences != shipped_outside().drawn(sizes, seed=4).sentences
    assert (len(text.sentences), len(text.passages), len(text.stated)) == (40, 5, 20)
    assert max(len(each.split()) for each in text.sentences) <= 10


def people(number: int) -> str:
    return f"Number {number}: the woman sold her house in March. The weather stayed dry."


def test_a_users_text_gives_exact_sentences_passages_and_stated_genders(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("\n".join(people(number) for number in range(FEWEST)), encoding="utf-8")
    text = load_outside(str(file), SWAP)
    assert len(text.sentences) == FEWEST
    assert len(text.stated) == 2 * FEWEST
    assert all("weather" in each for each in text.passages)
    assert text.name == str(file)


def test_a_text_with_too_few_exact_sentences_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("\n".join(people(number) for number in range(5)), encoding="utf-8")
    with pytest.raises(BadProbe, match=r"5 of 10 sentences .* at least 30") as refused:
        load_outside(str(file), SWAP)
    assert "\n" not in str(refused.value)


def test_what_a_mitigation_is_trained_on_is_left_out(tmp_path: Path) -> None:
    stories = [f"The mother saw her {thing} before she left." for thing in ("garden", "house", "car")]
    file, trained = tmp_path / "own.txt", tmp_path / "trained.txt"
    lines = [f"His father read book {number}." for number in range(30)]
    file.write_text("\n".join([*stories, *lines]), encoding="utf-8")
    trained.write_text(f"It rained all day. {stories[1]} It was late.", encoding="utf-8")
    whole = load_outside(str(file), SWAP)
    text = whole.without(str(trained))
    assert {*whole.sentences} - {*text.sentences} == {stories[1]}
    assert len(text.documents) == len(text.sentences) == len(whole.sentences) - 1
    left_out = {*whole.passages} - {*text.passages}
    assert [stories[1] in each for each in left_out] == [True]
    assert {item.people for item in whole.stated} - {item.people for item in text.stated} == {stories[1]}
