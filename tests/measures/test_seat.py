"""SEAT over vectors: against loops, before and after, and what cannot be measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.measures.clustered import permutation_p_value
from levelhead.measures.seat import associations, seat_measurement
from tests.measures.seat_cases import slow_seat, some_vectors


def test_seat_equals_a_slow_loop() -> None:
    vectors = some_vectors()
    assert seat_measurement(vectors).value == pytest.approx(slow_seat(vectors), abs=1e-12)


def test_swapping_attributes_or_targets_flips_the_sign() -> None:
    v = some_vectors()
    value = seat_measurement(v).value
    assert value is not None
    assert seat_measurement({"A": v["B"], "B": v["A"], "X": v["X"], "Y": v["Y"]}).value == pytest.approx(
        -value
    )
    assert seat_measurement({"A": v["A"], "B": v["B"], "X": v["Y"], "Y": v["X"]}).value == pytest.approx(
        -value
    )


def test_length_of_vectors_and_order_of_words_do_not_matter() -> None:
    v = some_vectors()
    other = {name: w[::-1] * np.arange(1, len(w) + 1)[:, None] for name, w in v.items()}
    assert seat_measurement(other).value == pytest.approx(seat_measurement(v).value)


def test_a_planted_association_is_seen_and_its_removal_too() -> None:
    rng = np.random.default_rng(0)
    gender = np.eye(20)[0] * 3
    lean = {"A": gender, "B": -gender, "X": gender, "Y": -gender}
    planted = {name: rng.normal(size=(12, 20)) + shift for name, shift in lean.items()}
    removed = {name: vectors * (np.arange(20) > 0) for name, vectors in planted.items()}
    before, after = seat_measurement(planted), seat_measurement(removed)
    assert before.value is not None
    assert after.value is not None
    assert before.interval is not None
    assert before.value > 1.5
    assert before.details["p_value"] == pytest.approx(1e-5, rel=0.01)
    assert before.interval[0] > abs(after.value)
    assert before.interval[1] <= 2.0


def test_the_permutation_p_value_is_that_of_the_associations() -> None:
    v = some_vectors()
    s_x, s_y = (associations(v[name], v["A"], v["B"]) for name in "XY")
    measured = seat_measurement(v)
    expected = permutation_p_value(s_x, s_y)
    assert (measured.details["p_value"], measured.details["partitions"]) == (
        expected.p_value,
        math.comb(15, 6) - 1,
    )
    assert measured.settings["seed"] == 0


# --- what cannot be measured


def test_one_word_sets_and_equal_words_are_not_measured_with_a_reason() -> None:
    v = some_vectors()
    assert "at least 2" in seat_measurement({**v, "X": v["X"][:1]}).reason
    same = {**v, "X": np.ones((3, 12)), "Y": np.ones((4, 12))}
    assert "standard deviation is 0" in seat_measurement(same).reason
    assert "standard deviation is 0" in seat_measurement({**v, "B": v["A"][::-1]}).reason
    assert seat_measurement({**v, "A": np.empty((0, 12))}).reason == "no item in A"


def test_bad_vectors_and_bad_set_names_are_refused() -> None:
    v = some_vectors()
    with pytest.raises(BadProbe, match="zero or not finite"):
        seat_measurement({**v, "A": np.zeros((2, 12))})
    with pytest.raises(BadProbe, match="exactly A, B"):
        seat_measurement({"A": v["A"]})
