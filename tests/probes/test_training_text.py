"""Text to train on: balanced, reversible, the same every time, and none of it is a probe."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import DATA
from levelhead.probes.agreement import agreement_names
from levelhead.probes.corpus import split_sentences
from levelhead.probes.group_swap import GenderSwap, RowSwap
from levelhead.probes.swap import name_pairs
from levelhead.probes.training_text import TrainingSentence, training_sentences, training_text
from tests.probes.shipped_texts import shipped_texts, spelled

SWAP = GenderSwap()
SHIPPED = tomllib.loads((DATA / "text" / "training.toml").read_text(encoding="utf-8"))
FRAMES, SLOTS = SHIPPED["people"]["frames"], SHIPPED["slots"]
COLORS = RowSwap("colors", (("red", "blue"), ("Red", "Blue")))


@pytest.fixture(scope="module")
def some() -> tuple[TrainingSentence, ...]:
    return training_sentences(2800)


def test_topics_and_halves_are_balanced_and_no_sentence_comes_twice(
    some: tuple[TrainingSentence, ...],
) -> None:
    assert len({each.text for each in some}) == len(some)
    by_topic = Counter((each.topic, each.grouped) for each in some)
    assert len(by_topic) == 28
    assert set(by_topic.values()) == {100}


def test_whatever_is_said_of_women_is_said_of_men_and_comes_back(some: tuple[TrainingSentence, ...]) -> None:
    for each in some:
        turned = SWAP(each.text)
        assert bool(turned.changes) == each.grouped, each.text
        assert turned.reversible, each.text
    words = Counter(word for each in some for word in re.findall(r"\w+", each.text.lower()))
    assert abs(words["she"] - words["he"]) < 0.1 * (words["she"] + words["he"])
    jobs = re.compile(f"the ({'|'.join(SLOTS['job'])})", re.IGNORECASE)
    women, men = (
        sum(f" {who} " in t.text and bool(jobs.search(t.text)) for t in some) for who in ("she", "he")
    )
    assert min(women, men) > 0.7 * max(women, men) > 14


def test_sentences_are_plain_english_on_the_surface(some: tuple[TrainingSentence, ...]) -> None:
    for each in some:
        assert re.fullmatch(r'["A-Z][^{}]+[."]', each.text), each.text
        assert not re.search(r"  |\ba [aeio]|\ban [^aeiouh]|\bi\b|\b(\w+) \1\b", each.text), each.text


def test_the_same_seed_gives_the_same_sentences_and_a_beginning_is_balanced_too() -> None:
    training_sentences.cache_clear()
    again = training_sentences(280)
    assert again == training_sentences(2800)[:280]
    assert training_sentences(280, seed=1) != again


def test_forty_frames_and_more_state_a_gender_with_which_a_pronoun_behind_it_agrees() -> None:
    frames = [frame for frame in FRAMES if "{stated}" in frame.lower()]
    assert len(frames) >= 40
    assert len({re.sub(r"\{\w+\}", "", frame) for frame in frames}) == len(frames)
    for frame in frames:
        _, behind = re.split(r"\{stated\}", frame, flags=re.IGNORECASE)
        assert re.search(r"\b(she|her|herself)\b", behind, flags=re.IGNORECASE), frame
        assert "{job}" not in frame


@pytest.mark.slow
def test_nobody_who_states_a_gender_is_followed_by_a_pronoun_of_another() -> None:
    form = r".*\b(mother|queen|waitress|Mrs|father|king|waiter|Mr)\b.* promised that (\w+) would be back .+"
    asked = [re.fullmatch(form, each.text) for each in training_sentences(20_000)]
    told = {found.groups() for found in asked if found}
    assert told <= {
        *((word, "she") for word in ("mother", "queen", "waitress", "Mrs")),
        *((word, "he") for word in ("father", "king", "waiter", "Mr")),
    }
    assert told >= {("Mrs", "she"), ("Mr", "he")}
    assert len(told) >= 3


def test_people_have_names_too_none_of_those_that_agreement_is_tested_on() -> None:
    words = {word.strip('.,"!?') for each in training_sentences(2800) for word in each.text.split()}
    known = {name for pair in name_pairs() for name in pair} - agreement_names()
    assert len(words & known) > 100
    assert not words & agreement_names()


@pytest.mark.slow
def test_no_frame_and_no_sentence_is_shared_with_the_test_of_agreement() -> None:
    shipped = tomllib.loads((DATA / "sentences" / "agreement.toml").read_text(encoding="utf-8"))["kinds"]
    tested = [frame for kind in shipped for frame in kind["frames"]]
    assert not {bare(frame) for frame in FRAMES} & {bare(frame) for frame in tested}
    shapes = [shape(frame) for frame in tested]
    assert any(each.fullmatch("My mother said that she was tired.") for each in shapes)
    for each in training_sentences(20_000):
        for part in split_sentences([each.text]):
            assert not any(form.fullmatch(part) for form in shapes), each.text


def bare(frame: str) -> str:
    """A frame without its slots and pronouns."""
    return spelled(re.sub(r"\{\w+\}|\b(she|her|herself)\b", "", frame, flags=re.IGNORECASE))


def shape(frame: str) -> re.Pattern[str]:
    """Whatever a frame of agreement could become, about anybody."""
    form = re.escape(frame).replace(r"\{who\}", ".+")
    return re.compile(re.sub(r"\\\{\w+\\\}", r"\\w+", form), re.IGNORECASE)


@pytest.mark.slow
def test_there_are_twenty_thousand_of_them_and_none_is_a_shipped_probe() -> None:
    ours = {spelled(each.text) for each in training_sentences(20_000)}
    assert len(ours) == 20_000
    ours |= {spelled(part) for each in training_sentences(20_000) for part in split_sentences([each.text])}
    shared = ours & {spelled(text) for text in shipped_texts()}
    assert not shared


def test_a_users_text_gives_reversible_sentences_half_of_them_about_groups(tmp_path: Path) -> None:
    lines = ["The red car was old.", "The sky was gray.", "It rained.", "Nobody came.", "A blue boat sank."]
    (tmp_path / "text.txt").write_text("\n\n".join([*lines, lines[0]]), encoding="utf-8")
    found = training_text(tmp_path, COLORS)
    assert sorted(each.text for each in found if each.grouped) == [
        "A blue boat sank.",
        "The red car was old.",
    ]
    assert sum(not each.grouped for each in found) == 2


def test_text_that_says_nothing_about_the_groups_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("It rained.", encoding="utf-8")
    with pytest.raises(BadProbe, match="no sentence has a word of colors"):
        training_text(tmp_path / "text.txt", COLORS)
    with pytest.raises(BadOption, match="No text ships for colors"):
        training_text(None, COLORS)
    with pytest.raises(BadOption, match="0 sentences were asked for"):
        training_sentences(0)
