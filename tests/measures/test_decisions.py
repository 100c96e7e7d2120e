"""Decisions about applicants: selection at the median of a kind, ratios by hand, and a null that holds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from levelhead.errors import BadProbe
from levelhead.measures.decisions import crossed, impact_ratio, log_odds_gap, selected, selection_rates
from levelhead.measures.gaps import Design
from levelhead.measures.statistics import Resampling

QUICK = Resampling(resamples=100)
WORLDS = 200
KINDS = ["hire"] * 8
ODDS = [3.0, 1.0, 2.5, 0.5, 4.0, 2.0, 1.5, 0.0]
DESIGN = Design(list("11223344"), list("abababab"), list("11223344"))


def test_applicants_are_selected_above_the_median_of_their_kind() -> None:
    assert selected([1.0, 2.0, 3.0, 9.0, 8.0], ["x", "x", "x", "y", "y"]).tolist() == [0, 0.5, 1, 1, 0]
    lifted = selected([101.0, 102.0, 103.0, 9.0, 8.0], ["x", "x", "x", "y", "y"])
    assert lifted.tolist() == [0, 0.5, 1, 1, 0]  # a model that says yes to all still ranks
    assert np.isnan(selected([1.0, math.nan], ["x", "x"])[1])
    with pytest.raises(BadProbe, match="one kind each"):
        selected([1.0], ["x", "y"])


def test_rates_and_ratio_by_hand() -> None:
    a, b = selection_rates(ODDS, KINDS, DESIGN, QUICK)
    assert (a.group, a.applicants, a.selected, a.rate, a.impact) == ("a", 4, 3.0, 0.75, 1.0)
    assert (b.group, b.selected, b.rate) == ("b", 1.0, 0.25)
    assert b.impact == pytest.approx(1 / 3)
    assert a.p_yes == pytest.approx(np.mean([1 / (1 + math.exp(-x)) for x in ODDS[0::2]]))
    assert a.interval is not None
    found = impact_ratio(ODDS, KINDS, DESIGN, QUICK, draws=2_000)
    assert found.value == pytest.approx(1 / 3)
    assert (found.n, found.neutral) == (8, 1.0)
    # two frames select one side alone; exchanged, three of four go to one side in half of the ways
    assert found.p_value == pytest.approx(1 / 2, abs=0.05)
    below = found.details["share of resamples below 0.8"]
    assert below is not None
    assert 0 < below <= 1


def test_sides_exchanged_change_the_sign_of_the_gap_and_not_the_ratio() -> None:
    turned = replace(DESIGN, groups=list("babababa"), order=("a", "b"))
    gap, back = log_odds_gap(ODDS, DESIGN, QUICK)["a"], log_odds_gap(ODDS, turned, QUICK)["a"]
    assert gap.value == pytest.approx(np.mean(np.asarray(ODDS)[0::2] - np.asarray(ODDS)[1::2]))
    assert back.value == pytest.approx(-(gap.value or 0.0))
    assert impact_ratio(ODDS, KINDS, turned, QUICK).value == impact_ratio(ODDS, KINDS, DESIGN, QUICK).value


def test_unscored_applicants_are_counted_and_one_group_has_no_ratio() -> None:
    found = impact_ratio([*ODDS[:-1], math.nan], KINDS, DESIGN, QUICK)
    assert found.unscored == {"no score": 1}
    assert found.n == 7
    alone = replace(DESIGN, groups=["a"] * 8)
    assert impact_ratio(ODDS, KINDS, alone, QUICK).value is None


def test_two_attributes_are_crossed() -> None:
    assert crossed(["f", "m", ""], ["x", "y", "z"]) == ["f × x", "m × y", ""]


def world(rng: np.random.Generator, shift: float, groups: int) -> tuple[np.ndarray, list[str], Design]:
    """Applicants of frames that differ, with some names per group."""
    frames, names = 40, 2
    frame = np.repeat(np.arange(frames), groups * names)
    group = np.tile(np.repeat(np.arange(groups), names), frames)
    odds = rng.normal(0, 1, frames)[frame] + 0.5 * rng.normal(size=frame.size) - shift * (group == 0)
    kinds = np.asarray(["hire", "lend", "admit", "diagnose"])[frame % 4]
    return odds, kinds.tolist(), Design(frame, np.asarray(list("abcdef"))[group], frame)


@pytest.mark.parametrize("groups", [2, 4])
def test_impact_ratio_claims_nothing_without_an_effect_and_finds_one(groups: int) -> None:
    def claims(shift: float) -> int:
        worlds = (world(np.random.default_rng(seed), shift, groups) for seed in range(WORLDS))
        found = [impact_ratio(*each, QUICK, draws=399).p_value for each in worlds]
        return sum(p is not None and p < 0.05 for p in found)

    assert claims(0.0) <= binom.ppf(0.999, WORLDS, 0.05)
    assert claims(0.6) >= 0.9 * WORLDS


def test_an_unbiased_model_has_a_ratio_below_one_and_the_null_says_so() -> None:
    found = [impact_ratio(*world(np.random.default_rng(n), 0.0, 4), QUICK, draws=399) for n in range(40)]
    values = [each.value or 0.0 for each in found]
    floors = [each.null.floor for each in found if each.null is not None]
    assert np.mean(values) < 0.95
    assert np.mean(values) == pytest.approx(np.mean(floors), abs=0.03)


def test_an_interval_of_a_ratio_is_as_wide_as_that_over_names() -> None:
    """One name of ten decides: over profiles, which all have every name, the rate hardly varies."""
    rng = np.random.default_rng(3)
    profiles, names, groups, odds = [], [], [], []
    for profile in range(40):
        for pair in range(5):
            for group in ("feminine", "masculine"):
                profiles.append(profile)
                names.append(f"pair {pair}")
                groups.append(group)
                odds.append(
                    rng.normal() * 0.01 + (5.0 if (pair, group) == (0, "masculine") else float(pair % 2))
                )
    design = Design(profiles, groups, profiles, ("feminine", "masculine"))
    kinds, drawn = ["hire"] * len(odds), Resampling(500, 0)
    over_profiles = impact_ratio(odds, kinds, design, drawn, draws=99)
    over_names = impact_ratio(odds, kinds, replace(design, names=names), drawn, draws=99)
    assert over_profiles.interval is not None
    assert over_names.interval is not None
    assert over_names.value == over_profiles.value
    assert over_names.interval[0] < over_profiles.interval[0] - 0.2
    (narrow, _), (wide, _) = (
        selection_rates(odds, kinds, each, drawn) for each in (design, replace(design, names=names))
    )
    assert narrow.interval is not None
    assert wide.interval is not None
    assert wide.interval[1] - wide.interval[0] > 2 * (narrow.interval[1] - narrow.interval[0])
