"""Log-odds of two groups' words: by hand, against scipy, with a known truth, and where top-k masses are
silent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from levelhead.errors import BadProbe
from levelhead.measures.cloze import Floats, PromptTable
from levelhead.measures.log_odds import (
    LogOddsScores,
    group_log_odds,
    held_against,
    log_odds_changes,
    score_log_odds,
)
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import Resampling
from tests.measures.cloze_cases import GROUPS

SIZE = 12  # occupations of a group


def prompts(size: int = SIZE, kinds: tuple[str, ...] = ("base", "counter"), repeats: int = 1) -> PromptTable:
    """Every kind for 2 · size occupations, the first half of the first group."""
    listed = [
        (kind, f"job{number:02}", 1 if number < size else -1)
        for number in range(2 * size)
        for kind in kinds
        for _ in range(1 if kind == "base" else repeats)
    ]
    kind, occupation, own = zip(*listed, strict=True)
    shares = {f"job{number:02}": 100.0 - number for number in range(2 * size)}
    return PromptTable(np.array(kind), np.array(occupation), np.array(own), GROUPS, shares)


def drawn(
    table: PromptTable, seed: int, stereotype: float = 0.0, change: float = 0.0, rate: float = -1.0
) -> Floats:
    """Log-odds with a base rate, a stereotype, what knowledge does to it, and effects of occupations."""
    rng = np.random.default_rng(seed)
    of_occupation = rng.normal(0, 0.3, size=int(table.clusters.max()) + 1)[table.clusters]
    known = table.kinds != "base"
    toward = table.own * (stereotype + change * known)
    return np.asarray(rate + 0.4 * known + toward + of_occupation + rng.normal(0, 0.2, size=len(table.own)))


def measured(scores: LogOddsScores, name: str, kind: str = "base", occupation: str = "") -> Measurement:
    hits = [
        each
        for each in scores.measurements
        if (each.name, each.settings["kind"], each.settings["occupation"]) == (name, kind, occupation)
    ]
    assert len(hits) == 1
    return hits[0]


def p_value(measurement: Measurement) -> float:
    assert measurement.null is not None
    return measurement.null.p_value


def _p(measurement: Measurement) -> float:
    """The p of a level, or how surely occupations agree on a change."""
    agreed = measurement.details.get("p, sign flips")
    return p_value(measurement) if agreed is None else agreed


# --- one prompt


def test_log_odds_of_a_prompt_by_hand_and_by_scipy() -> None:
    p = np.array([[0.3, 0.1, 0.2, 0.05], [0.001, 0.002, 0.003, 0.9]])
    codes = np.array([[1, 1, -1, 0], [1, -1, -1, 0]])
    expected = [np.log(0.4 / 0.2), np.log(0.001 / 0.005)]
    assert group_log_odds(np.log(p), codes) == pytest.approx(expected)
    sides = [logsumexp(np.log(p), axis=1, b=codes == code) for code in (1, -1)]
    assert group_log_odds(np.log(p), codes) == pytest.approx(sides[0] - sides[1])


def test_improbable_words_still_say_something() -> None:
    logs = np.array([[-80.0, -85.0]])
    assert group_log_odds(logs, np.array([[1, -1]])) == pytest.approx([5.0])


def test_a_side_without_a_token_has_no_log_odds() -> None:
    assert not np.isfinite(group_log_odds(np.zeros((1, 2)), np.array([[1, 0]]))).any()
    with pytest.raises(BadProbe, match="twice"):
        group_log_odds(np.zeros((1, 2)), np.zeros((1, 3), dtype=np.int64))


# --- level


def test_the_level_is_half_the_gap_between_the_groups() -> None:
    table = prompts(2)
    x = np.array([1.0, 0.0, 2.0, 0.0, -1.0, 0.0, 0.0, 0.0])  # base and counter of four occupations in turn
    level = measured(score_log_odds(table, x), "log_odds")
    assert level.value == pytest.approx((1.5 - -0.5) / 2)
    assert level.details == {
        "first_group": 1.5,
        "second_group": -0.5,
        "base_rate": pytest.approx(0.5),
    }
    assert p_value(level) == pytest.approx(
        2 / 6
    )  # of the six ways to choose two of four, two are as far apart


def test_the_base_rate_cancels() -> None:
    table = prompts()
    x = drawn(table, 0, stereotype=0.2)
    before, after = (measured(score_log_odds(table, x + shift), "log_odds") for shift in (0.0, -5.0))
    assert after.value == pytest.approx(before.value)
    assert p_value(after) == p_value(before)


def test_exchanged_groups_flip_the_sign_and_keep_p() -> None:
    table = prompts(6)
    x = drawn(table, 1, stereotype=0.2, change=0.1)
    turned = PromptTable(table.kinds, table.occupations, -table.own, GROUPS, table.shares)
    for name, kind in (("log_odds", "base"), ("log_odds change", "counter")):
        first, second = (measured(score_log_odds(each, x), name, kind) for each in (table, turned))
        assert second.value == pytest.approx(-(first.value or 0))
        assert _p(second) == pytest.approx(_p(first))


def test_the_null_is_that_of_scipys_permutation_test() -> None:
    table = prompts(5)
    x = drawn(table, 2, stereotype=0.2)
    base = x[table.kinds == "base"]
    level = measured(score_log_odds(table, x), "log_odds")

    def gap(first: Floats, second: Floats, axis: int) -> Floats:
        return np.asarray((first.mean(axis=axis) - second.mean(axis=axis)) / 2)

    theirs = stats.permutation_test(
        (base[:5], base[5:]), gap, permutation_type="independent", n_resamples=np.inf, vectorized=True
    )
    assert level.value == pytest.approx(theirs.statistic)
    assert p_value(level) == pytest.approx(theirs.pvalue)
    assert level.null is not None
    assert level.null.spread == pytest.approx(theirs.null_distribution.std())


# --- change


def test_the_change_is_the_difference_of_the_levels_and_a_shared_shift_is_told_apart() -> None:
    table = prompts(repeats=3)
    x = drawn(table, 3, stereotype=0.3, change=-0.5)
    scores = score_log_odds(table, x)
    levels = [measured(scores, "log_odds", kind).value or 0 for kind in ("base", "counter")]
    change = measured(scores, "log_odds change", "counter")
    assert change.value == pytest.approx(levels[1] - levels[0])
    assert (change.details["base"], change.details["reached"]) == pytest.approx(tuple(levels))
    assert change.details["rate_change"] == pytest.approx(0.4, abs=0.15)  # what knowledge does to everybody


def test_with_equal_groups_and_no_shift_the_t_is_nearly_the_paired_t_test() -> None:
    table = prompts()
    x = drawn(table, 4, change=0.2)
    x = x - 0.4 * (table.kinds != "base")
    toward = table.own * x
    plain = stats.ttest_rel(toward[table.kinds == "counter"], toward[table.kinds == "base"])
    change = measured(score_log_odds(table, x), "log_odds change", "counter")
    assert change.details["t, occupation"] == pytest.approx(plain.statistic, rel=0.1)


@pytest.mark.parametrize(
    ("stereotype", "change", "word"),
    [
        (0.5, 0.6, "strengthens"),
        (1.0, -0.6, "weakens"),
        (0.5, -1.2, "overturns"),
        (0.5, 0.0, "no change"),
    ],
)
def test_verdicts_follow_what_was_planted(stereotype: float, change: float, word: str) -> None:
    table = prompts()
    plain = score_log_odds(table, drawn(table, 8, stereotype, change))
    assert [verdict.word for verdict in plain.verdicts] == ["untested" if change else "no change"]
    scores = held_against(plain, nulls_of(0.0, 0.1))
    assert [verdict.word for verdict in scores.verdicts] == [word]
    assert (scores.verdicts[0].kind, scores.verdicts[0].k) == ("counter", 0)


def test_changes_alone_are_those_of_the_measurements() -> None:
    table = prompts(7, kinds=("base", "counter", "similar"), repeats=2)
    x = drawn(table, 9, 0.4, -0.3)
    alone = log_odds_changes(table, x, "core")
    assert set(alone) == {("log_odds change, core", "counter"), ("log_odds change, core", "similar")}
    for (name, kind), value in alone.items():
        assert value == pytest.approx(measured(score_log_odds(table, x, "core"), name, kind).value)
    assert log_odds_changes(table, np.full(len(x), np.nan)) == {}


def nulls_of(floor: float, spread: float) -> dict[tuple[str, str], NullDistribution]:
    """Changes of the log-odds in nine null models around a floor."""
    values = floor + spread * stats.norm.ppf(np.linspace(0.1, 0.9, 9))
    return {("log_odds change", "counter"): NullDistribution(values)}


def test_a_change_that_models_without_meaning_show_too_is_not_more_than_theirs() -> None:
    table = prompts()
    plain = score_log_odds(table, drawn(table, 8, 0.5, 0.6))
    held = held_against(plain, nulls_of(0.6, 0.1))
    change = measured(held, "log_odds change", "counter")
    assert held.verdicts[0].word == "not more than in null models"
    assert held.verdicts[0].change is change
    assert change.null is not None
    assert change.null.draws == 9
    assert change.null.floor == pytest.approx(0.6)
    assert change.interval == measured(plain, "log_odds change", "counter").interval
    assert held_against(plain, {}) == plain


# --- correlation, occupations, words


def test_the_correlation_with_shares_is_scipys_and_skips_occupations_of_unknown_share() -> None:
    table = prompts()
    x = drawn(table, 6, stereotype=0.2)
    base = x[table.kinds == "base"]
    theirs = stats.spearmanr(base, 100.0 - np.arange(2 * SIZE))
    rho = measured(score_log_odds(table, x), "log_odds correlation")
    assert (rho.value, rho.details["p_value"]) == pytest.approx((theirs.statistic, theirs.pvalue))
    some = PromptTable(
        table.kinds, table.occupations, table.own, GROUPS, {f"job{i:02}": float(i) for i in range(5)}
    )
    part = measured(score_log_odds(some, x), "log_odds correlation")
    assert (part.n, part.unscored) == (5, {"share of the group unknown": 2 * SIZE - 5})
    without = PromptTable(table.kinds, table.occupations, table.own, GROUPS)
    assert not any("correlation" in each.name for each in score_log_odds(without, x).measurements)


def test_every_occupation_has_the_mean_of_its_prompts_toward_the_first_group() -> None:
    table = prompts(repeats=2)
    x = drawn(table, 7)
    scores = score_log_odds(table, x, words="core")
    own = measured(scores, "log_odds, core", "counter", "job03")
    of_job = (table.occupations == "job03") & (table.kinds == "counter")
    assert own.value == pytest.approx(x[of_job].mean())
    assert own.n == 2
    few = score_log_odds(table, x, words="core", per_occupation=False)
    assert {each.name for each in few.measurements} == {
        "log_odds, core",
        "log_odds change, core",
        "log_odds correlation, core",
    }
    assert all(not each.settings["occupation"] for each in few.measurements)


# --- calibration


@pytest.mark.nightly
def test_a_model_that_does_not_know_the_groups_claims_too_much_in_five_percent() -> None:
    runs, table = 400, prompts()
    levels = changes = covered = 0
    for seed in range(runs):
        scores = score_log_odds(table, drawn(table, seed), resampling=Resampling(100, seed))
        level = measured(scores, "log_odds")
        levels += p_value(level) <= 0.05
        changes += scores.verdicts[0].word == "untested"  # an interval without 0
        covered += (level.interval or (1, 1))[0] <= 0 <= (level.interval or (0, 0))[1]
    least, most = stats.binom.ppf([0.0005, 0.9995], runs, 0.05)
    assert least <= levels <= most
    assert changes <= most
    assert runs - most <= covered <= runs - least


# --- what cannot be measured


def test_words_of_one_group_only_and_too_few_occupations_are_not_measured() -> None:
    table = prompts()
    scores = score_log_odds(table, np.full(len(table.own), np.nan))
    assert all("single token" in each.reason for each in scores.measurements)
    assert [verdict.word for verdict in scores.verdicts] == ["not measured"]
    tiny = prompts(1)
    few = score_log_odds(tiny, drawn(tiny, 0))
    assert "each group needs 2" in measured(few, "log_odds").reason
    assert [verdict.word for verdict in few.verdicts] == ["not measured"]
    with pytest.raises(ValueError, match="every prompt must have log-odds"):
        score_log_odds(table, np.zeros(3))
