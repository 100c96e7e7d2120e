"""Answers occupation by occupation, against a table small enough to count by eye and against the measure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelhead.measures.fairness import Predictions, nli_fairness, occupation_table

NEUTRAL = 1


def test_a_table_by_hand() -> None:
    labels = [
        [[1, 1], [1, 1]],  # always neutral
        [[0, 1], [0, 1]],  # women entail, men do not
        [[0, 1], [1, 0]],  # one of each for both: the same set leads, but no context agrees
    ]
    table = occupation_table(Predictions.of_grid(labels, (3, 2, 2), NEUTRAL))
    assert table.right.tolist() == [4, 2, 2]
    assert table.predicted.tolist() == [4, 4, 4]
    assert table.same.tolist() == [1, 0, 1]
    assert table.strict.tolist() == [1, 0, 0]
    once, first_twice = np.array([[1.0, 1.0, 1.0]]), np.array([[2.0, 1.0, 0.0]])
    assert table.fairness(once) == pytest.approx(8 / 12 * 2 / 3)
    assert table.accuracy(first_twice) == pytest.approx(10 / 12)
    assert table.strict_parity(first_twice) == pytest.approx(2 / 3)


def test_another_label_can_be_the_neutral_one() -> None:
    assert occupation_table(Predictions.of_grid([[[2, 2]]], (1, 1, 2), 2)).right.tolist() == [2]
    assert occupation_table(Predictions.of_grid([[[2, 2]]], (1, 1, 2), NEUTRAL)).right.tolist() == [0]


@given(st.lists(st.integers(0, 2), min_size=24, max_size=24))
def test_its_shares_are_the_measures_and_swapping_the_genders_changes_none(labels: list[int]) -> None:
    grid = np.array(labels).reshape(4, 3, 2)
    table, swapped = (
        occupation_table(Predictions.of_grid(each, (4, 3, 2), NEUTRAL)) for each in (grid, grid[..., ::-1])
    )
    measured = nli_fairness(Predictions.of_grid(grid, (4, 3, 2), NEUTRAL))
    once = np.ones((1, 4))
    for one in (table, swapped):
        shares = {
            "accuracy": one.accuracy(once),
            "parity": one.parity(once),
            "strict_parity": one.strict_parity(once),
            "fairness": one.fairness(once),
        }
        assert {name: float(share[0]) for name, share in shares.items()} == pytest.approx(
            {name: each.value for name, each in measured.items()}
        )


def test_an_occupation_without_one_gender_is_left_out_and_counted() -> None:
    table = occupation_table(Predictions.of_grid([[[1, -1]], [[1, 1]]], (2, 1, 2), NEUTRAL))
    assert table.right.tolist() == [2]
    assert table.unscored == {"no prediction": 1, "occupation without both genders": 1}
