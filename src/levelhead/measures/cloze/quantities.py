"""Means over prompts, with intervals over the occupations that the prompts are about.

Intervals are percentile bootstraps over occupations, drawn within each group: prompts of one occupation share
their base prompt and are no independent evidence. A cell of one occupation resamples its prompts; a single
prompt has no interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from levelhead.measures.cloze.prompt_table import PromptTable
from levelhead.measures.cloze.top_k import Floats, Ints
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Interval, Resampling

METHOD = "percentile bootstrap"
_FEW = 6  # clusters, of which most draws came before


@dataclass(frozen=True)
class Quantity:
    """A mean over prompts, as sums and counts so that occupations can be resampled."""

    sums: Floats  # [prompt]
    counts: Floats  # [prompt]
    evidence: NDArray[np.bool_]  # [prompt]; a cell without any is missing
    lack: str  # the reason then
    neutral: float | None = None
    logarithmic: bool = False  # sums of logs; the mean is geometric
    unscored: str = ""  # why a prompt may have count 0


@dataclass(frozen=True)
class PromptCell:
    """Some prompts of a table, and how their occupations are drawn again; of one occupation, its prompts."""

    prompts: Ints
    unit: str  # what is drawn
    draws: ClusterDraws | None  # None: there is one unit alone

    @classmethod
    def of(cls, prompts: Ints, table: PromptTable, resampling: Resampling) -> PromptCell:
        """The cell of these prompts of a table."""
        clusters, unit = table.clusters[prompts], "occupations"
        if (clusters == clusters[:1]).all():
            clusters, unit = np.arange(len(prompts)), "prompts"
        return cls(prompts, unit, ClusterDraws.of(clusters, table.own[prompts], resampling))

    def interval(self, sums: Floats, counts: Floats) -> Interval | None:
        """The interval of Σ sums / Σ counts over its prompts, of sums and counts of all prompts."""
        return None if self.draws is None else self.draws.interval(sums[self.prompts], counts[self.prompts])


def cell_measurement(
    name: str,
    quantity: Quantity,
    cell: PromptCell,
    resampling: Resampling,
    labels: Mapping[str, object],
) -> Measurement:
    """A quantity over the prompts of one cell; labels say which cell it is.

    value = Σ sums / Σ counts over the cell's prompts, or its exponential where the sums are of logs
    """
    prompts = cell.prompts
    settings = {**labels, **resampling.settings(METHOD, cell.unit)}
    sums, counts = quantity.sums[prompts], quantity.counts[prompts]
    skipped = len(counts) - int(np.count_nonzero(counts))
    unscored = {quantity.unscored: skipped} if skipped else {}
    if not quantity.evidence[prompts].any():
        return Measurement.missing(
            name, quantity.lack, unscored=unscored, neutral=quantity.neutral, settings=settings
        )
    bounds = None if cell.draws is None else cell.draws.interval(sums, counts)
    value = float(sums.sum() / counts.sum())
    if quantity.logarithmic:
        value = float(np.exp(value))
        bounds = None if bounds is None else (float(np.exp(bounds[0])), float(np.exp(bounds[1])))
    return Measurement(name, value, bounds, int(counts.sum()), unscored, quantity.neutral, {}, settings)


@dataclass(frozen=True)
class ClusterDraws:
    """Clusters of items, and how often each is drawn: each stratum to its size.

    Few clusters have few draws that differ: these stand there once, with how often they came. Strata are
    joined where one of them is a single cluster, which would never vary and make an interval too sure.
    """

    member: Ints  # [item] the cluster of each
    weights: Floats  # [draw, cluster] how often each cluster is drawn
    times: Ints  # [draw] how often it came
    level: float

    @classmethod
    def of(cls, clusters: Ints, strata: Ints, resampling: Resampling) -> ClusterDraws | None:
        """The draws of some clusters; None of fewer than two."""
        names, first, member = np.unique(clusters, return_index=True, return_inverse=True)
        if len(names) < 2:
            return None
        order = np.argsort(strata[first], kind="stable")
        sizes = np.unique(strata[first], return_counts=True)[1]
        if sizes.min() < 2:
            sizes = np.array([len(names)])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        weights, times = _weights(tuple(sizes.tolist()), resampling.seed, resampling.resamples)
        return cls(place[member], weights, times, resampling.level)

    def interval(self, sums: Floats, counts: Floats) -> Interval | None:
        """Percentile bootstrap of Σ sums / Σ counts; None when fewer than two clusters have a count."""
        totals = np.bincount(self.member, counts)
        if np.count_nonzero(totals) < 2:
            return None
        total, drawn = self.weights @ totals, self.weights @ np.bincount(self.member, sums)
        kept = total > 0
        tail = (1 - self.level) / 2
        low, high = repeated_quantiles(drawn[kept] / total[kept], self.times[kept], (tail, 1 - tail))
        return low, high


def repeated_quantiles(values: Floats, times: Ints, shares: Sequence[float]) -> list[float]:
    """Quantiles of values of which each came so many times, as numpy.quantile has them of all of them."""
    if (times == 1).all():
        return [float(each) for each in np.quantile(values, shares)]
    order = np.argsort(values)
    last = np.cumsum(times[order])
    found = []
    for share in shares:
        at = share * (last[-1] - 1)
        low, high = values[order[np.searchsorted(last, [np.floor(at), np.ceil(at)], side="right")]]
        found.append(float(low + (high - low) * (at - np.floor(at))))
    return found


@lru_cache(maxsize=64)
def _weights(sizes: tuple[int, ...], seed: int, resamples: int) -> tuple[Floats, Ints]:
    """How often each cluster is drawn, each stratum by itself, and how often that came."""
    rng = np.random.default_rng(seed)
    drawn = np.hstack([rng.multinomial(size, np.full(size, 1 / size), resamples) for size in sizes])
    if sum(sizes) > _FEW:
        return drawn.astype(float), np.ones(resamples, np.int64)
    different, times = np.unique(drawn, axis=0, return_counts=True)
    return different.astype(float), times
