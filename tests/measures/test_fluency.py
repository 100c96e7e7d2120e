"""Perplexity over tokens, its interval over texts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.measures.fluency import fluency_change, perplexity
from levelhead.measures.statistics import Resampling

NAN = math.nan


def test_pppl_by_hand_is_a_mean_over_tokens_not_over_texts() -> None:
    measured = perplexity([np.log([0.5]), np.log([0.25, 0.25, 0.25])], masked=True)
    assert measured.value == pytest.approx(2 ** (7 / 4))  # −log2: 1 + 2 + 2 + 2 over 4 tokens
    assert (measured.name, measured.n, measured.details["texts"]) == ("pppl", 4, 2)


def test_a_model_that_guesses_among_v_words_has_perplexity_v() -> None:
    assert perplexity([np.log(np.full(k, 1 / 30522)) for k in (3, 8, 2)]).value == pytest.approx(30522)


def test_the_first_token_of_a_causal_text_is_counted_and_not_averaged() -> None:
    measured = perplexity([[NAN, math.log(0.5)], [NAN, math.log(0.5), math.log(0.5)], [NAN]])
    assert measured.value == pytest.approx(2)
    assert (measured.n, measured.unscored) == (3, {"token without a likelihood": 3})
    assert measured.details["texts"] == 2


def test_order_of_texts_does_not_matter_to_the_value() -> None:
    rng = np.random.default_rng(0)
    texts = [-rng.gamma(2, size=k) for k in rng.integers(2, 20, size=30)]
    assert perplexity(texts[::-1]).value == pytest.approx(perplexity(texts).value)


@pytest.mark.nightly
def test_interval_over_texts_covers_in_93_to_97_percent() -> None:
    rng, hits, truth = np.random.default_rng(0), 0, math.exp(2)
    for seed in range(1_000):
        sizes = rng.integers(5, 30, size=80)
        hard = rng.uniform(0.5, 1.5, size=80)
        texts = [-rng.gamma(2, level, size=size) for level, size in zip(hard, sizes, strict=True)]
        low, high = perplexity(texts, Resampling(400, seed), masked=True).interval or (0.0, 0.0)
        hits += low <= truth <= high
    assert 930 <= hits <= 970


def test_the_change_is_the_ratio_and_sharper_than_two_intervals() -> None:
    rng = np.random.default_rng(0)
    before = [-rng.gamma(2, size=12) for _ in range(100)]
    after = [text - rng.uniform(0, 0.1, size=12) for text in before]
    ratio, first, second = fluency_change(after, before), perplexity(before), perplexity(after)
    assert ratio.value == pytest.approx(float(second.value or 0) / float(first.value or 1))
    assert ratio.interval is not None
    assert first.interval is not None
    assert second.interval is not None
    assert ratio.interval[0] > 1.0
    assert second.interval[0] < first.interval[1]
    assert fluency_change(before, before).value == 1.0


def test_nothing_to_score_and_probability_zero_are_not_measured() -> None:
    assert perplexity([]).reason == "no token could be scored"
    assert perplexity([[NAN]]).value is None
    assert "infinite" in perplexity([[-math.inf, -1.0]]).reason


@pytest.mark.filterwarnings("error")
def test_a_perplexity_that_no_float_holds_is_not_measured() -> None:
    exploded = [[-1e5, -2e5], [-3e5]]
    assert perplexity(exploded).value is None
    assert "-2e+05" in perplexity(exploded).reason
    assert fluency_change(exploded, [[-1.0, -1.0], [-1.0]]).value is None
    near = perplexity([[-709.0], [-1.0], [-709.7], [-709.7]])
    assert near.value is not None
    assert near.interval is None or np.isfinite(near.interval).all()


def test_bad_texts_are_refused() -> None:
    with pytest.raises(BadProbe, match="above 0"):
        perplexity([[0.4]])
    with pytest.raises(BadProbe, match="one number for each token"):
        perplexity([[[0.4]]])
    with pytest.raises(BadProbe, match="same texts"):
        fluency_change([[-1.0]], [[-1.0, -2.0]])
    with pytest.raises(BadProbe, match="same texts"):
        fluency_change([[-1.0]], [])
