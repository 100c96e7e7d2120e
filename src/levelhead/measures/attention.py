"""Does a head attend less to the attribute word when the stereotype is reversed? (docs/method/heads.md,
Counter-stereotypes)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.clustered import Clusterings, clustered_effect
from levelhead.measures.measurement import ContrastPart as ContrastPart
from levelhead.measures.measurement import HeadSet as HeadSet
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Resampling,
    mean_interval,
    paired_t_test,
    q_values,
)

_PART_NAMES: dict[ContrastPart, str] = {
    "whole": "attention contrast",
    "stereotype": "attention contrast, stereotype part",
    "group words": "attention to group words",
}
_UNSCORED = "sentence without scored attention"


@dataclass(frozen=True)
class Contrast:
    """One part of what a set of heads shows in the counter-stereotype experiment."""

    heads: HeadSet
    part: ContrastPart
    measurement: Measurement


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
    """How much the target word attends to the attribute word in every head, [layer, head].

        a' = (a − min a) / (max a − min a)   over the allowed columns, each target token's row by itself
        score = mean over target tokens of Σ a' over attribute tokens

    rows [layer, head, target token, token]; allowed [token], or [target token, token] for a causal model, is
    False for special tokens, punctuation and tokens that cannot be seen; attribute [token]. A row that is
    constant or sees no attribute token is unscored; a head without a scored row is NaN. Reference:
    bias-a-head, section 5.2, footnote 12.
    """
    a, columns = np.asarray(rows, dtype=np.float64), np.asarray(attribute, dtype=bool)
    if a.ndim != 4 or columns.shape != a.shape[3:] or not np.isfinite(a).all():
        raise BadProbe(f"Attention must be finite [layer, head, token, token] (got shape {a.shape})")
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
    tokens = scored.sum(axis=2)
    return np.asarray(
        np.where(tokens > 0, score.sum(axis=2) / np.maximum(tokens, 1), np.nan), dtype=np.float64
    )


def counter_test(
    original: npt.ArrayLike, counter: npt.ArrayLike, scores: npt.ArrayLike, resampling: Resampling = DEFAULT
) -> CounterTest:
    """One-tailed paired t-tests: is attention in the original greater than in its counter-stereotype?

        d[sentence] = mean over the group's heads of (original − counter);   t = mean(d) / (sd(d) / sqrt(n))

    original, counter [sentence, layer, head], NaN where unscored; scores [layer, head] their bias b. Biased:
    b > 0; regular: b <= 0. A head that is unscored in one of the two sentences is left out of both; a
    sentence without any scored head of the group is unscored. Also every head by itself, with q-values.
    Reference: bias-a-head, section 5.2.
    """
    first, second, b = _paired(original, counter, scores)
    t, p_value = paired_t_test(first, second)
    groups = {}
    for group, heads in (("biased", b > 0), ("regular", b <= 0)):
        before, after = _mean(first[:, heads], 1), _mean(second[:, heads], 1)
        scored, size = ~np.isnan(before), int(heads.sum())
        n = int(scored.sum())
        known: dict[str, Any] = {"n": n, "neutral": 0.0}
        known["unscored"] = {_UNSCORED: before.size - n} if size and n < before.size else {}
        known["settings"] = resampling.settings("BCa bootstrap", "sentences")
        known["settings"] |= {"test": "paired t, one-tailed"}
        name = f"attention change, {group} heads"
        if not size or n < 2:
            reason = f"{n} scored sentences, at least 2 are needed" if size else "no head in this group"
            groups[group] = Measurement.missing(name, reason, **known)
            continue
        before, after = before[scored], after[scored]
        own_t, own_p = (float(part) for part in paired_t_test(before, after))
        details = {
            "t": None if np.isnan(own_t) else own_t,
            "p_value": None if np.isnan(own_p) else own_p,
            "mean_original": float(before.mean()),
            "mean_counter": float(after.mean()),
            "heads": float(size),
        }
        difference = before - after
        interval = mean_interval(difference, resampling)
        groups[group] = Measurement(name, float(difference.mean()), interval, details=details, **known)
    n_paired = (~np.isnan(first)).sum(axis=0)
    return CounterTest(groups, _mean(first - second, 0), t, p_value, q_values(p_value), n_paired)


def counter_contrasts(
    original: npt.ArrayLike,
    counter: npt.ArrayLike,
    scores: npt.ArrayLike,
    sides: npt.ArrayLike,
    clusterings: Clusterings,
    resampling: Resampling = DEFAULT,
) -> tuple[Contrast, ...]:
    """What the experiment is about: do biased heads change more than regular ones, and why?

        d[sentence, group] = mean over the group's heads of (original − counter)
        y = d[biased] − d[regular], or d[biased] alone
        whole = mean y                                             the paper's claim, for biased − regular
        stereotype = ½ (mean y over side A + mean y over side B)   what the stereotype does, sides balanced
        group words = ½ (mean y over side A − mean y over side B)  attention to A's words whatever is said

    sides [sentence] is True where the original's attribute word is of group A; there y = stereotype + group
    words, on the other side y = stereotype − group words. Sentences that share a template or a word are no
    independent evidence: clusterings name a label for each sentence, and the largest p of all counts (see
    clustered_effect). Two-sided, where the heads paper's t-tests are one-tailed and by sentence.
    """
    first, second, b = _paired(original, counter, scores)
    biased, regular = (_mean((first - second)[:, heads], 1) for heads in (b > 0, b <= 0))
    y: dict[HeadSet, FloatArray] = {"biased - regular": biased - regular, "biased": biased}
    in_a = np.asarray(sides, dtype=bool)
    if in_a.shape != (len(first),):
        raise BadProbe(f"{len(first)} sentences need one side each (got {in_a.size} sides)")
    contrasts = []
    for (heads, values), (part, named) in product(y.items(), _PART_NAMES.items()):
        name, scored = f"{named}, {heads} heads", ~np.isnan(values)
        n, side = int(scored.sum()), np.where(in_a[scored], 1.0, -1.0)
        unscored = {_UNSCORED: values.size - n} if n < values.size else {}
        reason = ""
        if n < 3:
            reason = f"{n} sentences with scored attention in these heads, at least 3 are needed"
        elif part != "whole" and abs(side.sum()) == n:
            reason = "all sentences are of one side"
        if reason:
            measured = Measurement.missing(name, reason, n=n, unscored=unscored, neutral=0.0)
        else:
            one = np.ones(n)
            columns = {"whole": [one], "stereotype": [one, side], "group words": [side, one]}[part]
            labels = {label: np.asarray(given)[scored] for label, given in clusterings.items()}
            measured = clustered_effect(name, values[scored], np.stack(columns, axis=1), labels, resampling)
            measured = replace(measured, unscored=unscored)
        contrasts.append(Contrast(heads, part, measured))
    return tuple(contrasts)


def _paired(
    original: npt.ArrayLike, counter: npt.ArrayLike, scores: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Attention in both versions, NaN in the same places, and the heads' scores, checked."""
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
    return np.where(paired, first, np.nan), np.where(paired, second, np.nan), b


def _mean(values: FloatArray, axis: int) -> FloatArray:
    """Mean of the scored values along an axis, NaN where there is none."""
    n = (~np.isnan(values)).sum(axis=axis)
    return np.asarray(
        np.where(n > 0, np.nansum(values, axis=axis) / np.maximum(n, 1), np.nan), dtype=np.float64
    )
