"""Means over prompts, with intervals over the occupations that the prompts are about.

Intervals are percentile bootstraps over occupations, drawn within each group: prompts of one occupation share
their base prompt and are no independent evidence. A cell of one occupation resamples its prompts; a single
prompt has no interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from levelhead.measures.cloze.prompt_table import PromptTable
from levelhead.measures.cloze.top_k import Floats, Ints
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Interval, Resampling

METHOD = "percentile bootstrap"


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


def cell_measurement(
    name: str,
    quantity: Quantity,
    prompts: Ints,
    table: PromptTable,
    resampling: Resampling,
    labels: Mapping[str, object],
) -> Measurement:
    """A quantity over the prompts of one cell; labels say which cell it is.

    value = Σ sums / Σ counts over the cell's prompts, or its exponential where the sums are of logs
    """
    unit = "occupations" if len(np.unique(table.clusters[prompts])) > 1 else "prompts"
    settings = {**labels, **resampling.settings(METHOD, unit)}
    sums, counts = quantity.sums[prompts], quantity.counts[prompts]
    skipped = int((counts == 0).sum())
    unscored = {quantity.unscored: skipped} if skipped else {}
    if not quantity.evidence[prompts].any():
        return Measurement.missing(
            name, quantity.lack, unscored=unscored, neutral=quantity.neutral, settings=settings
        )
    clusters = table.clusters[prompts] if unit == "occupations" else np.arange(len(prompts))
    bounds = cluster_interval(sums, counts, clusters, table.own[prompts], resampling)
    value = float(sums.sum() / counts.sum())
    if quantity.logarithmic:
        value = float(np.exp(value))
        bounds = None if bounds is None else (float(np.exp(bounds[0])), float(np.exp(bounds[1])))
    return Measurement(name, value, bounds, int(counts.sum()), unscored, quantity.neutral, {}, settings)


def cluster_interval(
    sums: Floats, counts: Floats, clusters: Ints, strata: Ints, resampling: Resampling
) -> Interval | None:
    """Percentile bootstrap of Σ sums / Σ counts: whole clusters are drawn, each stratum to its size.

    None when fewer than two clusters have a count. Strata are joined where one of them is a single cluster,
    which would never vary and make the interval too sure.
    """
    names, first, member = np.unique(clusters, return_index=True, return_inverse=True)
    if len(names) < 2 or np.count_nonzero(np.bincount(member, counts)) < 2:
        return None
    order = np.argsort(strata[first], kind="stable")
    sizes = np.unique(strata[first], return_counts=True)[1]
    if sizes.min() < 2:
        sizes = np.array([len(names)])
    weights = _weights(tuple(sizes.tolist()), resampling.seed, resampling.resamples)
    total = weights @ np.bincount(member, counts)[order]
    means = (weights @ np.bincount(member, sums)[order])[total > 0] / total[total > 0]
    tail = (1 - resampling.level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


@lru_cache(maxsize=64)
def _weights(sizes: tuple[int, ...], seed: int, resamples: int) -> Floats:
    """[resample, cluster] how often each cluster is drawn, each stratum by itself."""
    rng = np.random.default_rng(seed)
    return np.hstack([rng.multinomial(size, np.full(size, 1 / size), resamples) for size in sizes]).astype(
        float
    )
