"""Scores of GLUE and what a change costs: by hand, against scikit-learn and scipy, and by simulation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearn

from levelhead.errors import BadOption
from levelhead.measures.glue import (
    GlueDifference,
    glue_difference,
    glue_score,
    majority_score,
    random_score,
    scored,
    weighted_score,
)
from levelhead.measures.measurement import GlueVerdict

Doubles = npt.NDArray[np.float64]
CLASS_METRICS = ("accuracy", "f1", "matthews")
SCORE_METRICS = ("pearson", "spearman")
LABELS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=4, max_size=60)


def classes(seed: int, n: int = 80, agreement: float = 0.7) -> tuple[Doubles, Doubles]:
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, n).astype(np.float64)
    return gold, np.where(rng.random(n) < agreement, gold, 1 - gold)


def similarities(seed: int, n: int = 80) -> tuple[Doubles, Doubles]:
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 6, n).astype(np.float64)
    return gold, gold + rng.normal(0, 1.5, n)


# ---- metrics


def test_metrics_by_hand() -> None:
    gold, predicted = [1, 1, 1, 0, 0], [1, 1, 0, 0, 1]  # TP 2, FN 1, TN 1, FP 1
    assert glue_score("accuracy", gold, predicted) == pytest.approx(3 / 5)
    assert glue_score("f1", gold, predicted) == pytest.approx(4 / 6)
    assert glue_score("matthews", gold, predicted) == pytest.approx((2 * 1 - 1 * 1) / np.sqrt(3 * 3 * 2 * 2))
    assert glue_score("pearson", [0, 1, 2], [1, 2, 6]) == pytest.approx(5 / np.sqrt(2 * 14))
    assert glue_score("spearman", [0, 1, 2], [1, 9, 6]) == pytest.approx(0.5)


@given(LABELS)
def test_class_metrics_equal_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = (list(side) for side in zip(*pairs, strict=True))
    references = {
        "accuracy": sklearn.accuracy_score(gold, predicted),
        "f1": sklearn.f1_score(gold, predicted, zero_division=0),
        "matthews": sklearn.matthews_corrcoef(gold, predicted),
    }
    for metric, reference in references.items():
        assert glue_score(metric, gold, predicted) == pytest.approx(reference, abs=1e-12)


def test_score_metrics_equal_scipys() -> None:
    gold, predicted = similarities(1)
    assert glue_score("pearson", gold, predicted) == pytest.approx(stats.pearsonr(gold, predicted)[0])
    assert glue_score("spearman", gold, predicted) == pytest.approx(stats.spearmanr(gold, predicted)[0])


@pytest.mark.parametrize("metric", CLASS_METRICS)
def test_a_weight_of_two_is_the_item_twice(metric: str) -> None:
    gold, predicted = classes(3)
    weight = np.random.default_rng(0).integers(0, 3, gold.size).astype(np.float64)
    times = weight.astype(int)
    repeated = glue_score(metric, np.repeat(gold, times), np.repeat(predicted, times))
    assert weighted_score(metric, gold, predicted, weight[None])[0] == pytest.approx(repeated)


@pytest.mark.parametrize("metric", [*CLASS_METRICS, *SCORE_METRICS])
def test_right_answers_score_one_and_constant_ones_no_more_than_the_majority(metric: str) -> None:
    gold, _ = similarities(2) if metric in SCORE_METRICS else classes(2)
    assert glue_score(metric, gold, gold) == pytest.approx(1.0)
    assert glue_score(metric, gold, np.zeros(gold.size)) <= majority_score(metric, gold) + 1e-12


def test_baselines_of_a_task_with_three_quarters_ones() -> None:
    gold = np.array([1.0] * 300 + [0.0] * 100)
    assert majority_score("accuracy", gold) == 0.75
    assert majority_score("f1", gold) == pytest.approx(2 * 300 / (2 * 300 + 100))
    assert majority_score("matthews", gold) == 0.0
    assert random_score("accuracy", gold) == pytest.approx(0.75**2 + 0.25**2, abs=0.005)
    assert random_score("matthews", gold) == pytest.approx(0.0, abs=0.02)
    assert majority_score("pearson", gold) == 0.0


def test_a_score_is_the_mean_over_seeds_with_its_spread_and_an_interval_over_items() -> None:
    gold, first = classes(4, 200)
    second = classes(5, 200)[1]
    score = scored("accuracy", gold, [first, second])
    accuracies = [float((gold == each).mean()) for each in (first, second)]
    assert score.seeds == pytest.approx(accuracies)
    assert score.value == pytest.approx(np.mean(accuracies))
    assert score.sd == pytest.approx(np.std(accuracies, ddof=1))
    assert score.interval is not None
    assert score.interval[0] < score.value < score.interval[1]
    assert scored("accuracy", gold, [first]).sd is None


# ---- differences


def test_with_one_seed_the_interval_is_that_of_a_paired_t_test_over_items() -> None:
    gold, base = classes(6, 300)
    changed = np.where(np.random.default_rng(1).random(300) < 0.1, 1 - base, base)
    difference = glue_difference("accuracy", gold, [base], [changed])
    gain = (gold == changed).astype(float) - (gold == base)
    reference = stats.ttest_1samp(gain, 0.0).confidence_interval()
    assert difference.points == pytest.approx(100 * gain.mean())
    assert difference.interval == pytest.approx([100 * reference.low, 100 * reference.high])


def test_the_equation_by_hand_for_two_seeds() -> None:
    gold = np.array([1.0, 1.0, 0.0, 0.0])
    base = [np.array([1.0, 0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0])]
    changed = [np.array([1.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])]
    by_item, by_seed = np.array([-0.5, 0.5, 0.0, -0.5]), np.array([0.25, -0.5])
    parts = [(by_item.var(ddof=1) / 4, 3), (by_seed.var(ddof=1) / 2, 1)]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / df for part, df in parts)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    difference = glue_difference("accuracy", gold, base, changed)
    assert difference.points == pytest.approx(-12.5)
    assert difference.interval == pytest.approx([100 * (-0.125 - half), 100 * (-0.125 + half)])


@pytest.mark.parametrize("metric", [*CLASS_METRICS, *SCORE_METRICS])
def test_swapping_the_models_flips_the_difference(metric: str) -> None:
    make = similarities if metric in SCORE_METRICS else classes
    gold = make(0)[0]
    base, changed = [make(0)[1], make(1)[1]], [make(2)[1], make(3)[1]]
    forth, back = (glue_difference(metric, gold, a, b) for a, b in ((base, changed), (changed, base)))
    assert forth.points == pytest.approx(-back.points)
    assert forth.interval == pytest.approx([-back.interval[1], -back.interval[0]])


@pytest.mark.parametrize("metric", ["f1", "matthews", "pearson", "spearman"])
def test_the_jackknifes_interval_is_as_wide_as_a_paired_bootstraps(metric: str) -> None:
    make = similarities if metric in SCORE_METRICS else classes
    gold, base = make(0, 400)
    changed = (
        make(1, 400)[1] if metric in CLASS_METRICS else gold + np.random.default_rng(9).normal(0, 2, 400)
    )
    difference = glue_difference(metric, gold, [base], [changed])
    rng = np.random.default_rng(0)
    draws = rng.integers(400, size=(600, 400))
    replicates = [
        glue_score(metric, gold[draw], changed[draw]) - glue_score(metric, gold[draw], base[draw])
        for draw in draws
    ]
    half = (difference.interval[1] - difference.interval[0]) / 2
    assert half == pytest.approx(196 * np.std(replicates), rel=0.12)


def test_intervals_cover_the_truth_where_trainings_differ_much_and_seeds_are_few() -> None:
    rng, covered, items_alone, n = np.random.default_rng(0), 0, 0, 400
    for _ in range(n):
        ability = rng.normal(0.8, 1, 150)
        right = ability + rng.normal(0, 0.5, (2, 3, 1)) + rng.normal(0, 0.7, (2, 3, 150)) > 0
        base, changed = right.astype(np.float64)
        gold = np.ones(150)
        low, high = glue_difference("accuracy", gold, list(base), list(changed)).interval
        covered += low <= 0 <= high
        low, high = glue_difference("accuracy", gold, [base[0]], [changed[0]]).interval
        items_alone += low <= 0 <= high
    assert covered / n >= 0.90
    assert items_alone / n <= 0.80  # one training cannot answer for others: that is why there are seeds


def test_models_that_answer_alike_are_not_certain_to_be_alike() -> None:
    gold, base = classes(0, 71)
    few = glue_difference("accuracy", gold, [base, base], [base, base])
    assert few.points == 0
    assert few.interval == pytest.approx([-100 * (1 - 0.05 ** (1 / 71)), 100 * (1 - 0.05 ** (1 / 71))])
    assert few.verdict == "not shown"
    gold, base = classes(0, 872)
    assert glue_difference("accuracy", gold, [base], [base]).verdict == "not inferior"


@pytest.mark.parametrize(
    ("points", "interval", "verdict", "sentence"),
    [
        (-2.1, (-3.4, -0.8), "costs", "costs 2.1 points [0.8, 3.4]"),
        (-0.5, (-0.8, -0.2), "costs", "costs 0.5 points [0.2, 0.8], less than the margin of 1"),
        (1.5, (0.5, 2.5), "gains", "gains 1.5 points [0.5, 2.5]"),
        (0.1, (-0.6, 0.8), "not inferior", "not worse by 1 or more: +0.1 points [-0.6, +0.8]"),
        (
            -0.7,
            (-3.1, 1.7),
            "not shown",
            "no cost that this much data can show: -0.7 points [-3.1, +1.7]",
        ),
    ],
)
def test_verdicts_are_different_sentences(
    points: float, interval: tuple[float, float], verdict: GlueVerdict, sentence: str
) -> None:
    assert GlueDifference(points, interval, verdict, 1.0).sentence() == sentence


def test_the_verdict_follows_the_interval_and_the_margin() -> None:
    gold, rng = np.ones(400), np.random.default_rng(3)
    base = (rng.random(400) < 0.7).astype(np.float64)
    worse, better = base.copy(), base.copy()
    worse[:60], better[:60] = 0.0, 1.0
    for changed, verdict in ((worse, "costs"), (better, "gains")):
        assert glue_difference("accuracy", gold, [base], [changed]).verdict == verdict
    turned = base.copy()
    turned[[*np.flatnonzero(base)[:4], *np.flatnonzero(base == 0)[:4]]] = [0.0] * 4 + [1.0] * 4
    held = glue_difference("accuracy", gold, [base], [turned], margin=5.0)
    assert held.interval[0] <= 0 <= held.interval[1]
    assert held.verdict == "not inferior"
    assert glue_difference("accuracy", gold, [base], [turned], margin=0.0).verdict == "not shown"


def test_seeds_that_do_not_pair_and_a_margin_below_zero_are_one_line() -> None:
    gold, base = classes(0)
    with pytest.raises(BadOption, match=r"got 2 and 1"):
        glue_difference("accuracy", gold, [base, base], [base])
    with pytest.raises(BadOption, match=r"at least 0 points \(got -1\)"):
        glue_difference("accuracy", gold, [base], [base], margin=-1)
