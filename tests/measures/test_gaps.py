"""Paired gaps and excess distance: by hand, silent without an effect, and loud with one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.measures.gaps import Design, excess_distance, paired_gap
from tests.measures.worlds import DRAWS, MOST, QUICK, WORLDS, claims, p_of

FRAMES, SAMPLES = 24, 6


def world_of_scores(rng: np.random.Generator, groups: int, shift: float) -> tuple[np.ndarray, Design]:
    """Scores of texts; the first group's are higher by a share of their standard deviation."""
    frame = np.repeat(np.arange(FRAMES), groups * SAMPLES)
    group = np.tile(np.repeat(np.arange(groups), SAMPLES), FRAMES)
    value = rng.normal(0, 1, FRAMES)[frame] + rng.normal(0, 1, frame.size) + shift * (group == 0)
    labels = np.asarray(list("abcdefg"))[group]
    return value, Design(frame, labels, frame // 2, tuple("abcdefg"[:groups]))


def test_a_gap_is_the_mean_over_frames_of_differences_of_means() -> None:
    design = Design(list("11112222"), list("aabbaabb"), list("11112222"))
    found = paired_gap("length", [1, 3, 0, 0, 5, 5, 1, 3], design, QUICK)
    assert list(found) == ["a"]
    assert found["a"].value == pytest.approx(((2 - 0) + (5 - 2)) / 2)
    assert (found["a"].details["mean, a"], found["a"].details["mean, b"]) == (3.5, 1.0)
    turned = paired_gap("length", [1, 3, 0, 0, 5, 5, 1, 3], replace(design, order=("b", "a")), QUICK)
    assert turned["b"].value == pytest.approx(-2.5)


def test_texts_without_a_score_are_counted_and_frames_without_a_side_are_left_out() -> None:
    design = Design(list("1122334"), list("abababa"), list("1122334"))
    found = paired_gap("length", [1, 0, 2, None, 3, 1, 9], design, QUICK)["a"]
    assert found.value == pytest.approx(1.5)
    assert found.unscored == {"no score": 1, "frames without a scored text of every group": 2}
    with pytest.raises(BadProbe, match="two groups at least"):
        paired_gap("length", [1, 2], Design([1, 2], ["a", "a"], [1, 2]), QUICK)


def test_of_more_groups_each_is_compared_with_the_mean_of_the_others() -> None:
    design = Design(np.repeat([1, 2], 3), list("abcabc"), np.repeat([1, 2], 3))
    found = paired_gap("length", [3, 1, 2, 5, 1, 0], design, QUICK, draws=DRAWS)
    assert [found[group].value for group in "abc"] == pytest.approx([3.0, -1.5, -1.5])
    alone = found["a"].details["p, this group alone"]
    assert alone is not None
    assert found["a"].p_value is not None
    assert found["a"].p_value >= alone


@pytest.mark.parametrize("groups", [2, 4])
def test_gaps_claim_nothing_without_an_effect_and_find_a_third_of_a_standard_deviation(groups: int) -> None:
    def world(shift: float) -> Callable[[np.random.Generator], float | None]:
        def p(rng: np.random.Generator) -> float | None:
            found = paired_gap("gap", *world_of_scores(rng, groups, shift), QUICK, DRAWS)
            return min(each.p_value or 1.0 for each in found.values())

        return p

    assert claims(world(0.0)) <= MOST
    assert claims(world(0.5)) >= 0.9 * WORLDS


def slow_excess(a: np.ndarray, b: np.ndarray, units: list[int]) -> float:
    """By its definition, with cosines."""

    def d(x: np.ndarray, y: np.ndarray) -> float:
        return 1 - float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))

    terms = [
        0.5 * (d(a[i], b[j]) + d(b[i], a[j])) - 0.5 * (d(a[i], a[j]) + d(b[i], b[j]))
        for i in range(len(a))
        for j in range(len(a))
        if units[i] != units[j]
    ]
    return float(np.mean(terms))


def test_excess_distance_is_that_of_its_definition() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 5)), rng.normal(size=(8, 5))
    units = [0, 0, 1, 1, 2, 2, 3, 3]
    for given, own in ((None, list(range(8))), (units, units)):
        found = excess_distance(a, b, [0] * 8, [0] * 8, given, QUICK)
        assert found.value == pytest.approx(slow_excess(a, b, own))
        other = excess_distance(b, a, [0] * 8, [0] * 8, given, QUICK)
        assert other.value == pytest.approx(found.value)


def test_equal_vectors_have_no_excess_and_missing_ones_are_counted() -> None:
    a = np.random.default_rng(0).normal(size=(6, 4))
    b = a.copy()
    b[2] = np.nan
    found = excess_distance(a, b, [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1], None, QUICK)
    assert found.value == pytest.approx(0.0)
    assert found.unscored == {"no vector": 1}
    assert found.p_value == 1.0
    assert excess_distance(a[:1], b[:1], [0], [0], None, QUICK).value is None


def test_excess_distance_claims_nothing_without_an_effect_and_finds_one() -> None:
    frames = np.repeat(np.arange(12), 6)

    def world(shift: float) -> Callable[[np.random.Generator], float | None]:
        def p(rng: np.random.Generator) -> float | None:
            middle = rng.normal(size=(12, 8))[frames]
            a, b = (middle + rng.normal(size=middle.shape) for _ in range(2))
            b[:, 0] += shift
            return p_of(excess_distance(a, b, frames, frames, None, QUICK))

        return p

    assert claims(world(0.0)) <= MOST
    assert claims(world(2.0)) >= 0.9 * WORLDS
