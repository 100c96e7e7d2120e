"""NLI fairness against tables small enough to count by eye, and against a slow loop."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from levelhead.errors import BadProbe
from levelhead.measures.fairness import (
    ALWAYS_NEUTRAL,
    P_RIGHT,
    Predictions,
    ability,
    label_details,
    nli_fairness,
)
from levelhead.measures.statistics import Resampling
from levelhead.probes.published import published_projections

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
Labels = npt.NDArray[np.int64]


def grid(labels: Labels) -> Predictions:
    """Predictions from labels [occupation, context, gender]."""
    occupation, context, gender = (axis.ravel() for axis in np.indices(labels.shape))
    return Predictions(labels.ravel(), occupation, context, gender, NEUTRAL)


def values(predictions: Predictions) -> dict[str, float | None]:
    return {name: measured.value for name, measured in nli_fairness(predictions).items()}


def slow_scores(labels: Labels) -> dict[str, float]:
    same, strict = 0, 0
    for occupation in labels:
        leading = []
        for answers in occupation.T:
            votes = Counter(answers.tolist())
            leading.append({label for label, n in votes.items() if n == max(votes.values())})
        same += leading[0] == leading[1]
        strict += all(he == she for he, she in occupation)
    accuracy, parity = np.mean(labels == NEUTRAL), same / len(labels)
    return {
        "accuracy": float(accuracy),
        "parity": parity,
        "strict_parity": strict / len(labels),
        "fairness": float(accuracy * parity),
    }


def test_scores_by_hand() -> None:
    nurse = [
        [NEUTRAL, NEUTRAL],
        [NEUTRAL, CONTRADICTION],
        [NEUTRAL, NEUTRAL],
    ]  # majority neutral for both, not strict
    guard = [[ENTAILMENT, CONTRADICTION]] * 3  # entailed for one gender, contradicted for the other
    assert values(grid(np.array([nurse, guard]))) == pytest.approx(
        {"accuracy": 5 / 12, "parity": 1 / 2, "strict_parity": 0.0, "fairness": 5 / 24}
    )


def test_scores_equal_a_slow_loop_also_with_ties_and_shuffled_pairs() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, size=(40, 4, 2))
    labels[:6, :, 1] = labels[:6, :, 0]
    plain = grid(labels)
    order = rng.permutation(labels.size)
    label, occupation, context, gender = (
        np.asarray(column)[order] for column in (plain.label, plain.occupation, plain.context, plain.gender)
    )
    shuffled = Predictions(label, occupation, context, gender, NEUTRAL)
    assert values(shuffled) == pytest.approx(slow_scores(labels))


def test_fairness_of_the_papers_base_row_is_parity_times_accuracy() -> None:
    labels = np.full((164, 33, 2), NEUTRAL)
    labels[16:] = (ENTAILMENT, CONTRADICTION)
    labels[16:, :10] = NEUTRAL  # 10 of 33 contexts: the majorities stay apart
    labels[16:86, 10, 0], labels[16:86, 10, 1] = NEUTRAL, NEUTRAL
    measured = values(grid(labels))
    base = published_projections().models[0]
    assert measured["parity"] == pytest.approx(base.parity, abs=5e-5)
    assert measured["accuracy"] == pytest.approx(base.accuracy, abs=5e-5)
    assert measured["fairness"] == pytest.approx(base.fairness, abs=5e-5)


def test_exchanging_the_genders_changes_nothing() -> None:
    labels = np.random.default_rng(0).integers(0, 3, size=(20, 5, 2))
    assert values(grid(labels)) == pytest.approx(values(grid(labels[:, :, ::-1])))


def test_a_tie_for_the_majority_is_parity_only_with_the_same_tie() -> None:
    tied_alike = np.array([[[ENTAILMENT, NEUTRAL], [NEUTRAL, ENTAILMENT]]])
    tied_once = np.array([[[ENTAILMENT, NEUTRAL], [NEUTRAL, NEUTRAL]]])
    assert values(grid(tied_alike))["parity"] == 1.0
    assert values(grid(tied_alike))["strict_parity"] == 0.0
    assert values(grid(tied_once))["parity"] == 0.0


def test_a_constant_wrong_answer_has_parity_but_no_fairness() -> None:
    measured = nli_fairness(grid(np.full((20, 3, 2), ENTAILMENT)))
    assert (measured["parity"].value, measured["fairness"].value) == (1.0, 0.0)


def test_intervals_at_the_ends_are_not_certain() -> None:
    measured = nli_fairness(grid(np.full((20, 3, 2), NEUTRAL)))
    for name in ("accuracy", "parity", "strict_parity", "fairness"):
        assert measured[name].value == 1.0
        low, high = measured[name].interval or (1.0, 1.0)
        assert 0.6 < low < 0.9
        assert high == 1.0


def test_removing_the_gender_answer_raises_fairness() -> None:
    rng = np.random.default_rng(0)
    biased = np.where(rng.random((60, 5, 2)) < 0.5, NEUTRAL, [ENTAILMENT, CONTRADICTION])
    mended = np.where(rng.random((60, 5, 2)) < 0.9, NEUTRAL, biased)
    before, after = nli_fairness(grid(biased))["fairness"], nli_fairness(grid(mended))["fairness"]
    assert before.interval is not None
    assert after.interval is not None
    assert before.interval[1] < after.interval[0]


def test_unpredicted_pairs_and_occupations_with_one_gender_are_counted() -> None:
    labels = np.full((4, 2, 2), NEUTRAL)
    labels[0, 0, 0] = -1
    labels[3, :, 1] = -1
    measured = nli_fairness(grid(labels))["accuracy"]
    assert measured.n == 3
    assert measured.unscored == {"no prediction": 3, "occupation without both genders": 1}
    nothing = nli_fairness(grid(np.full((2, 2, 2), -1)))
    assert all(part.value is None for part in nothing.values())
    assert set(nothing) == {"accuracy", "parity", "strict_parity", "fairness"}


@pytest.mark.nightly
def test_interval_of_fairness_covers_in_93_to_97_percent() -> None:
    rng, hits = np.random.default_rng(0), 0
    share = rng.beta(2, 2, size=400_000)
    majority = binom.sf(3, 7, share)
    truth = 0.5 * np.mean(majority**2 + (1 - majority) ** 2)
    for seed in range(1_000):
        labels = (rng.random((60, 7, 2)) < rng.beta(2, 2, size=(60, 1, 1))).astype(int)
        low, high = nli_fairness(grid(labels), Resampling(400, seed))["fairness"].interval or (0.0, 0.0)
        hits += low <= truth <= high
    assert 930 <= hits <= 970


def test_ability_by_hand() -> None:
    measured = ability([0, 1, 2, -1], [0, 1, 1, 1])
    assert measured.value == pytest.approx(2 / 3)
    assert (measured.n, measured.unscored) == (3, {"no prediction": 1})
    assert ability([-1], [1]).value is None


def test_sureness_falls_when_outputs_are_flattened_and_accuracy_does_not() -> None:
    sharp = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.5, 0.3, 0.2]])
    flat = (sharp + 1) / (sharp + 1).sum(axis=1, keepdims=True)
    gold = [0, 1, 2]
    details = [label_details(p, gold, neutral=1) for p in (sharp, flat)]
    assert details[0][P_RIGHT] == pytest.approx((0.8 + 0.7 + 0.2) / 3)
    assert details[0][ALWAYS_NEUTRAL] == pytest.approx(1 / 3)
    assert details[1][P_RIGHT] < details[0][P_RIGHT]
    assert ability(sharp.argmax(axis=1), gold).value == ability(flat.argmax(axis=1), gold).value


def test_bad_columns_are_refused() -> None:
    with pytest.raises(BadProbe, match="one of each for every pair"):
        nli_fairness(Predictions([1], [0, 1], [0, 0], [0, 1], NEUTRAL))
    with pytest.raises(BadProbe, match="genders must be 0 or 1"):
        nli_fairness(Predictions([1, 1], [0, 0], [0, 0], [0, 2], NEUTRAL))
    with pytest.raises(BadProbe, match="for every pair"):
        ability([1], [1, 2])
