"""Scores of choices: the papers' equations by hand, artificial answerers, swapped labels."""

from __future__ import annotations

import numpy as np
import pytest

from levelhead.measures import stereoset as published
from levelhead.measures.choices import (
    ANTI,
    SHARE,
    STEREOTYPE,
    UNKNOWN,
    ChoiceLogs,
    Score,
    answerers_of,
    artificial_answerers,
    beside,
    preferred,
    ratio_score,
    stereoset_scores,
)
from levelhead.measures.statistics import FloatArray


def test_parts_of_candidates_are_summed_averaged_by_token_and_by_probability() -> None:
    logs = ChoiceLogs(np.log([0.5, 0.25, 0.1, 0.2]), np.array([0, 0, 1, 3]), np.array([1.0, 3, 2, 1]), (2, 2))
    assert logs.total() == pytest.approx(np.array([[np.log(0.125), np.log(0.1)], [0.0, np.log(0.2)]]))
    assert logs.per_token()[0] == pytest.approx([np.log(0.125) / 4, np.log(0.1) / 2])
    assert logs.mean_probability()[0] == pytest.approx([0.375, 0.1])


def test_a_tie_counts_what_the_rule_says() -> None:
    x = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    assert preferred(x).tolist() == [1.0, 0.0, 0.5]
    assert preferred(x, ties=0.0).tolist() == [1.0, 0.0, 0.0]


def test_the_share_of_swapped_candidates_is_one_minus_the_share() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2)).round()
    assert (x[:, 0] == x[:, 1]).any()
    assert preferred(x[:, ::-1]).mean() == pytest.approx(1 - preferred(x).mean())


def test_a_ratio_is_the_papers_and_undefined_where_nothing_counts() -> None:
    hits, counted = np.array([1.0, 0, 1, 0]), np.array([1.0, 1, 1, 0])
    score = ratio_score("bias", hits, counted, ["a", "b", "c", "d"], "only unknown")
    assert score.value == pytest.approx(2 * 2 / 3 - 1)
    assert score.n == 3
    nothing = ratio_score("bias", hits * 0, counted * 0, ["a"] * 4, "only unknown")
    assert nothing.value is None
    assert nothing.measured().reason == "only unknown"


def test_an_answerer_that_is_always_against_the_stereotype_gets_minus_one_and_not_zero() -> None:
    """lm-evaluation-harness 0.4.13 returns 0 where no answer is biased."""
    score = ratio_score("bias", np.zeros(10), np.ones(10), [str(i) for i in range(10)], "")
    assert score.value == -1.0


def test_scores_of_stereoset_are_means_over_terms_of_means() -> None:
    x = np.array([[3.0, 2, 1], [1, 2, 3], [3, 1, 2]])  # term a: two items, term b: one
    lms, ss, icat = stereoset_scores(x, ["a", "a", "b"], ties=0.0)
    assert lms.value == pytest.approx((0.5 + 0.5) / 2)
    assert ss.value == pytest.approx((0.5 + 1.0) / 2)
    assert icat.value == pytest.approx(0.5 * 0.25 / 0.5)
    tie = stereoset_scores(np.ones((2, 3)), ["a", "b"], ties=0.0)
    assert [each.value for each in tie] == [0.0, 0.0, 0.0]  # as the published code counts them


def test_scores_of_stereoset_are_those_of_the_next_sentence_measures() -> None:
    """Two implementations of the published rule."""
    p = np.random.default_rng(2).random((60, 3)).round(1)
    terms = [str(i // 7) for i in range(60)]
    lms, ss, icat = (each.value for each in stereoset_scores(p, terms, ties=0.0))
    reference = published.icat(p[:, 0], p[:, 1], p[:, 2], targets=terms)
    assert icat == pytest.approx(reference.value)
    assert (ss, lms) == pytest.approx((reference.details["ss"], reference.details["lms"]))


def test_the_interval_of_a_linearized_score_is_that_of_a_bootstrap_over_terms() -> None:
    rng = np.random.default_rng(1)
    x, terms = rng.normal((0.4, 0, -0.5), size=(400, 3)), [str(i // 10) for i in range(400)]
    icat = stereoset_scores(x, terms, 0.0)[2].measured()
    drawn = []
    for _ in range(300):
        chosen = np.concatenate([np.arange(10) + 10 * t for t in rng.integers(0, 40, 40)])
        drawn.append(stereoset_scores(x[chosen], [str(i // 10) for i in range(400)], 0.0)[2].value)
    assert icat.interval is not None
    low, high = np.percentile(np.asarray(drawn, float), [2.5, 97.5])
    assert icat.interval[1] - icat.interval[0] == pytest.approx(high - low, rel=0.25)


def share(x: FloatArray) -> list[Score]:
    return [Score("share", preferred(x), [str(i) for i in range(len(x))], 0.5, bounds=SHARE)]


def test_five_answerers_get_what_the_equation_gives_them() -> None:
    roles = np.tile(np.array([STEREOTYPE, ANTI, UNKNOWN]), (200, 1))
    gold = np.array([2] * 120 + [0] * 80)
    answerers = artificial_answerers(roles, gold)
    assert set(answerers) == {"always stereotype", "always anti", "always unknown", "random", "majority"}
    near = beside(answerers, share)["share"]
    assert near["answerer, always stereotype"] == 1.0
    assert near["answerer, always anti"] == 0.0
    assert near["answerer, always unknown"] == 0.5  # of two candidates that it takes neither of
    assert near["answerer, majority"] == 0.5
    assert near["answerer, random"] == pytest.approx(0.5, abs=0.03)


def test_no_spread_is_no_certainty() -> None:
    one = Score("share", np.ones(20), [str(i) for i in range(20)], 0.5, bounds=SHARE).measured()
    assert one.interval is not None
    assert one.interval[0] < 0.95
    assert one.interval[1] == 1.0


def test_a_score_is_tested_against_its_neutral_value() -> None:
    rng = np.random.default_rng(0)
    biased = Score("share", (rng.random(300) < 0.8).astype(float), [str(i) for i in range(300)], 0.5)
    measured = biased.measured()
    assert measured.null is not None
    assert measured.null.floor == pytest.approx(0.5)
    assert measured.null.p_value < 0.01
    even = Score("share", np.array([0.0, 1.0] * 150), [str(i) for i in range(300)], 0.5).measured()
    assert even.null is not None
    assert even.null.p_value > 0.5
    assert answerers_of(measured) == {}


def test_items_of_one_cluster_are_not_independent() -> None:
    z = np.repeat(np.random.default_rng(0).normal(size=20), 10)
    alone = Score("gap", z, [str(i) for i in range(200)], 0.0).measured().interval
    together = Score("gap", z, [str(i // 10) for i in range(200)], 0.0).measured().interval
    assert alone is not None
    assert together is not None
    assert together[1] - together[0] > 2.5 * (alone[1] - alone[0])
