"""What each item adds to a value, and differences of two runs item by item."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from levelhead.measures.crossed import CrossedVectors, WordSets
from levelhead.measures.influence import influence, mean_influence, paired_test, studentized
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat import lpbs
from levelhead.measures.statistics import Resampling, bootstrap, mean_interval
from levelhead.measures.stereoset import icat, ss, strength

KEPT = Resampling(items=True)


def test_influence_on_a_mean_is_the_distance_from_it_over_n() -> None:
    values = np.array([1.0, 2.0, 6.0])
    assert mean_influence(values, "items", KEPT)["items"] == pytest.approx((values - 3.0) / 3, abs=1e-5)


def test_influence_on_a_cluster_mean_adds_up_to_nothing() -> None:
    of_clusters = mean_influence([1.0, 2.0, 6.0, 4.0], "contexts", KEPT, ["a", "a", "b", "c"])["contexts"]
    assert len(of_clusters) == 3
    assert sum(of_clusters) == pytest.approx(0.0, abs=1e-5)


def test_nothing_is_kept_unless_it_is_asked_for() -> None:
    p = np.array([0.2, 0.6, 0.7, 0.4])
    assert ss(p, 1 - p).influence == {}
    assert set(ss(p, 1 - p, KEPT).influence) == {"triples"}


def measured(seed: int, n: int = 40) -> dict[str, Measurement]:
    rng = np.random.default_rng(seed)
    shared = np.random.default_rng(0).normal(size=n)  # what is hard for one model is hard for the other
    p, q, r = (1 / (1 + np.exp(-shared - rng.normal(0, 0.5, n))) for _ in range(3))
    bias = shared + rng.normal(0, 0.3, n)
    return {
        "ss": ss(p, q, KEPT),
        "strength": strength(p - q, resampling=KEPT),
        "icat": icat(p, q, r, resampling=KEPT),
        "lpbs": lpbs(bias, np.arange(n) < n // 2, KEPT),
    }


@pytest.mark.parametrize("name", ["ss", "strength", "icat", "lpbs"])
def test_an_equal_model_differs_by_nothing_and_surely_so(name: str) -> None:
    assert paired_test(measured(1)[name], measured(1)[name]) == ((0.0, 0.0), 1.0)


def test_a_run_of_the_same_model_on_another_processor_differs_by_nothing() -> None:
    rng = np.random.default_rng(8)
    here = rng.normal(size=40)
    there = here * (1 + 1e-7 * rng.normal(1, 1, 40))  # what float32 rounds
    one, two, apart = (
        Measurement("m", float(x.mean()), influence=mean_influence(x, "items", KEPT))
        for x in (here, there, here + 1e-3 * rng.normal(1, 1, 40))
    )
    assert one.influence != two.influence
    same, other = paired_test(one, two), paired_test(one, apart)
    assert same is not None
    assert other is not None
    assert same.p == 1.0
    assert other.p is not None
    assert other.p < 0.001


@pytest.mark.parametrize("name", ["ss", "strength", "icat", "lpbs"])
def test_swapping_the_runs_flips_the_interval(name: str) -> None:
    there, back = (paired_test(measured(a)[name], measured(b)[name]) for a, b in ((1, 2), (2, 1)))
    assert there is not None
    assert back is not None
    assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]))
    assert there.interval[0] < there.interval[1]
    assert there.p == back.p


def test_the_interval_of_a_mean_is_close_to_the_plain_paired_bootstrap() -> None:
    rng = np.random.default_rng(3)
    a = rng.normal(size=200)
    b = a + rng.normal(0.1, 0.3, 200)
    runs = [Measurement("m", float(x.mean()), influence=mean_influence(x, "items", KEPT)) for x in (a, b)]
    paired = paired_test(*runs)
    assert paired is not None
    assert paired.interval == pytest.approx(mean_interval(b - a), abs=0.01)
    separate = bootstrap(lambda counts: counts @ b / counts.sum(axis=1), 200)
    assert separate is not None
    low, high = paired.interval
    assert high - low < 0.5 * (separate[1] - separate[0])  # pairing is what makes it sharp


def test_seat_by_item_is_the_paired_change_of_seat() -> None:
    rng = np.random.default_rng(4)
    first = rng.normal(size=(20, 4, 8)) + rng.normal(size=(20, 1, 8))
    second = first + rng.normal(0, 0.2, size=first.shape)
    words = WordSets(
        {"A": range(4), "B": range(4, 8), "X": range(8, 14), "Y": range(14, 20)},
        [(i, i + 4) for i in range(4)],
    )
    runs = [CrossedVectors(vectors, words).seat(KEPT) for vectors in (first, second)]
    assert set(runs[0].influence) == {"attribute pairs", "targets X", "targets Y", "templates"}
    of_seat = [CrossedVectors(vectors, words).influences[0] for vectors in (first, second)]
    drawn = studentized([b - a for a, b in zip(*of_seat, strict=True)], Resampling())
    assert drawn is not None
    t, error = drawn
    change, half = (runs[1].value or 0) - (runs[0].value or 0), float(np.quantile(t, 0.95)) * error
    sign = np.sign(runs[0].value or 1.0)
    assert np.sign(runs[1].value or 1.0) == sign
    paired = paired_test(*runs)
    assert paired is not None
    assert paired.interval == pytest.approx((change - half, change + half), abs=1e-4)
    assert paired.p == pytest.approx((1 + (t >= abs(change) / error).sum()) / (1 + t.size), abs=0.01)


def means(difference: float, n: int = 30) -> list[Measurement]:
    """Two runs on the same items whose means differ by so much."""
    a = np.random.default_rng(5).normal(size=n)
    b = a + difference + np.random.default_rng(6).normal(0, 0.3, n)
    return [Measurement("m", float(x.mean()), influence=mean_influence(x, "items", KEPT)) for x in (a, b)]


def test_p_of_a_paired_difference_is_close_to_students_and_goes_on_where_redraws_end() -> None:
    for difference in (0.0, 0.1, 0.15, 0.2):
        (a, b), tested = means(difference), paired_test(*means(difference))
        gaps = np.subtract(b.influence["items"], a.influence["items"]) * 30
        t = ((b.value or 0) - (a.value or 0)) / (gaps.std(ddof=1) / np.sqrt(30))
        assert tested is not None
        assert tested.p is not None
        assert tested.p == pytest.approx(2 * stats.t.sf(abs(t), 29), abs=0.02)
        assert (tested.p < 0.05) == (not tested.interval[0] <= 0 <= tested.interval[1])
    far = paired_test(*means(1.0))
    assert far is not None
    assert far.p is not None
    assert far.p < 1e-9  # 2,000 redraws alone could not say less than 5e-4


def test_values_that_differ_while_no_item_does_are_not_tested() -> None:
    flat = [Measurement("m", value, influence={"items": (0.0, 0.0, 0.0)}) for value in (0.0, 1.0)]
    assert paired_test(*flat) == ((1.0, 1.0), None)


def test_other_items_are_not_paired() -> None:
    assert paired_test(measured(1)["ss"], measured(1, n=30)["ss"]) is None
    assert paired_test(measured(1)["ss"], measured(1)["lpbs"]) is None


def test_one_item_says_nothing() -> None:
    assert influence(lambda counts: counts.sum(axis=1), 1, "items", KEPT) == {}
