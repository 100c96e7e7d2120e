"""How far SEAT lies beyond its floor at least, when words and the floor are redrawn together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from levelhead.measures.crossed import SeatEffect, WordSets, all_influences, least_excess, units
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import Resampling
from tests.measures.crossed_worlds import word_sets

Doubles = NDArray[np.float64]
QUICK = Resampling(200)
TOKENS = 3.0  # how far the tokens of words move them, beside 1 for what is their own


def effect_of(means: Doubles, words: WordSets) -> SeatEffect:
    effect = SeatEffect.of(units(means), words)
    assert effect is not None
    return effect


class Drawn:
    """A model and its null models, of drawn words: model [word, template, d], null models [word, d]."""

    def __init__(self, model: Doubles, null_models: list[Doubles], words: WordSets) -> None:
        self._model, self._own = model, effect_of(model.mean(1), words)
        self._null_models = [effect_of(null_model, words) for null_model in null_models]
        self._null = NullDistribution(np.array([effect.value for effect in self._null_models]))

    def excess(self) -> float:
        return abs(self._own.value - self._null.floor)

    def least(self) -> float:
        kinds = zip(*(effect.influences() for effect in self._null_models), strict=True)
        return self._least([np.mean(kind, axis=0) for kind in kinds])

    def least_unpaired(self) -> float:
        """The limit that takes the floor as known and fixed."""
        return self._least([])

    def _least(self, of_null_models: list[Doubles]) -> float:
        (own,) = all_influences([self._own], self._model)
        least = least_excess(self._own.value, self._null, own, of_null_models, QUICK)
        assert least is not None
        return least


def test_a_model_that_is_its_own_null_model_exceeds_nothing_and_that_is_certain() -> None:
    rng, words = np.random.default_rng(0), word_sets(6, 6, 6)
    v = rng.normal(size=(24, 1, 8))
    null_models = [v[:, 0] + 1e-9 * rng.normal(size=(24, 8)) for _ in range(5)]
    assert Drawn(v, null_models, words).least() == pytest.approx(0.0, abs=1e-6)


def test_the_limit_is_the_excess_less_the_quantile_times_both_errors_by_hand() -> None:
    """Two units of each kind that differ in one: t* is 0 or infinite in half of the redraws, 1.41 else."""
    null = NullDistribution(np.array([0.1, 0.3]))  # floor 0.2, spread 0.1414, its error 0.1
    own = [np.array([0.3, -0.3, 0.1, -0.1]), np.array([0.2, -0.2, 0.0]), np.array([0.1, -0.1, 0.0])]
    null_models = [np.array([0.1, -0.1, 0.1, -0.1]), np.array([0.2, -0.2, 0.0]), np.zeros(3)]
    # paired: (0.2, -0.2, 0, 0), (0, 0, 0), (0.1, -0.1, 0); error² = 4 · 0.08 / 3 + 0 + 3 · 0.01
    error = math.hypot(math.sqrt(0.32 / 3 + 0.03), 0.1)
    limits = [
        least_excess(1.2, null, own, null_models, Resampling(4_000, level=level)) for level in (0.95, 0.75)
    ]
    quantiles = [(1.0 - (limit or 0.0)) / error for limit in limits]
    assert quantiles[0] > quantiles[1] > 0
    rng, t = np.random.default_rng(1), []
    paired = [own_kind - null_model for own_kind, null_model in zip(own, null_models, strict=True)]
    for _ in range(4_000):
        drawn = [kind[rng.integers(kind.size, size=kind.size)] for kind in paired]
        variance = sum(kind.size * kind.var(ddof=1) for kind in drawn)
        if variance > 0:
            t.append(abs(sum(kind.sum() for kind in drawn)) / math.sqrt(variance))
    assert quantiles[1] == pytest.approx(np.quantile(t, 0.5), rel=0.1)


def test_a_kind_of_one_unit_leaves_the_limit_unknown() -> None:
    null, one = NullDistribution(np.array([0.1, 0.3])), [np.zeros(1), np.ones(3), np.ones(3)]
    assert least_excess(1.0, null, one, one, QUICK) is None


class Tokenized:
    """Words whose tokens move them along the direction of A against B, in a model and in its null models
    alike."""

    def __init__(self, rng: np.random.Generator, stereotype: float, n: int = 20, d: int = 24) -> None:
        self.words, self._rng, self._d = word_sets(n, n, n), rng, d
        side = np.repeat([1.0, -1.0, 0.2, -0.2], n)
        self._tokens = side + 0.5 * rng.normal(size=4 * n)  # more tokens in A and X
        self._meaning = np.repeat([1.0, -1.0, stereotype, -stereotype], n)
        self._center = np.full(d, 1.5)

    def model(self) -> Doubles:
        """Vectors [word, template, d]"""
        own = self._own()
        own[:, 1] += self._meaning
        return own[:, None] + 0.3 * self._rng.normal(size=(len(own), 4, self._d))

    def null_model(self) -> Doubles:
        """Vectors [word, d]"""
        return self._own()

    def _own(self) -> Doubles:
        v = self._center + self._rng.normal(size=(len(self._tokens), self._d)) / 2
        v[:, 0] += TOKENS * self._tokens
        return v


def drawn(seed: int, stereotype: float) -> Drawn:
    world = Tokenized(np.random.default_rng(seed), stereotype)
    return Drawn(world.model(), [world.null_model() for _ in range(19)], world.words)


@pytest.mark.nightly
def test_the_limit_holds_in_93_percent_of_redrawn_words_and_is_far_nearer_than_without_pairing() -> None:
    """The truth is the mean excess over many draws of words."""
    worlds = [drawn(seed, 2.0) for seed in range(400)]
    truth = np.mean([drawn(seed, 2.0).excess() for seed in range(10_000, 10_400)])
    least = np.array([world.least() for world in worlds])
    assert 0.93 <= np.mean(least <= truth) <= 0.99
    paired, unpaired = (
        np.mean([world.excess() - limit for world, limit in zip(worlds, limits, strict=True)])
        for limits in (least, [world.least_unpaired() for world in worlds])
    )
    assert paired < 0.8 * unpaired


@pytest.mark.nightly
@pytest.mark.slow
def test_without_meaning_the_limit_is_above_0_in_few_draws() -> None:
    least = np.array([drawn(seed, 0.0).least() for seed in range(300)])
    assert np.mean(least > 0) <= 0.15  # both sides of 5 % each, and the null models' p beside it
