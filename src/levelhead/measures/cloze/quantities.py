"""Means over prompts, with intervals over the occupations that the prompts are about.

Intervals are percentile bootstraps over occupations, drawn within each group: prompts of one occupation share
their base prompt and are no independent evidence. A cell of one occupation resamples its prompts; a single
prompt has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

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

    def intervals(self, sums: Floats, counts: Floats) -> list[Interval | None]:
        """The interval of each Σ sums / Σ counts over its prompts: [quantity, prompt of the cell] both."""
        return [None] * len(sums) if self.draws is None else self.draws.intervals(sums, counts)


@dataclass(frozen=True)
class QuantityTable:
    """Quantities of the same prompts, side by side, so that a cell is averaged once for all of them."""

    quantities: Mapping[str, Quantity]

    @cached_property
    def _stacked(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Sums, counts and evidence: [quantity, prompt] each."""
        every = self.quantities.values()
        return (
            np.stack([each.sums for each in every]),
            np.stack([each.counts for each in every]),
            np.stack([each.evidence for each in every]),
        )

    def over(
        self, cell: PromptCell, resampling: Resampling, labels: Mapping[str, object]
    ) -> dict[str, Measurement]:
        """Every quantity over the prompts of one cell; labels say which cell it is.

        value = Σ sums / Σ counts over the cell's prompts, or its exponential where the sums are of logs
        """
        all_sums, all_counts, all_evidence = self._stacked
        sums, counts = all_sums[:, cell.prompts], all_counts[:, cell.prompts]
        settings = {**labels, **resampling.settings(METHOD, cell.unit)}
        total, n, size = sums.sum(axis=1).tolist(), counts.sum(axis=1).tolist(), len(cell.prompts)
        scored = np.count_nonzero(counts, axis=1).tolist()
        known = np.asarray(all_evidence[:, cell.prompts].any(axis=1)).tolist()
        bounds = cell.intervals(sums, counts)
        measured = {}
        for i, (name, quantity) in enumerate(self.quantities.items()):
            unscored = {quantity.unscored: size - scored[i]} if scored[i] < size else {}
            if not known[i]:
                measured[name] = Measurement.missing(
                    name, quantity.lack, unscored=unscored, neutral=quantity.neutral, settings=settings
                )
                continue
            value, interval = total[i] / n[i], bounds[i]
            if quantity.logarithmic:
                value = math.exp(value)
                interval = None if interval is None else (math.exp(interval[0]), math.exp(interval[1]))
            measured[name] = Measurement(
                name, value, interval, int(n[i]), unscored, quantity.neutral, {}, settings
            )
        return measured


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

    def intervals(self, sums: Floats, counts: Floats) -> list[Interval | None]:
        """Percentile bootstrap of each Σ sums / Σ counts, both [quantity, item]; None when fewer than two
        clusters have a count."""
        totals, own = self._by_cluster(counts), self._by_cluster(sums)
        total, drawn = self.weights @ totals, self.weights @ own  # [draw, quantity]
        shares = ((1 - self.level) / 2, (1 + self.level) / 2)
        enough = np.count_nonzero(totals, axis=0) > 1
        bounds: list[Interval | None] = [None] * len(sums)
        if (self.times == 1).all() and (total[:, enough] > 0).all():
            quantiles = np.quantile(drawn[:, enough] / total[:, enough], shares, axis=0).T.tolist()
        else:
            quantiles = [self._quantiles(total[:, i], drawn[:, i], shares) for i in np.flatnonzero(enough)]
        for i, (low, high) in zip(np.flatnonzero(enough).tolist(), quantiles, strict=True):
            bounds[i] = low, high
        return bounds

    def _by_cluster(self, values: Floats) -> Floats:
        """Values [quantity, item] added up: [cluster, quantity]"""
        clusters = self.weights.shape[1]
        return np.stack([np.bincount(self.member, own, clusters) for own in values], axis=1)

    def _quantiles(self, total: Floats, drawn: Floats, shares: Sequence[float]) -> list[float]:
        kept = total > 0
        return repeated_quantiles(drawn[kept] / total[kept], self.times[kept], shares)


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
