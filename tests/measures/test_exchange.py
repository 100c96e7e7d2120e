"""Group words exchanged by a coin: the p by hand, what it does not depend on, and that it is one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from levelhead.measures.exchange import Exchange, exchange, held_fixed
from levelhead.measures.measurement import P_EXCHANGE, P_NULL_MODELS, Measurement, Null
from levelhead.measures.null import says_too_little

PAIRS = [("she", "he"), ("aunt", "uncle"), ("nun", "monk")]
SIDES = (("she", "aunt", "nun"), ("he", "uncle", "monk"))
VALUES = {"she": 3.0, "he": 0.0, "aunt": 2.0, "uncle": 0.0, "nun": 0.0, "monk": 1.0}  # gaps 3, 2, −1


def test_p_by_hand_on_three_pairs() -> None:
    # |±3 ±2 ±1| ≥ 4: the observed 4, 6, and their mirror images
    assert exchange(VALUES, SIDES, PAIRS) == Exchange(4 / 8, 2 / 8, 3)


def test_pairs_of_one_family_are_exchanged_together() -> None:
    pairs = [("mother", "father"), ("motherly", "fatherly"), ("nun", "monk")]
    values = {"mother": 3.0, "father": 0.0, "motherly": 2.0, "fatherly": 0.0, "nun": 0.0, "monk": 1.0}
    sides = (("mother", "motherly", "nun"), ("father", "fatherly", "monk"))
    assert exchange(values, sides, pairs) == Exchange(1.0, 2 / 4, 2)  # |±5 ±1| ≥ 4: all of them


def test_words_without_pairs_are_dealt_between_the_sides() -> None:
    # 6 splits of 4 words; only the observed one and its mirror image lie 1 apart or more
    values = {"she": 2.0, "aunt": 1.0, "he": 0.5, "uncle": 0.0}
    found = exchange(values, (("she", "aunt"), ("he", "uncle")), [])
    assert found == Exchange(2 / 6, 2 / 6, None)


def test_all_pairs_exchanged_have_the_same_p() -> None:
    turned = exchange(VALUES, SIDES[::-1], [(b, a) for a, b in PAIRS])
    assert turned == exchange(VALUES, SIDES, PAIRS)


def test_the_scale_and_a_common_shift_do_not_matter() -> None:
    moved = {word: 10 * value + 7 for word, value in VALUES.items()}
    assert exchange(moved, SIDES, PAIRS) == exchange(VALUES, SIDES, PAIRS)


def test_pairs_that_lean_the_other_way_claim_nothing() -> None:
    found = exchange(VALUES, SIDES, PAIRS, leans=-1.0)
    assert found is not None
    assert found.p_value == 1.0


def test_a_side_without_a_scored_word_has_no_exchange() -> None:
    assert exchange({"she": 1.0}, SIDES, PAIRS) is None


def test_p_is_at_most_its_level_on_lists_without_meaning_and_small_with_one() -> None:
    rng = np.random.default_rng(3)
    pairs = [(f"{chr(97 + i) * 3}x", f"{chr(97 + i) * 3}y") for i in range(20)]
    sides = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    words = [word for pair in pairs for word in pair]
    p = []
    for _ in range(200):
        values = dict(zip(words, rng.standard_t(3, len(words)).tolist(), strict=True))
        found = exchange(values, sides, pairs)
        assert found is not None
        p.append(found.p_value)
    assert np.mean(np.asarray(p) < 0.05) < 0.09
    assert 0.4 < np.median(p) < 0.6
    leaning = {word: value + (2.0 if word in sides[0] else 0.0) for word, value in values.items()}
    strong = exchange(leaning, sides, pairs)
    assert strong is not None
    assert strong.p_value < 0.01


MEASURED = Measurement(
    "seat",
    0.5,
    (0.2, 0.8),
    null=Null("null models; p two-sided", 5, 0.0, 0.1, 0.002),
    details={"spread": 1.0},
)


def test_the_larger_p_counts_and_both_are_kept() -> None:
    held = Exchange(0.3, 0.0001, 61).on(MEASURED)
    assert held.null is not None
    assert held.null.exchanged
    assert held.p_value == 0.3
    assert (held.details[P_NULL_MODELS], held.details[P_EXCHANGE]) == (0.002, 0.3)
    assert held.null.of_models
    assert held.held_against_models
    assert not says_too_little(held.null)  # more null models would not help
    assert held_fixed(held) == MEASURED.null
    assert Exchange.of(held) == Exchange(0.3, 0.0001, 61)


def test_a_smaller_p_of_exchanged_words_changes_nothing_but_is_kept() -> None:
    held = Exchange(0.0001, 0.0001, 61).on(MEASURED)
    assert held.null == MEASURED.null
    assert held.details[P_EXCHANGE] == 0.0001


def test_without_a_null_the_larger_of_the_two_p_counts() -> None:
    own = replace(MEASURED, null=None, details={"p_value": 0.001})
    assert own.p_value == 0.001
    assert Exchange(0.3, 0.25, 3).on(own).p_value == 0.3


def test_too_few_pairs_say_so() -> None:
    assert Exchange(1.0, 1.0, 1).why_not == "1 pair that shares no stem: the smallest possible p is 1"
    assert Exchange(0.25, 0.25, 3).why_not == "3 pairs that share no stem: the smallest possible p is 0.25"


@pytest.mark.parametrize("families", [None, 4])
def test_what_a_measurement_of_an_older_run_has_is_no_exchange(families: int | None) -> None:
    assert Exchange.of(None) is None
    assert Exchange.of(MEASURED) is None
    assert Exchange.of(Exchange(0.5, 0.1, families).on(MEASURED)) == Exchange(0.5, 0.1, families)
