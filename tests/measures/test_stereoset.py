"""StereoSet's scores against StereoSet's own code, Strength and Distance against the paper's tables."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from levelhead.errors import BadOption, BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import FloatArray, Resampling
from levelhead.measures.stereoset import distance, icat, lms, ss, strength, triple_strength
from levelhead.probes.published import published_projections

EXAMPLES = published_projections().strength_examples
TABLE_3 = np.array(
    [(e["p_stereo"], e["p_anti"], e["p_anti_gs"], e["p_stereo_gs"]) for e in EXAMPLES]
)  # [example, kind]


def value(measured: Measurement) -> float:
    assert measured.value is not None, measured.reason
    return measured.value


def interval(measured: Measurement) -> tuple[float, float]:
    assert measured.interval is not None
    return measured.interval


def published_rule(p: FloatArray, targets: list[str]) -> tuple[float, float, float]:
    """LMS, SS, ICAT in percent, as StereoSet evaluates: counters by term, ties lose, mean over terms."""
    terms: dict[str, Counter[str]] = defaultdict(Counter)
    for (stereo, anti, unrelated), target in zip(p, targets, strict=True):
        terms[target]["pro" if stereo > anti else "anti"] += 1
        terms[target]["related"] += int(stereo > unrelated) + int(anti > unrelated)
        terms[target]["total"] += 1
    lm = np.mean([100 * c["related"] / (2 * c["total"]) for c in terms.values()])
    score = np.mean([100 * c["pro"] / c["total"] for c in terms.values()])
    return float(lm), float(score), float(lm * min(score, 100 - score) / 50)


# --- SS, LMS, ICAT


def test_ss_by_hand_with_half_a_tie() -> None:
    measured = ss([0.9, 0.2, 0.5, 0.7], [0.1, 0.3, 0.5, 0.6])
    assert (value(measured), measured.n, measured.neutral) == (2.5 / 4, 4, 0.5)


def test_exchanging_the_labels_mirrors_ss() -> None:
    p, q = np.random.default_rng(0).random((2, 30))
    assert value(ss(p, q)) == pytest.approx(1 - value(ss(q, p)))


def test_a_model_that_ties_everywhere_is_neutral_not_anti_stereotypical() -> None:
    assert value(ss([0.4] * 10, [0.4] * 10)) == 0.5


def test_lms_and_icat_by_hand() -> None:
    stereo, anti, unrelated = [0.9, 0.8, 0.3], [0.5, 0.9, 0.2], [0.1, 0.85, 0.2]
    # related beats unrelated: 2 of 2, 1 of 2, 1.5 of 2; the stereotype wins 2 of 3
    assert value(lms(stereo, anti, unrelated)) == pytest.approx(4.5 / 6)
    assert value(icat(stereo, anti, unrelated)) == pytest.approx(4.5 / 6 * (1 / 3) / 0.5)


def test_ideal_random_and_stereotyped_models_have_icat_1_half_and_0() -> None:
    one, low = np.ones(4), np.zeros(4)
    even = np.array([1.0, 0.5, 1.0, 0.5])
    assert value(icat(even, 1.5 - even, low)) == 1.0
    assert value(icat(one / 2, one / 2, one / 2)) == 0.5
    assert value(icat(one, one / 2, low)) == 0.0


def test_with_targets_the_scores_are_those_of_stereosets_own_code() -> None:
    rng = np.random.default_rng(0)
    p = rng.integers(0, 6, size=(120, 3)) / 5  # coarse, so that ties occur
    targets = [f"term {number}" for number in rng.integers(0, 17, size=120) ** 2 // 20]
    expected_lms, expected_ss, expected_icat = published_rule(p, targets)
    stereo, anti, unrelated = p.T
    measured = icat(stereo, anti, unrelated, targets=targets)
    assert value(lms(stereo, anti, unrelated, targets=targets)) == pytest.approx(expected_lms / 100)
    assert measured.details["ss"] == pytest.approx(expected_ss / 100)
    assert value(measured) == pytest.approx(expected_icat / 100)
    assert (measured.settings["rule"], measured.settings["ties"]) == ("stereoset", "lose")
    assert value(measured) != pytest.approx(value(icat(stereo, anti, unrelated)))


def test_interval_of_a_perfect_score_is_not_certain() -> None:
    one, low = np.ones(20), np.zeros(20)
    assert interval(ss(one, low)) == pytest.approx((0.8389, 1.0), abs=1e-3)
    low_end, high_end = interval(icat(one, one / 2, low))
    assert low_end == 0.0
    assert 0.2 < high_end < 0.4


# --- Strength, Distance


def test_strength_of_the_papers_examples_is_0_006_and_0_969() -> None:
    s = triple_strength(*TABLE_3.T)
    assert [example["s"] for example in EXAMPLES] == [0.006, 0.969]
    assert s == pytest.approx([example["s"] for example in EXAMPLES], abs=0.0005 + 1e-9)


def test_strength_of_both_examples_together_is_that_of_the_stronger() -> None:
    measured = strength(triple_strength(*TABLE_3.T))
    assert value(measured) == pytest.approx(0.9691)
    assert (measured.details["top"], measured.settings["share"], measured.n) == (1, 0.10, 2)


def test_distance_of_the_papers_table_4_examples() -> None:
    first, second = published_projections().distance_examples
    assert value(distance([second["p_unrelated"]], [second["p_unrelated_gs"]])) == pytest.approx(second["d"])
    both = [first["p_unrelated"], second["p_unrelated"]], [first["p_unrelated_gs"], second["p_unrelated_gs"]]
    assert value(distance(*both)) == value(distance(*both[::-1])) == pytest.approx(first["d"])


def test_a_sentence_that_is_merely_likelier_has_no_strength() -> None:
    likely, unlikely = np.full(10, 0.9), np.full(10, 0.2)
    assert value(strength(triple_strength(likely, unlikely, likely, unlikely))) == pytest.approx(0)


def test_exchanging_the_labels_flips_every_triples_sign() -> None:
    p = np.random.default_rng(0).random((4, 20))
    assert triple_strength(p[1], p[0], p[3], p[2]) == pytest.approx(-triple_strength(*p))


def test_seven_percent_of_a_hundred_pairs_are_seven() -> None:
    s = np.arange(100) / 100
    measured = strength(s, share=0.07)
    assert value(measured) == pytest.approx(np.mean(s[-7:]))
    assert measured.details["top"] == 7


def test_the_interval_of_the_top_mean_is_that_of_drawn_pairs_sorted_one_by_one() -> None:
    rng = np.random.default_rng(0)
    d = rng.random(60)
    slow = [np.sort(rng.choice(d, 60))[-6:].mean() for _ in range(4_000)]
    low, high = interval(distance(d, d * 0, resampling=Resampling(4_000)))
    assert np.mean((np.array(slow) >= low) & (np.array(slow) <= high)) == pytest.approx(0.95, abs=0.03)


def test_all_pairs_are_the_plain_mean() -> None:
    d = np.random.default_rng(0).random(11)
    assert value(distance(d, d * 0, share=1.0)) == pytest.approx(d.mean())


def test_removing_gender_from_the_model_lowers_strength_and_distance() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((4, 100))
    halved = 0.5 + (p - 0.5) / 2
    before, after = strength(triple_strength(*p)), strength(triple_strength(*halved))
    assert interval(after)[1] < interval(before)[0]
    assert value(distance(halved[0], halved[1])) == pytest.approx(value(distance(p[0], p[1])) / 2)


# --- the null of Strength, and Distance's lack of one


def test_strength_has_the_floor_of_its_own_sign_flips() -> None:
    s = np.array([0.3, -0.2, 0.1])
    measured = strength(s, share=1 / 3)
    assert measured.null is not None
    assert (measured.null.draws, measured.null.p_value) == (7, 4 / 8)
    # the largest of ±0.3, ±0.2, ±0.1 over the seven other signs, worked out by hand
    assert measured.null.floor == pytest.approx((3 * 0.3 + 2 * 0.2 + 0.1 - 0.1) / 7)
    assert measured.excess == pytest.approx(0.3 - measured.null.floor)
    assert measured.neutral == 0.0


def test_noise_has_strength_and_no_excess() -> None:
    s = np.random.default_rng(0).normal(0, 0.1, 170)
    noise, shifted = strength(s), strength(s + 0.1)
    assert interval(noise)[0] > 0  # clear of the published neutral value
    assert noise.null is not None
    assert noise.null.p_value > 0.05
    assert shifted.null is not None
    assert shifted.null.p_value < 0.01


def test_exchanged_labels_leave_the_floor_where_it_was() -> None:
    s = np.random.default_rng(0).normal(0.02, 0.1, 170)
    first, second = strength(s), strength(-s)
    assert first.null is not None
    assert second.null is not None
    assert second.null.floor == pytest.approx(first.null.floor, abs=0.2 * first.null.spread)


def test_pairs_that_share_a_context_flip_and_are_drawn_together() -> None:
    s = np.repeat(np.random.default_rng(0).normal(0.1, 0.1, 30), 4)
    contexts = np.repeat(np.arange(30), 4)
    by_pair, by_context = strength(s), strength(s, contexts)
    assert by_pair.value == by_context.value
    assert by_pair.null is not None
    assert by_context.null is not None
    assert by_context.null.p_value > 2 * by_pair.null.p_value
    assert np.ptp(interval(by_context)) > 1.5 * np.ptp(interval(by_pair))
    assert by_context.settings["flipped"] == by_context.settings["resampled"] == "contexts"


def test_distance_has_neither_a_neutral_value_nor_a_null_and_says_why() -> None:
    measured = distance([0.5, 0.4], [0.5, 0.6])
    assert (measured.neutral, measured.null) == (None, None)
    assert "above 0 in every model" in measured.settings["claim"]


# --- intervals


@pytest.mark.nightly
@pytest.mark.slow
def test_interval_of_ss_covers_in_93_to_97_percent() -> None:
    rng, hits = np.random.default_rng(0), 0
    for seed in range(1_000):
        low, high = interval(ss((rng.random(150) < 0.7) * 1.0, np.full(150, 0.5), Resampling(500, seed)))
        hits += low <= 0.7 <= high
    assert 930 <= hits <= 970


@pytest.mark.nightly
def test_interval_of_strength_and_distance_covers_in_93_to_97_percent() -> None:
    """Both have one interval; Distance has no null, which would take most of the time."""
    rng, hits = np.random.default_rng(0), 0
    truth = 1 - 0.1 / 2  # mean of the top tenth of uniform values
    for seed in range(1_000):
        s, draws = rng.random(150), Resampling(500, seed)
        low, high = interval(distance(s, np.zeros(150), resampling=draws))
        hits += low <= truth <= high
        assert seed % 50 or (low, high) == interval(strength(s, resampling=draws))
    assert 930 <= hits <= 970


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("preference", [0.5, 0.7])
def test_interval_of_icat_covers_also_at_its_kink(preference: float) -> None:
    rng, hits = np.random.default_rng(0), 0
    truth = 0.775 * min(preference, 1 - preference) / 0.5
    for seed in range(1_000):
        first = np.where(rng.random(150) < preference, 0.8, 0.6)
        unrelated = rng.choice([0.1, 0.7, 0.9], p=[0.7, 0.15, 0.15], size=150)
        low, high = interval(icat(first, 1.4 - first, unrelated, resampling=Resampling(500, seed)))
        hits += low <= truth <= high
    assert 930 <= hits <= 970


# --- what cannot be measured


def test_no_triples_are_not_measured_instead_of_unbiased() -> None:
    for measured in (
        ss([], []),
        lms([], [], []),
        icat([], [], []),
        strength([]),
        distance([], []),
    ):
        assert measured.value is None
        assert "no triple" in measured.reason


def test_bad_probabilities_and_lengths_are_refused() -> None:
    with pytest.raises(BadProbe, match=r"outside 0\.\.1"):
        ss([1.2], [0.1])
    with pytest.raises(BadProbe, match=r"outside 0\.\.1"):
        ss([np.nan], [0.1])
    with pytest.raises(BadProbe, match="every triple"):
        ss([0.1, 0.2], [0.1])
    with pytest.raises(BadProbe, match="one term for each triple"):
        lms([0.1, 0.2], [0.1, 0.2], [0.1, 0.2], targets=["nurse"])
    with pytest.raises(BadOption, match="above 0 and at most 1"):
        distance([0.1], [0.2], share=0)
