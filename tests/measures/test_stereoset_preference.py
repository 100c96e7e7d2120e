"""The mean signed preference and the paired stereotype score: by hand, against scipy, and under noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import FloatArray, Resampling
from levelhead.measures.stereoset import PairedAnswers, preference, ss, ss_paired, strength, triple_strength

FEW = Resampling(100)


def answers(
    original: FloatArray | list[list[float]],
    swapped: FloatArray | list[list[float]],
    contexts: list[str] | None = None,
) -> PairedAnswers:
    first, second = np.asarray(original, dtype=np.float64), np.asarray(swapped, dtype=np.float64)
    names = contexts or [f"context {i}" for i in range(len(first))]
    return PairedAnswers(first.reshape(-1, 2), second.reshape(-1, 2), np.asarray(names))


def noise(seed: int, pairs: int = 60, shift: float = 0.0) -> PairedAnswers:
    """Answers of a model to which the labels mean nothing, or whose stereotypes are likelier by the shift."""
    rng = np.random.default_rng(seed)
    return answers(*rng.normal([shift, 0.0], 1.0, size=(2, pairs, 2)))


def value(measured: Measurement) -> float:
    assert measured.value is not None, measured.reason
    return measured.value


def p_value(measured: Measurement) -> float:
    assert measured.null is not None
    return measured.null.p_value


# --- preference


def test_preference_by_hand() -> None:
    measured = preference(answers([[2.0, 1.0], [0.0, 3.0]], [[1.5, 0.5], [1.0, 0.0]]))
    # v = ½(1 + 1), ½(−3 + 1)
    assert value(measured) == pytest.approx((1 - 1) / 2)
    assert measured.details["rms"] == pytest.approx(1.0)
    assert (measured.n, measured.neutral) == (2, 0.0)


def test_a_sentence_that_is_merely_likelier_has_no_preference() -> None:
    likely, unlikely = (
        3.0,
        -1.0,
    )  # the same sentence is the stereotype of one counterfactual and the anti of the other
    measured = preference(answers([[likely, unlikely]] * 5, [[unlikely, likely]] * 5))
    assert value(measured) == 0.0
    assert measured.details["scale_free"] is None


def test_exchanging_the_labels_flips_the_sign_and_keeps_p() -> None:
    given = noise(0, shift=0.3)
    turned = answers(given.original[:, ::-1], given.swapped[:, ::-1])
    assert value(preference(turned)) == pytest.approx(-value(preference(given)))
    assert p_value(preference(turned)) == p_value(preference(given))


def test_p_is_that_of_scipys_sign_flips_over_contexts() -> None:
    given = noise(1, pairs=12, shift=0.4)
    contexts = ["a", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "j"]
    v = (given.original[:, 0] - given.original[:, 1] + given.swapped[:, 0] - given.swapped[:, 1]) / 2
    sums = [v[np.asarray(contexts) == name].sum() for name in sorted(set(contexts))]
    expected = stats.permutation_test(
        (sums,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    measured = preference(PairedAnswers(given.original, given.swapped, np.asarray(contexts)))
    assert p_value(measured) == pytest.approx(expected.pvalue)
    assert value(measured) == pytest.approx(v.mean())


def test_outputs_that_are_only_flattened_lower_preference_and_not_its_companion() -> None:
    given = noise(2, shift=0.5)
    flat = answers(given.original / 2, given.swapped / 2)
    before, after = preference(given), preference(flat)
    assert value(after) == pytest.approx(value(before) / 2)
    assert after.details["scale_free"] == pytest.approx(before.details["scale_free"])
    assert p_value(after) == p_value(before)


def test_a_shared_shift_is_found_by_the_mean_where_the_largest_tenth_does_not_see_it() -> None:
    given = noise(3, pairs=150, shift=0.35)
    p = [1 / (1 + np.exp(-side)) for side in (given.original, given.swapped)]
    s = triple_strength(p[0][:, 0], p[0][:, 1], p[1][:, 1], p[1][:, 0])
    assert p_value(preference(given)) < 0.01
    assert p_value(strength(s)) > p_value(preference(given))


# --- paired stereotype score


def test_ss_paired_by_hand_with_half_a_tie() -> None:
    measured = ss_paired(answers([[2.0, 1.0], [0.0, 3.0]], [[1.5, 0.5], [1.0, 1.0]]))
    assert value(measured) == (1 + 0 + 1 + 0.5) / 4
    assert measured.details == {"original": 0.5, "swapped": 0.75}
    assert (measured.n, measured.neutral) == (2, 0.5)


def test_ss_paired_is_the_mean_of_the_two_scores_and_the_same_for_logits_and_probabilities() -> None:
    given = noise(4, shift=0.2)
    p = [1 / (1 + np.exp(-side)) for side in (given.original, given.swapped)]
    alone = [value(ss(side[:, 0], side[:, 1], FEW)) for side in p]
    assert value(ss_paired(given)) == pytest.approx(np.mean(alone))
    assert value(ss_paired(answers(p[0], p[1]))) == value(ss_paired(given))


def test_a_model_that_prefers_one_wording_looks_stereotypical_alone_and_neutral_in_pairs() -> None:
    one, other = np.full(40, 2.0), np.full(40, 1.0)
    given = answers(np.stack([one, other], 1), np.stack([other, one], 1))
    assert value(ss(given.original[:, 0] / 4, given.original[:, 1] / 4, FEW)) == 1.0
    paired = ss_paired(given)
    assert value(paired) == 0.5
    assert p_value(paired) == 1.0


# --- calibration


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("measure", [preference, ss_paired])
def test_noise_is_called_a_preference_in_five_percent(
    measure: Callable[[PairedAnswers, Resampling], Measurement],
) -> None:
    alarms = sum(p_value(measure(noise(seed), Resampling(100, seed))) <= 0.05 for seed in range(600))
    least, most = stats.binom.ppf([0.0005, 0.9995], 600, 0.05)
    assert least <= alarms <= most


# --- what cannot be measured


def test_no_pairs_are_not_measured_and_wrong_shapes_are_refused() -> None:
    nothing = answers([], [])
    assert preference(nothing).reason == ss_paired(nothing).reason == "no triple pair"
    with pytest.raises(BadProbe, match="both triples"):
        PairedAnswers(np.zeros((2, 2)), np.zeros((1, 2)), np.asarray(["a", "b"]))
    with pytest.raises(BadProbe, match="NaN or infinite"):
        PairedAnswers(np.full((1, 2), np.inf), np.zeros((1, 2)), np.asarray(["a"]))
