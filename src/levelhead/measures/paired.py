"""What an edit changes, item by item (docs/method.md, Statistics).

    change = T(after) − T(before)      T of the same items
    interval: BCa bootstrap; the same clusters are drawn for both
    p: before and after exchanged at random, cluster by cluster (sign_flips.exchange_null)

Hard items are hard before and after, so a paired change is much sharper than two separate intervals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import CHANGE, Measurement
from levelhead.measures.occupations import OccupationTable
from levelhead.measures.sign_flips import exchange_null
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Resampling,
    bootstrap,
    clustered_values,
    top_share_count,
)
from levelhead.measures.stereoset import BCA, CONTEXTS, top_statistic


def strength_change(
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    contexts: npt.ArrayLike,
    share: float = 0.10,
    resampling: Resampling = DEFAULT,
) -> Measurement:
    """Change of Strength: each side chooses its own largest s (see stereoset.strength).

    before, after [pair] are s of the same triple pairs; contexts [pair] are the clusters.
    """
    first, member = clustered_values("strength change", before, contexts)
    second, _ = clustered_values("strength change", after, contexts)
    known = _known(first.size, resampling, CONTEXTS)
    if not first.size:
        return Measurement.missing("strength" + CHANGE, "no triple pair", **known)
    rest = first.size - top_share_count(share, first.size)

    def top_mean(s: FloatArray) -> FloatArray:
        return np.asarray(np.partition(s[:, :, 0], rest, axis=1)[:, rest:].mean(axis=1), dtype=np.float64)

    tops = [top_statistic(s, member, share) for s in (first, second)]
    interval = bootstrap(lambda counts: tops[1](counts) - tops[0](counts), int(member.max()) + 1, resampling)
    value = float((top_mean(second[None, :, None]) - top_mean(first[None, :, None]))[0])
    null = exchange_null(first[:, None], second[:, None], top_mean, member, seed=resampling.seed)
    return Measurement("strength" + CHANGE, value, interval, null=null, **known)


def fairness_change(
    before: OccupationTable, after: OccupationTable, resampling: Resampling = DEFAULT
) -> Measurement:
    """Change of fairness, accuracy · parity, on the same occupations, which are the clusters."""
    first, second = _columns(before), _columns(after)
    if first.shape != second.shape:
        raise BadProbe(f"{len(first)} occupations before and {len(second)} after: ask about the same ones.")
    known = _known(len(first), resampling, "occupations")
    if not first.size:
        return Measurement.missing("fairness" + CHANGE, "no occupation", **known)

    def fairness(columns: FloatArray) -> FloatArray:
        right, predicted, same = np.moveaxis(columns.sum(axis=1), -1, 0)
        return np.asarray(right / predicted * same / columns.shape[1], dtype=np.float64)

    interval = bootstrap(
        lambda counts: after.fairness(counts) - before.fairness(counts), len(first), resampling
    )
    value = float((fairness(second[None]) - fairness(first[None]))[0])
    null = exchange_null(first, second, fairness, np.arange(len(first)), seed=resampling.seed)
    return Measurement("fairness" + CHANGE, value, interval, null=null, **known)


def _columns(table: OccupationTable) -> FloatArray:
    """What fairness is made of: [occupation, neutral predictions / predictions / same for both genders]"""
    return np.stack([table.right, table.predicted, table.same], axis=1)


def _known(n: int, resampling: Resampling, clusters: str) -> dict[str, Any]:
    settings = {**resampling.settings(BCA, clusters), "paired": True, "exchanged": clusters}
    return {"n": n, "neutral": 0.0, "settings": settings}
