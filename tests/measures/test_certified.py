"""Certification: by hand, at its edges, and its error over thousands of simulated families of candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.certified import (
    Certificate,
    Margins,
    PairedItems,
    certificate,
    in_sequence,
    p_at_most,
    p_of_cost,
    weighted_interval,
    with_outside,
)

Rng = np.random.Generator


def _items(before: list[float], after: list[float], name: str = "preference") -> PairedItems:
    clusters = np.asarray([f"context {i}" for i in range(len(before))])
    return PairedItems(name, "nats", np.asarray(before), np.asarray(after), clusters)


def test_with_one_item_per_cluster_the_test_is_students_t() -> None:
    values = np.asarray([0.3, 0.1, 0.5, -0.2, 0.4])
    items = _items([0.0] * 5, values.tolist())
    expected = stats.ttest_1samp(values, 0.05, alternative="greater").pvalue
    assert p_at_most(values, 0.05, items) == pytest.approx(expected)
    interval = weighted_interval(values, items)
    assert interval == pytest.approx(stats.ttest_1samp(values, 0.0).confidence_interval())


def test_items_of_one_cluster_count_once() -> None:
    values = np.asarray([0.3, 0.1, 0.5, 0.2])
    single = _items([0.0] * 4, values.tolist())
    doubled = PairedItems(
        "preference", "nats", np.zeros(8), np.repeat(values, 2), np.repeat(single.clusters, 2)
    )
    assert p_at_most(np.repeat(values, 2), 0.0, doubled) == pytest.approx(p_at_most(values, 0.0, single))


def _two_kinds(values: np.ndarray, first: int) -> PairedItems:
    """Items of their own each, the first so many of one kind; both kinds count one half."""
    kinds = (np.arange(len(values)) >= first).astype(np.int64)
    weights = np.where(kinds == 0, 1 / first, 1 / (len(values) - first))
    names = np.asarray([str(i) for i in range(len(values))])
    return PairedItems("log-odds", "nats", np.zeros(len(values)), values, names, weights, strata=kinds)


def test_of_two_kinds_with_a_share_each_the_test_is_that_of_two_samples() -> None:
    a, b = np.asarray([0.3, 0.1, 0.5, -0.2, 0.4]), np.asarray([1.2, 1.0, 1.4, 0.9])
    items = _two_kinds(np.concatenate([a, b]), 5)
    low, high = weighted_interval(items.after, items) or (0.0, 0.0)
    stderr = 0.5 * np.sqrt(a.var(ddof=1) / 5 + b.var(ddof=1) / 4)
    assert (low + high) / 2 == pytest.approx((a.mean() + b.mean()) / 2)
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, 9 - 2) * stderr)


def test_what_lifts_one_kind_and_lowers_the_other_is_no_uncertainty_of_their_mean() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0.2, 0.1, 40)
    apart = values + np.where(np.arange(40) < 20, 5.0, -5.0)
    assert p_at_most(apart, 0.0, _two_kinds(apart, 20)) == pytest.approx(
        p_at_most(values, 0.0, _two_kinds(values, 20))
    )
    one_kind = replace(_two_kinds(apart, 20), strata=None)
    assert p_at_most(apart, 0.0, one_kind) > 0.3


def test_a_mean_of_two_kinds_at_the_bound_passes_in_five_of_a_hundred_at_most() -> None:
    rng = np.random.default_rng(4)
    passed = 0
    for _ in range(2000):
        values = rng.normal(0.0, 1.0, 24) + np.where(np.arange(24) < 8, 0.7, -0.7)
        passed += p_at_most(values, 0.0, _two_kinds(values, 8)) < 0.05
    assert passed <= 130  # 100 expected, standard deviation 10


def test_a_cluster_with_items_of_both_kinds_counts_once() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(0.3, 1.0, 20)
    alone = _two_kinds(np.concatenate([values, values]), 20)
    shared = replace(alone, clusters=np.tile(alone.clusters[:20], 2))
    width, wider = (
        interval[1] - interval[0]
        for interval in (weighted_interval(each.after, each) for each in (alone, shared))
        if interval is not None
    )
    assert wider > 1.3 * width  # as of 20 items, not of 40


def test_what_is_exactly_neutral_afterwards_does_not_overshoot() -> None:
    rng = np.random.default_rng(0)
    before = rng.normal(0.3, 0.2, 60).tolist()
    tested = certificate("symmetrized", _items(before, [0.0] * 60), 1, [], Margins())
    assert tested.gain == pytest.approx(np.mean(before))
    assert tested.p_gain < 1e-6
    assert tested.p_overshoot < 1e-6
    assert in_sequence([tested])[0].verdict == "certified on our items only"


def test_a_bias_turned_around_overshoots_and_one_that_stays_is_not_shown() -> None:
    rng = np.random.default_rng(1)
    before = rng.normal(0.3, 0.1, 60)
    turned = certificate("turned", _items(before.tolist(), (-before).tolist()), 1, [], Margins())
    stays = certificate("stays", _items(before.tolist(), before.tolist()), 1, [], Margins())
    assert in_sequence([turned])[0].verdict == "over-corrected"
    assert in_sequence([stays])[0].verdict == "no significant effect"
    assert stays.missed == ("gain",)
    assert stays.p_gain == 1.0


def test_a_cost_beyond_its_margin_is_named() -> None:
    rng = np.random.default_rng(2)
    bias = _items(rng.normal(0.3, 0.1, 60).tolist(), [0.0] * 60)
    dear = _items([3.0] * 60, rng.normal(3.1, 0.01, 60).tolist(), "perplexity")
    cheap = _items([3.0] * 60, rng.normal(3.0, 0.01, 60).tolist(), "perplexity")
    assert (
        in_sequence([certificate("dear", bias, 1, [dear], Margins())])[0].verdict
        == "effective, exceeds cost margin"
    )
    costly, free = (
        certificate(name, bias, 1, costs, Margins()) for name, costs in (("dear", [dear]), ("free", []))
    )
    assert [each.verdict for each in in_sequence([costly, free])] == [
        "effective, exceeds cost margin",
        "not tested (an earlier candidate failed)",
    ]
    assert certificate("dear", bias, 1, [dear], Margins()).missed == ("perplexity",)
    assert in_sequence([certificate("cheap", bias, 1, [cheap], Margins())])[0].certified
    wide = Margins(costs={"perplexity": 0.2})
    assert in_sequence([certificate("dear", bias, 1, [dear], wide)])[0].certified


def test_the_sequence_ends_at_the_first_that_fails() -> None:
    def tested(name: str, p: float) -> Certificate:
        return Certificate(name, "preference", "nats", 0.3, 0.0, 0.3, None, p, 0.0, {}, {})

    passed = in_sequence([tested("a", 0.01), tested("b", 0.2), tested("c", 0.001)])
    assert [each.certified for each in passed] == [True, False, False]


def test_the_same_items_are_needed() -> None:
    with pytest.raises(BadProbe, match="same items"):
        _items([], [])
    with pytest.raises(BadProbe, match="finite"):
        _items([1.0], [float("nan")])


def _simulated(rng: Rng, gains: list[float], costs: list[float]) -> list[Certificate]:
    """Candidates with these true gains and costs, on 40 contexts of 2 items each."""
    contexts = np.repeat([f"c{i}" for i in range(40)], 2)
    of_context = np.repeat(rng.normal(0, 0.15, 40), 2)
    before = 0.3 + of_context + rng.normal(0, 0.2, 80)
    family = []
    for gain, cost in zip(gains, costs, strict=True):
        noise = np.repeat(rng.normal(0, 0.2, 40), 2)
        bias = PairedItems("preference", "nats", before, before - gain - noise, contexts)
        lost = np.repeat(rng.normal(cost, 0.02, 40), 2)
        loss = PairedItems("perplexity", "nats", np.zeros(80), lost, contexts)
        family.append(certificate("candidate", bias, 1, [loss], Margins()))
    return in_sequence(family)


@pytest.mark.nightly
def test_no_more_than_5_percent_of_families_certify_what_is_not_so() -> None:
    """Candidates without gain, or at their margin of cost, in the worst order: the false ones first."""
    rng = np.random.default_rng(3)
    runs, wrong = 1500, 0
    for _ in range(runs):
        family = _simulated(rng, gains=[0.0, 0.3, 0.3, 0.0], costs=[0.0, 0.02, 0.02, 0.0])
        wrong += any(each.certified for each in family)
    assert stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue > 0.01


def test_a_candidate_that_helps_is_certified_mostly() -> None:
    rng = np.random.default_rng(4)
    certified = [_simulated(rng, [0.2, 0.0], [0.0, 0.0])[0].certified for _ in range(200)]
    assert np.mean(certified) > 0.8


def _answers(worse: int, better: int, n: int) -> PairedItems:
    before, after = np.zeros(n), np.zeros(n)
    after[:worse], before[n - better :] = 1.0, 1.0
    return PairedItems("ability", "share", before, after, np.asarray([str(i) for i in range(n)]), None, n)


def test_the_score_test_is_that_of_its_papers_example() -> None:
    """Tango 1998, contact lenses: of 44 one got worse and none better, at a margin of 10 %: Z = 1.709."""
    assert p_of_cost(_answers(1, 0, 44), 0.1) == pytest.approx(stats.norm.sf(1.709), abs=1e-4)
    assert p_of_cost(_answers(0, 0, 170), 0.02) == pytest.approx(0.98**170, abs=2e-3)  # exactly: none of 170
    assert p_of_cost(_answers(7, 3, 40), 0.0) == pytest.approx(stats.norm.cdf(4 / np.sqrt(10)), abs=2e-2)
    assert p_of_cost(_answers(0, 0, 40), 0.0) == 1.0


def test_the_score_tests_spread_is_that_of_the_likeliest_shares_at_the_margin() -> None:
    worse, better, n, margin = 1, 3, 170, 0.02
    shares = np.linspace(1e-6, 0.2, 200_001)  # of the better ones
    same = n - worse - better
    likely = worse * np.log(shares + margin) + better * np.log(shares) + same * np.log1p(-2 * shares - margin)
    q = shares[likely.argmax()]
    z = (worse - better - n * margin) / np.sqrt(n * (2 * q + margin - margin**2))
    assert p_of_cost(_answers(worse, better, n), margin) == pytest.approx(stats.norm.cdf(z), rel=1e-3)


def test_where_many_answers_change_both_tests_agree_and_without_answers_the_t_test_is_alone() -> None:
    many = _answers(30, 45, 400)
    t = p_at_most(many.before - many.after, -0.02, many)
    assert t < 0.01
    assert t <= p_of_cost(many, 0.02) < 1.5 * t
    nats = PairedItems("perplexity", "nats", many.before, many.after, many.clusters)
    assert p_of_cost(nats, 0.02) == t


@pytest.mark.nightly
def test_a_loss_of_the_margin_is_missed_in_5_of_100_where_a_t_test_misses_it_in_10() -> None:
    rng = np.random.default_rng(5)
    runs, ours, students = 1500, 0, 0
    for worse in rng.binomial(170, 0.02, runs):
        cost = _answers(int(worse), 0, 170)
        ours += p_of_cost(cost, 0.02) <= 0.05
        students += p_at_most(cost.before - cost.after, -0.02, cost) <= 0.05
    assert stats.binomtest(ours, runs, 0.05, alternative="greater").pvalue > 0.01
    assert students > 1.5 * ours


@pytest.mark.parametrize(("after", "lessened"), [(0.1, 0.2), (-0.1, 0.2), (-0.4, -0.1), (0.3, 0.0)])
def test_a_bias_is_lessened_by_its_size_whichever_way_it_leans(after: float, lessened: float) -> None:
    for sign in (1, -1):
        seen = Certificate("", "", "", sign * 0.3, sign * after, 0.0, None, 0.0, 0.0, {}, {})
        assert seen.lessened == pytest.approx(lessened)


def test_what_costs_too_much_is_shown_not_merely_not_excluded() -> None:
    plain = Certificate("", "", "", 0.3, 0.1, 0.2, None, 0.0, 0.0, {}, {})
    assert not plain.too_costly
    assert not replace(plain, p_costs={"a": 0.94, "b": 0.0}).too_costly
    assert replace(plain, p_costs={"a": 0.96, "b": 0.0}).too_costly


def _outside(shrinks: float, seed: int, costs: float = 0.0) -> Certificate:
    """A candidate that is exactly neutral inside; outside its mirror gap shrinks by so much, at a cost."""
    rng = np.random.default_rng(seed)
    inside = certificate("one", _items(rng.normal(0.3, 0.2, 60).tolist(), [0.0] * 60), 1, [], Margins())
    before = np.abs(rng.normal(0.0, 2.0, 80))
    gap = _items(before.tolist(), (before - rng.normal(shrinks, 0.3, 80)).tolist(), "mirror gap")
    lost = _items([2.0] * 80, rng.normal(2.0 + costs, 0.01, 80).tolist(), "perplexity")
    return with_outside(inside, gap, [lost], Margins(costs={"perplexity": 0.02}))


def test_a_gain_outside_is_tested_item_by_item_and_has_its_interval() -> None:
    outside = _outside(0.4, seed=1).outside
    assert outside is not None
    assert outside.gain == pytest.approx(outside.before - outside.after)
    assert outside.interval is not None
    assert outside.interval[0] < outside.gain < outside.interval[1]
    assert outside.p_gain < 1e-6
    assert outside.share == pytest.approx(outside.gain / outside.before)


def test_certified_without_qualification_needs_a_significant_gain_outside() -> None:
    assert in_sequence([_outside(0.4, seed=1)])[0].verdict == "certified"
    (none,) = in_sequence([_outside(0.0, seed=2)])
    assert none.certified
    assert none.verdict == "certified on our items only"
    unmeasured = replace(none, outside=None)
    assert unmeasured.verdict == "certified on our items only"


def test_of_a_cost_inside_and_outside_the_larger_p_counts() -> None:
    (costly,) = in_sequence([_outside(0.4, seed=1, costs=0.05)])
    assert not costly.certified
    assert costly.missed == ("perplexity outside",)
    assert costly.verdict == "effective, exceeds cost margin"


def test_gains_outside_are_corrected_for_all_candidates() -> None:
    alone = _outside(0.09, seed=3).outside
    assert alone is not None
    together = in_sequence([_outside(0.09, seed=3)] * 4)
    corrected = [each.outside.p_gain for each in together if each.outside]
    assert corrected == pytest.approx([min(1.0, 4 * alone.p_gain)] * 4)


def test_without_an_effect_outside_five_of_a_hundred_are_called_certified_at_most() -> None:
    called = sum(in_sequence([_outside(0.0, seed)])[0].verdict == "certified" for seed in range(400))
    assert called <= 32  # 20 expected, standard deviation 4.4
