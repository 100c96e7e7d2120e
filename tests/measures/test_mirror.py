"""The mirror image in numbers: worked out by hand, and a tilt that is found again."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.measures.mirror import (
    NOT_EXACT,
    MirrorScores,
    PairedWords,
    fitted_tilt,
    mirror_change,
    mirror_divergence,
    mirror_parts,
)
from tests.measures.worlds import QUICK


def scores(gaps: list[float], exact: list[bool] | None = None) -> MirrorScores:
    return MirrorScores(
        np.asarray(gaps), np.zeros(len(gaps)), np.full(len(gaps), 10), np.asarray(exact or [True] * len(gaps))
    )


def test_divergence_is_the_mean_gap_of_texts_that_are_turned_around_exactly() -> None:
    found = mirror_divergence(scores([1.0, 3.0, 2.0, 99.0], [True, True, True, False]), list("aabb"), QUICK)
    assert found.value == pytest.approx(2.0)
    assert found.details["per token"] == pytest.approx(0.2)
    assert (found.n, found.unscored, found.neutral) == (3, {NOT_EXACT: 1}, 0.0)
    assert found.null is None  # a magnitude, no claim


def test_divergence_of_the_mirrored_scores_has_the_other_sign() -> None:
    own = scores([1.0, 3.0, 2.5, 0.5])
    other = replace(own, log_p=own.log_p_mirror, log_p_mirror=own.log_p)
    one, two = (mirror_divergence(each, list("abcd"), QUICK) for each in (own, other))
    assert one.value == -(two.value or 0.0)


def test_nothing_scored_is_not_zero() -> None:
    found = mirror_divergence(scores([1.0], [False]), ["a"], QUICK)
    assert found.value is None
    with pytest.raises(BadProbe, match="one cluster per text"):
        mirror_divergence(scores([1.0]), ["a", "b"], QUICK)


def test_a_mitigation_changes_the_divergence_by_a_share() -> None:
    before, after = scores([2.0, 4.0, 2.0, 4.0]), scores([1.0, 2.0, 1.0, 2.0, 1.5, 1.5])
    found = mirror_change(before, after, list("abab"), list("ababab"), QUICK)
    assert found.value == pytest.approx(-0.5)
    assert (found.details["before"], found.details["after"]) == (3.0, 1.5)
    assert found.details["difference"] == -1.5
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(40), 8)
    spread = rng.normal(0, 0.5, 40)[clusters]
    one = scores((2 + spread + rng.normal(0, 1, 320)).tolist())
    two = scores((1 + 0.5 * spread + rng.normal(0, 1, 320)).tolist())
    found = mirror_change(one, two, clusters, clusters)
    assert found.interval is not None
    assert found.interval[0] < -0.5 < found.interval[1] < -0.3


# ---- its parts: a symmetric world of sequences, tilted by one number per pair

WORDS = ("she", "he", "mother", "father", "works", "and", "sleeps")
MIRROR = np.asarray([1, 0, 3, 2, 4, 5, 6])
CLASSES = {"she/he": (0, 1), "mother/father": (2, 3)}


def symmetric(rng: np.random.Generator) -> np.ndarray:
    """p(next | before) [before, next] with p(σ v | σ w) = p(v | w)."""
    p = rng.dirichlet(np.ones(len(WORDS)) * 2, len(WORDS))
    p = 0.5 * (p + p[MIRROR][:, MIRROR])
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def tilted(p: np.ndarray, by: dict[str, float]) -> np.ndarray:
    """More of the masculine word everywhere, by so many nats."""
    more = p.copy()
    for name, nats in by.items():
        more[:, CLASSES[name][1]] *= math.exp(nats)
    return np.asarray(more / more.sum(axis=1, keepdims=True))


def written(p: np.ndarray, texts: int, length: int, seed: int) -> tuple[MirrorScores, PairedWords]:
    """Texts of a chain that begin behind "works", with all that the measures need."""
    rng = np.random.default_rng(seed)
    log_p, mirror, counts = np.zeros(texts), np.zeros(texts), np.zeros((texts, 2))
    feminine, masculine = np.zeros((texts * length, 2)), np.zeros((texts * length, 2))
    for i in range(texts):
        before = 4
        for j in range(length):
            after = int(rng.choice(len(WORDS), p=p[before]))
            log_p[i] += math.log(p[before, after])
            mirror[i] += math.log(p[MIRROR[before], MIRROR[after]])
            for c, (f, m) in enumerate(CLASSES.values()):
                counts[i, c] += (after == f) - (after == m)
                # on the mirrored side "he" stands for the text's own "she"
                feminine[i * length + j, c] = p[MIRROR[before], m]
                masculine[i * length + j, c] = p[MIRROR[before], f]
            before = after
    number = np.repeat(np.arange(texts), length)
    words = PairedWords(
        tuple(CLASSES), counts, number, feminine.astype(np.float32), masculine.astype(np.float32)
    )
    return MirrorScores(log_p, mirror, np.full(texts, length), np.ones(texts, np.bool_)), words


def test_a_tilt_of_a_symmetric_model_is_found_and_leaves_no_context() -> None:
    planted = {"she/he": 0.8, "mother/father": -0.5}
    own, words = written(tilted(symmetric(np.random.default_rng(5)), planted), 800, 12, 1)
    clusters = np.arange(800) // 10
    parts = mirror_parts(own, words, clusters)
    divergence = mirror_divergence(own, clusters)
    assert divergence.interval is not None
    assert parts.context.interval is not None
    assert parts.frequency.interval is not None
    assert divergence.interval[0] > 0.1
    assert parts.context.interval[0] < 0 < parts.context.interval[1]
    assert abs(parts.context.value or 0) < 0.05 * (divergence.value or 0)
    assert parts.frequency.interval[0] > 0
    assert (parts.frequency.value or 0) + (parts.context.value or 0) == pytest.approx(divergence.value)
    found = dict(parts.tilts)
    # he more often by e^τ: against the mirror, she is rarer and he more frequent, each by τ
    assert found["she/he"] == pytest.approx(-0.8, abs=0.1)
    assert found["mother/father"] == pytest.approx(0.5, abs=0.1)


def test_context_is_planted_too_and_remains() -> None:
    p = symmetric(np.random.default_rng(5))
    p[6, 0] *= 4  # she, but behind "sleeps" alone
    p[5, 1] *= 4  # he, but behind "and" alone
    p /= p.sum(axis=1, keepdims=True)
    own, words = written(p, 800, 12, 2)
    parts = mirror_parts(own, words, np.arange(800) // 10)
    assert parts.context.interval is not None
    assert parts.context.interval[0] > 0.1
    assert abs(parts.frequency.value or 0) < 0.3 * (parts.context.value or 0)


def test_a_symmetric_model_has_neither_part_and_no_tilt() -> None:
    own, words = written(symmetric(np.random.default_rng(5)), 300, 8, 3)
    assert np.abs(own.gaps).max() < 1e-9
    parts = mirror_parts(own, words, np.arange(300) // 10, QUICK)
    assert abs(parts.context.value or 0) < 0.01
    assert max(abs(t) for _, t in parts.tilts) < 0.12


def test_the_tilt_is_the_maximum() -> None:
    _, words = written(tilted(symmetric(np.random.default_rng(1)), {"she/he": 0.5}), 60, 8, 4)
    t = fitted_tilt(words)

    def penalized(at: np.ndarray) -> float:
        return float(words.log_gain(at).sum() - 0.5 * at @ at)

    for step in ([0.02, 0], [-0.02, 0], [0, 0.02], [0, -0.02]):
        assert penalized(t) > penalized(t + np.asarray(step))


def test_parts_need_clusters_for_both_halves() -> None:
    own, words = written(symmetric(np.random.default_rng(5)), 6, 4, 3)
    parts = mirror_parts(own, words, [0, 0, 1, 1, 2, 2], QUICK)
    assert parts.context.value is None
    assert "at least 4" in parts.context.reason
