"""Which bias a list is about: what it declares, else what most of its words show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.probes.bias import about_gender, data_hash, declared, none_ships
from levelhead.probes.words import WordTest, load_words

TARGETS = {"X": ["warm", "kind"], "Y": ["cold", "harsh"]}
STRAYS = ("mother", "king", "she", "he", "woman", "father", "girl", "actress")
VARIANTS = {
    "kinship": [("mom", "dad"), ("sister", "brother"), ("grandmother", "grandfather")],
    "capitals": [("Mother", "Father"), ("Aunt", "Uncle")],
    "masculine first": [("he", "she"), ("him", "her"), ("his", "hers")],
    "phrases": [("young woman", "young man"), ("old_lady", "old_gentleman")],
    "one way": [("mum", "dad"), ("ma'am", "sir")],
    "traits": [("feminine", "masculine"), ("womanly", "manly")],
    "three of five": [("she", "he"), ("girl", "boy"), ("wife", "husband"), ("red", "blue"), ("oak", "elm")],
}


def of_pairs(pairs: list[tuple[str, str]]) -> WordTest:
    return load_words({"pairs": pairs, **TARGETS})


def random_list(seed: int) -> WordTest:
    """40 pairs of words that are about nothing, with up to three gendered ones at random places."""
    rng = np.random.default_rng(seed)
    words = [f"{a}{b}{c}" for a in "bdfglmn" for b in "aeiou" for c in ("rd", "st", "nk")]
    chosen = [str(word) for word in rng.permutation(words)[:80]]
    for place, stray in zip(rng.permutation(80), rng.permutation(STRAYS)[: 1 + seed % 3], strict=False):
        chosen[int(place)] = str(stray)
    return of_pairs(list(zip(chosen[::2], chosen[1::2], strict=True)))


def test_none_of_61_random_lists_with_stray_gendered_words_is_about_gender() -> None:
    lists = [random_list(seed) for seed in range(61)]
    assert not any(map(about_gender, lists))
    assert not any(about_gender(replace(each, pairs=())) for each in lists)
    assert all("declare axis" in none_ships("next sentences", each) for each in lists)


@pytest.mark.parametrize("name", VARIANTS)
def test_lists_of_mostly_feminine_and_masculine_counterparts_are_about_gender(name: str) -> None:
    assert about_gender(of_pairs(VARIANTS[name]))


@pytest.mark.parametrize("name", ["gender", "career", "math", "science"])
def test_shipped_gender_lists_would_be_found_by_their_words_alone(name: str) -> None:
    shipped = load_words(name)
    assert shipped.axis == "gender"
    assert about_gender(replace(shipped, axis=""))
    assert about_gender(replace(shipped, axis="", pairs=()))
    assert about_gender(replace(shipped, axis="", A=shipped.B, B=shipped.A, pairs=()))


def test_half_of_the_pairs_is_not_most_of_them() -> None:
    assert not about_gender(of_pairs([("she", "he"), ("red", "blue")]))
    assert not about_gender(of_pairs([("she", "he"), ("man", "woman")]))  # each order has half


def test_words_of_two_genders_that_are_no_counterparts_make_no_gender_list() -> None:
    assert not about_gender(of_pairs([("mother", "son"), ("aunt", "nephew"), ("grandmother", "grandson")]))


def test_counterparts_need_not_stand_side_by_side() -> None:
    lists = {"A": ["woman", "girl", "mother"], "B": ["boy", "father", "man"], **TARGETS}
    assert about_gender(load_words(lists))


def test_lists_without_pairs_are_judged_by_most_words_of_either_side() -> None:
    mostly = {"A": ["she", "woman", "red"], "B": ["he", "man", "father", "blue"], **TARGETS}
    assert about_gender(load_words(mostly))
    one_side = {"A": ["she", "woman", "red"], "B": ["he", "green", "black", "blue"], **TARGETS}
    assert not about_gender(load_words(one_side))


def test_a_declared_axis_counts_whatever_the_words_are() -> None:
    colors = load_words({"axis": "Gender", "pairs": [("red", "blue")], **TARGETS})
    assert about_gender(colors)
    other = load_words({"axis": "politeness", "pairs": [("she", "he")], **TARGETS})
    assert not about_gender(other)
    assert none_ships("prompts", other) == "no prompts ship for own words"


def test_an_axis_must_be_a_text() -> None:
    with pytest.raises(BadProbe, match="axis is 3; it must be a text"):
        load_words({"axis": 3, "pairs": [("she", "he")], **TARGETS})


def test_parts_of_a_list_keep_the_axis_of_the_whole() -> None:
    whole = declared(of_pairs([("she", "he"), ("red", "blue"), ("oak", "elm")]))
    part = whole.of({"she", "he", "warm", "cold"})
    assert not about_gender(part)
    assert about_gender(replace(part, axis=""))


def test_an_axis_against_the_words_is_part_of_the_hash_and_any_other_is_not() -> None:
    gender = load_words("gender")
    assert data_hash(gender) == data_hash(replace(gender, axis="")) == gender.fingerprint()
    assert data_hash(replace(gender, axis="age")) != gender.fingerprint()


def test_a_gender_list_whose_sides_a_coin_has_exchanged_is_about_nothing() -> None:
    gender = load_words("gender")
    coins = np.random.default_rng(5).integers(0, 2, len(gender.pairs))
    together = {"her", "hers"}  # share counterparts: they stay on one side
    pairs = [
        (b, a) if coin and a not in together else (a, b)
        for (a, b), coin in zip(gender.pairs, coins, strict=True)
    ]
    assert about_gender(of_pairs(list(gender.pairs)))
    assert not about_gender(of_pairs(pairs))
