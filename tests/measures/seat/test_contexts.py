"""Intervals over contexts: against known truth, and by hand where a word has one context."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from levelhead.measures.seat.contexts import ContextResamples, Contexts
from levelhead.measures.seat.intervals import Replicate
from levelhead.measures.seat.measurements import word_seat_measurement
from levelhead.measures.statistics import FloatArray, Resampling
from tests.measures.seat.cases import SETS, seat_of, slow_seat, some_words

UNEQUAL = {  # numbers of contexts, dealt to the words in turn
    "a quarter with 1": [1, 5, 5, 5],
    "half with 1": [1, 5],
    "all targets with 1": [5] * 8 + [1] * 8,
    "1, 2, 5 and 10": [1, 2, 5, 10],
}


def numbered(counts: Sequence[int]) -> npt.NDArray[np.int64]:
    """The word of each context [context] when the 16 words get these numbers of contexts in turn."""
    return np.repeat(np.arange(16), np.resize(counts, 16))


def replicate_of(vectors: FloatArray, word: npt.NDArray[np.int64]) -> Replicate:
    """What the bootstrap over contexts computes for one resample."""
    return ContextResamples.of(Contexts.of(vectors, word, SETS)).replicate


def test_a_resample_moves_a_single_context_by_a_stretched_deviation_of_another_word() -> None:
    rng = np.random.default_rng(0)
    word = numbered([1, 2, 5, 10])
    vectors = rng.normal(size=(word.size, 12)) + 1
    mean = np.stack([vectors[word == w].mean(axis=0) for w in range(16)])
    n = np.bincount(word)
    donors = np.flatnonzero(n[word] > 1)
    drawn = donors[np.random.default_rng(7).integers(donors.size, size=(3, 4))]
    expected = []
    for contexts in drawn:
        static = mean.copy()
        for single, c in zip(np.flatnonzero(n == 1), contexts, strict=True):
            static[single] += math.sqrt(n[word[c]] / (n[word[c]] - 1)) * (vectors[c] - mean[word[c]])
        expected.append(seat_of(static))
    values, _ = replicate_of(vectors, word)(np.ones((3, word.size)), np.random.default_rng(7))
    assert values == pytest.approx(expected, abs=1e-5)
    assert len({round(value, 3) for value in expected}) == 3


def test_the_error_gives_a_single_context_the_pooled_variance_by_hand() -> None:
    rng = np.random.default_rng(1)
    word = numbered([1, 2, 5, 10])
    vectors = rng.normal(size=(word.size, 6)) + 1
    mean = np.stack([vectors[word == w].mean(axis=0) for w in range(16)])
    G = np.zeros_like(mean)  # d SEAT / d v by differences
    for cell in np.ndindex(mean.shape):
        step = np.zeros_like(mean)
        step[cell] = 1e-5
        G[cell] = (seat_of(mean + step) - seat_of(mean - step)) / 2e-5
    own, within, steep = 0.0, 0.0, 0.0
    for w in range(16):
        on_g = vectors[word == w] @ G[w]
        if on_g.size > 1:
            own += on_g.var(ddof=1) / on_g.size
            within += ((on_g - on_g.mean()) ** 2).sum()
            steep += (on_g.size - 1) * (G[w] ** 2).sum()
    alone = (G[np.bincount(word) == 1] ** 2).sum() * within / steep
    (value,), (error,) = replicate_of(vectors, word)(np.ones((1, word.size)), None)
    assert value == pytest.approx(seat_of(mean), abs=1e-5)
    assert error == pytest.approx(math.sqrt(own + alone), rel=1e-4)
    assert alone > own / 2  # without it the error would be visibly smaller


def test_the_interval_of_equally_many_contexts_is_that_from_before_single_contexts_had_a_spread() -> None:
    rng = np.random.default_rng(0)
    truth, word = some_words(rng, 0.4), numbered([20])
    measured = word_seat_measurement(truth[word] + rng.normal(size=(word.size, 16)) / 4, word, SETS)
    assert measured.interval == pytest.approx((0.49151, 1.03937), abs=1e-5)


def test_taking_contexts_away_from_some_words_widens_the_interval_the_same_way_every_time() -> None:
    rng = np.random.default_rng(0)
    truth, word = some_words(rng, 0.4), numbered([20])
    vectors = truth[word] + rng.normal(size=(word.size, 16)) / 8
    kept = (word % 4 > 0) | (np.arange(word.size) % 20 == 0)  # every fourth word keeps its first context
    full = word_seat_measurement(vectors, word, SETS).interval
    some, again = (word_seat_measurement(vectors[kept], word[kept], SETS).interval for _ in range(2))
    assert full is not None
    assert some is not None
    assert some == again
    assert some[1] - some[0] > 1.5 * (full[1] - full[0])


def test_single_contexts_give_a_value_but_no_interval() -> None:
    measured = word_seat_measurement(np.random.default_rng(0).normal(size=(16, 8)), np.arange(16), SETS)
    assert measured.value is not None
    assert measured.interval is None
    assert measured.details["words_with_one_context"] == 16


def test_more_contexts_narrow_the_interval() -> None:
    rng = np.random.default_rng(0)
    truth, widths = some_words(rng, 0.4), []
    for contexts in (5, 80):
        word = np.repeat(np.arange(16), contexts)
        interval = word_seat_measurement(
            truth[word] + rng.normal(size=(word.size, 16)) / 4, word, SETS
        ).interval
        assert interval is not None
        widths.append(interval[1] - interval[0])
    assert widths[1] < widths[0] / 2.5


@pytest.mark.slow
@pytest.mark.parametrize(("contexts", "effect"), [(5, 0.0), (10, 0.3)])
def test_interval_over_contexts_covers_the_seat_of_the_true_vectors(contexts: int, effect: float) -> None:
    rng = np.random.default_rng(3)
    truth = some_words(rng, effect)
    value = slow_seat({name: truth[list(SETS[name])] for name in "ABXY"})
    word, hits = np.repeat(np.arange(16), contexts), 0
    for seed in range(1_000):
        noisy = truth[word] + rng.normal(size=(word.size, 16)) / 4
        interval = word_seat_measurement(noisy, word, SETS, Resampling(200, seed)).interval
        assert interval is not None
        hits += interval[0] <= value <= interval[1]
    assert 930 <= hits <= 970


@pytest.mark.slow
@pytest.mark.parametrize("design", list(UNEQUAL))
def test_interval_covers_the_truth_when_words_have_unequally_many_contexts(design: str) -> None:
    rng = np.random.default_rng(0)
    word, hits = numbered(UNEQUAL[design]), 0
    for seed in range(2_000):
        truth = some_words(rng, (0.0, 0.3)[seed % 2])
        noisy = truth[word] + rng.normal(size=(word.size, 16)) / 4
        interval = word_seat_measurement(noisy, word, SETS, Resampling(200, seed)).interval
        assert interval is not None
        hits += interval[0] <= seat_of(truth) <= interval[1]
    assert 1_860 <= hits <= 1_940
