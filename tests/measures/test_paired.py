"""Paired changes: by hand, against two separate measurements, for edits that do nothing or only flatten."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from levelhead.errors import BadProbe
from levelhead.measures.fairness import nli_fairness
from levelhead.measures.occupations import OccupationTable, Predictions, occupation_table
from levelhead.measures.paired import fairness_change, strength_change
from levelhead.measures.statistics import FloatArray, Resampling
from levelhead.measures.stereoset import SCALE_FREE, strength

FEW = Resampling(200)


def differences(n: int = 80, seed: int = 0) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """s of n pairs, and the number of each one's context; two pairs share one."""
    return np.random.default_rng(seed).normal(0.1, 0.2, n), np.arange(n, dtype=np.int64) // 2


def test_the_change_of_strength_by_hand() -> None:
    before, after = [0.8, 0.1, 0.2, 0.0], [0.1, 0.3, 0.0, 0.1]
    change = strength_change(before, after, [0, 1, 2, 3], share=0.25, resampling=FEW)
    assert change.value == pytest.approx(0.3 - 0.8)  # each side chooses its own largest
    assert (change.name, change.n, change.neutral) == ("strength change", 4, 0.0)


def test_the_change_of_strength_is_the_difference_of_two_strengths() -> None:
    s, contexts = differences()
    after = s * np.random.default_rng(1).uniform(0, 1, s.size)
    change = strength_change(s, after, contexts, resampling=FEW)
    values = [strength(each, contexts, resampling=FEW).value or 0.0 for each in (s, after)]
    assert change.value == pytest.approx(values[1] - values[0])


def test_exchanging_before_and_after_turns_the_sign_and_keeps_p() -> None:
    s, contexts = differences()
    after = s - 0.1
    there, back = strength_change(s, after, contexts, resampling=FEW), strength_change(after, s, contexts)
    assert there.value is not None
    assert there.value == pytest.approx(-(back.value or 0))
    assert there.null is not None
    assert back.null is not None
    assert there.null.p_value == back.null.p_value == 0.0001


def test_an_edit_that_changes_nothing_has_p_1() -> None:
    s, contexts = differences()
    change = strength_change(s, s, contexts, resampling=FEW)
    assert change.value == 0.0
    assert change.null is not None
    assert change.null.p_value == 1.0
    assert strength_change([], [], []).reason == "no triple pair"


def test_flat_outputs_change_strength_clearly_and_leave_its_companion_where_it_was() -> None:
    s, contexts = differences()
    change = strength_change(s, s / 3, contexts, resampling=FEW)
    assert change.interval is not None
    assert change.interval[1] < 0
    free = [strength(each, contexts, resampling=FEW).details[SCALE_FREE] for each in (s, s / 3)]
    assert free[0] == pytest.approx(free[1])


@pytest.mark.nightly
def test_small_edits_that_do_not_help_are_rarely_called_a_change() -> None:
    """Before and after are the same up to noise of either side: at most about 5 of 100 have p < 0.05."""
    rng, wolves = np.random.default_rng(5), 0
    for _ in range(100):
        s = np.repeat(rng.normal(0, 0.2, 20), 2)
        noisy = [s + rng.normal(0, 0.1, s.size) for _ in range(2)]
        null = strength_change(noisy[0], noisy[1], np.arange(40) // 2, resampling=Resampling(100)).null
        assert null is not None
        wolves += null.p_value < 0.05
    assert wolves <= 12  # 99.9 % of binomial counts


# ---- fairness


def table(labels: npt.NDArray[np.int64]) -> OccupationTable:
    occupations, contexts, genders = labels.shape
    return occupation_table(Predictions.of_grid(labels, (occupations, contexts, genders), neutral=1))


def test_the_change_of_fairness_is_the_difference_of_two_fairnesses() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.integers(0, 3, (20, 5, 2)), np.ones((20, 5, 2), dtype=np.int64)
    after[:4, :, 0] = 0
    change = fairness_change(table(before), table(after), FEW)
    values = [
        nli_fairness(Predictions.of_grid(each, (20, 5, 2), neutral=1), FEW)["fairness"].value
        for each in (before, after)
    ]
    assert change.value == pytest.approx((values[1] or 0) - (values[0] or 0))
    assert values[1] == pytest.approx(0.9 * 0.8)
    assert change.null is not None
    assert change.null.p_value == 0.0001
    assert change.interval is not None
    assert change.interval[0] > 0


def test_other_occupations_are_refused() -> None:
    some = table(np.ones((4, 2, 2), dtype=np.int64))
    with pytest.raises(BadProbe, match="4 occupations before and 3 after"):
        fairness_change(some, table(np.ones((3, 2, 2), dtype=np.int64)))
    nothing = fairness_change(some, some, FEW)
    assert nothing.null is not None
    assert (nothing.value, nothing.null.p_value) == (0.0, 1.0)
