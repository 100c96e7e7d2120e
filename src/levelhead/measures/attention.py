"""Does a head look less at the attribute word when the stereotype is turned? (docs/method.md,
Counter-stereotypes)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Resampling,
    mean_interval,
    paired_t_test,
    q_values,
)


@dataclass(frozen=True)
class CounterTest:
    """Attention to the attribute word, original against counter-stereotype, by group of heads and by head."""

    groups: Mapping[str, Measurement]  # "biased" (score > 0) and "regular" (score <= 0)
    difference: FloatArray  # [layer, head] mean of original − counter
    t: FloatArray  # [layer, head]
    p_value: FloatArray  # [layer, head] one-tailed
    q_value: FloatArray  # [layer, head] Benjamini-Hochberg over the heads that could be tested
    n: npt.NDArray[np.int64]  # [layer, head] sentences


def attention_to_attribute(
    rows: npt.ArrayLike, allowed: npt.ArrayLike, attribute: npt.ArrayLike
) -> FloatArray:
    """How much the target word looks at the attribute word in every head, [layer, head].

        a' = (a − min a) / (max a − min a)   over the allowed columns, each target piece's row by itself
        score = mean over target pieces of Σ a' over attribute pieces

    rows [layer, head, target piece, token]; allowed [token], or [target piece, token] for a causal model, is
    False for special tokens, punctuation and tokens that cannot be seen; attribute [token]. A row that is
    constant or sees no attribute piece is unscored; a head without a scored row is NaN. Reference:
    bias-a-head, section 5.2, footnote 12.
    """
    a, columns = np.asarray(rows, dtype=np.float64), np.asarray(attribute, dtype=bool)
    if a.ndim != 4 or columns.shape != a.shape[3:] or not np.isfinite(a).all():
        raise BadProbe(
            f"Attention {a.shape} and attribute {columns.shape}: give [layer, head, piece, token], no NaN."
        )
    seen = np.asarray(allowed, dtype=bool)
    if seen.shape not in (columns.shape, a.shape[2:]):
        raise BadProbe(f"allowed has shape {seen.shape}; it must be {columns.shape} or {a.shape[2:]}.")
    seen = np.broadcast_to(seen, a.shape[2:])
    low = np.where(seen, a, np.inf).min(axis=3, initial=np.inf)
    high = np.where(seen, a, -np.inf).max(axis=3, initial=-np.inf)
    read = seen & columns
    total = np.where(read, a, 0.0).sum(axis=3) - np.where(read.any(axis=1), low, 0.0) * read.sum(axis=1)
    scored = (high > low) & read.any(axis=1)
    score = np.where(scored, total, 0.0) / np.where(scored, high - low, 1.0)
    pieces = scored.sum(axis=2)
    return np.asarray(
        np.where(pieces > 0, score.sum(axis=2) / np.maximum(pieces, 1), np.nan), dtype=np.float64
    )


def counter_test(
    original: npt.ArrayLike, counter: npt.ArrayLike, scores: npt.ArrayLike, resampling: Resampling = DEFAULT
) -> CounterTest:
    """One-tailed paired t-tests: is attention in the original sentence greater than in its
    counter-stereotype?

        d[sentence] = mean over the group's heads of (original − counter);   t = mean(d) / (sd(d) / sqrt(n))

    original, counter [sentence, layer, head], NaN where unscored; scores [layer, head] their bias b. Biased:
    b > 0; regular: b <= 0. A head that is unscored in one of the two sentences is left out of both; a
    sentence without any scored head of the group is unscored. Also every head by itself, with q-values.
    Reference: bias-a-head, section 5.2.
    """
    first, second = np.asarray(original, dtype=np.float64), np.asarray(counter, dtype=np.float64)
    b = np.asarray(scores, dtype=np.float64)
    if first.ndim != 3 or first.shape != second.shape or first.shape[1:] != b.shape:
        raise BadProbe(
            f"Original {first.shape}, counter {second.shape} and scores {b.shape} do not fit; "
            "needed are [sentence, layer, head] twice and [layer, head]."
        )
    if not np.isfinite(b).all():
        raise BadProbe("A head's bias score is NaN or infinite. Give a finite score for every head.")
    paired = ~(np.isnan(first) | np.isnan(second))
    first, second = np.where(paired, first, np.nan), np.where(paired, second, np.nan)
    t, p_value = paired_t_test(first, second)
    groups = {
        name: _group_test(name, first[:, heads], second[:, heads], resampling)
        for name, heads in (("biased", b > 0), ("regular", b <= 0))
    }
    return CounterTest(groups, _mean(first - second, 0), t, p_value, q_values(p_value), paired.sum(axis=0))


def _group_test(name: str, original: FloatArray, counter: FloatArray, resampling: Resampling) -> Measurement:
    """The test of one group; original and counter [sentence, head of the group], NaN in the same places."""
    sentences, heads = original.shape
    before, after = _mean(original, 1), _mean(counter, 1)
    scored = ~np.isnan(before)
    n = int(scored.sum())
    known: dict[str, Any] = {"n": n, "neutral": 0.0}
    known["unscored"] = (
        {"sentence without scored attention": sentences - n} if heads and n < sentences else {}
    )
    known["settings"] = {**resampling.settings("BCa bootstrap", "sentences"), "test": "paired t, one-tailed"}
    name = f"attention change, {name} heads"
    if not heads or n < 2:
        reason = "no head in this group" if not heads else f"{n} scored sentences, at least 2 are needed"
        return Measurement.missing(name, reason, **known)
    before, after = before[scored], after[scored]
    t, p_value = (float(part) for part in paired_t_test(before, after))
    details = {
        "t": None if np.isnan(t) else t,
        "p_value": None if np.isnan(p_value) else p_value,
        "mean_original": float(before.mean()),
        "mean_counter": float(after.mean()),
        "heads": float(heads),
    }
    difference = before - after
    interval = mean_interval(difference, resampling)
    return Measurement(name, float(difference.mean()), interval, details=details, **known)


def _mean(values: FloatArray, axis: int) -> FloatArray:
    """Mean of the scored values along an axis, NaN where there is none."""
    n = (~np.isnan(values)).sum(axis=axis)
    return np.asarray(
        np.where(n > 0, np.nansum(values, axis=axis) / np.maximum(n, 1), np.nan), dtype=np.float64
    )
