"""Intervals over clusters: draws that are alike are worked out once, and count as often as they came."""

from __future__ import annotations

import numpy as np
import pytest

from levelhead.measures.cloze import PromptCell, PromptTable, repeated_quantiles
from levelhead.measures.statistics import Resampling

RESAMPLING = Resampling(2_000, seed=3)


def cell_of(clusters: np.ndarray, strata: np.ndarray) -> PromptCell:
    names = np.array([f"job{number:02}" for number in clusters])
    table = PromptTable(np.full(len(names), "base"), names, strata, ("female", "male"))
    return PromptCell.of(np.arange(len(names)), table, RESAMPLING)


def drawn_again(sums: np.ndarray, counts: np.ndarray, clusters: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """The bootstrap means as they are written down: every resample by itself."""
    names, first = np.unique(clusters, return_index=True)
    by_cluster = np.array([[sums[clusters == name].sum(), counts[clusters == name].sum()] for name in names])
    sides = [np.flatnonzero(strata[first] == side) for side in np.unique(strata[first])]
    if min(map(len, sides)) < 2:
        sides = [np.arange(len(names))]
    rng = np.random.default_rng(RESAMPLING.seed)
    times = [rng.multinomial(len(s), np.full(len(s), 1 / len(s)), RESAMPLING.resamples) for s in sides]
    order = np.concatenate(sides) if len(sides) > 1 else np.argsort(strata[first], kind="stable")
    sums_drawn, counts_drawn = (np.hstack(times) @ by_cluster[order]).T
    return np.asarray(sums_drawn[counts_drawn > 0] / counts_drawn[counts_drawn > 0])


@pytest.mark.parametrize("clusters", [2, 3, 6, 7, 20])
@pytest.mark.parametrize("single", [False, True])
def test_an_interval_is_that_of_all_resamples(clusters: int, single: bool) -> None:
    rng = np.random.default_rng(clusters)
    of_item = np.repeat(np.arange(clusters), 2)
    strata = np.where(of_item < (1 if single else clusters // 2), 1, -1)
    sums, counts = rng.normal(size=2 * clusters), rng.integers(0, 3, 2 * clusters).astype(float)
    counts[:4] = 1
    cell = cell_of(of_item, strata)
    assert cell.draws is not None
    assert len(cell.draws[1]) < RESAMPLING.resamples or clusters > 6
    together = cell.intervals(np.stack([sums, 2 * sums]), np.stack([counts, np.ones_like(counts)]))
    asked = ((sums, counts), (2 * sums, np.ones_like(counts)))
    for own, (own_sums, own_counts) in zip(together, asked, strict=True):
        expected = np.quantile(drawn_again(own_sums, own_counts, of_item, strata), [0.025, 0.975])
        assert own == pytest.approx(tuple(expected))


def test_one_prompt_and_one_cluster_with_a_count_have_no_interval() -> None:
    ones, one_side = np.ones(4), np.ones(4, np.int64)
    alone = cell_of(np.zeros(1, np.int64), np.ones(1, np.int64))
    assert alone.intervals(np.ones((2, 1)), np.ones((2, 1))) == [None, None]
    cell = cell_of(np.array([0, 0, 1, 1]), one_side)
    one, both = cell.intervals(np.stack([ones, ones]), np.array([[1.0, 1.0, 0.0, 0.0], ones]))
    assert one is None
    assert both is not None


def test_quantiles_of_repeated_values_are_numpys() -> None:
    rng = np.random.default_rng(1)
    values, times = rng.normal(size=9), rng.integers(1, 40, 9)
    shares = (0.0, 0.025, 0.3, 0.5, 0.975, 1.0)
    assert repeated_quantiles(values, times, shares) == pytest.approx(
        np.quantile(np.repeat(values, times), shares)
    )
