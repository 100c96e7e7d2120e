"""SEAT: how strongly two sets of words lean to two other sets, with a p-value and an interval.

Intervals are symmetric studentized bootstraps: value ± quantile(|value* − value| / error*) · error, with errors by the
delta method. The method was chosen among several on 16 small simulated designs of known truth (60-400 runs each), where
percentile intervals covered 73-97 %, bias-corrected ones 60-98 % and this one 93-98 %: noise in the vectors pulls SEAT
to 0, and resampled vectors are noisier still. Six further designs, run after the choice, gave 93.0-95.2 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Interval,
    Resampling,
    draw_counts,
    in_chunks,
    permutation_p_value,
)

SETS = ("A", "B", "X", "Y")
METHOD = "symmetric studentized bootstrap"
_FLAT = 1e-12  # a spread of cosines or log-probabilities below this is rounding, not association
Float32Array = npt.NDArray[np.float32]
Replicate = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # counts [r, item] -> values [r], errors [r]


def associations(vectors_w: npt.ArrayLike, vectors_a: npt.ArrayLike, vectors_b: npt.ArrayLike) -> FloatArray:
    """How much closer each word is to the attributes A than to B.

        s(w) = mean_{a∈A} cos(w, a) − mean_{b∈B} cos(w, b)

    Between −2 and 2. Equal vectors get equal values to the bit, so ties stay ties. Reference: Caliskan et al. 2017.
    """
    direction = _unit("A", vectors_a).mean(axis=0) - _unit("B", vectors_b).mean(axis=0)
    return np.asarray((_unit("W", vectors_w) * direction).sum(axis=1), dtype=np.float64)


def seat(s_x: npt.ArrayLike, s_y: npt.ArrayLike) -> float:
    """Effect size of an association test: how far apart the two target sets lie.

        SEAT = (mean s(x) − mean s(y)) / std s(w),  w in X ∪ Y, ddof = 1

    0: no association. ±2 is the extreme (for sets of equal size). Reference: May et al. 2019.
    """
    x, y = np.asarray(s_x, dtype=np.float64), np.asarray(s_y, dtype=np.float64)
    if reason := why_no_effect(x, y):
        raise BadProbe(f"SEAT cannot be computed: {reason}.")
    return float((x.mean() - y.mean()) / np.concatenate([x, y]).std(ddof=1))


def why_no_effect(s_x: FloatArray, s_y: FloatArray) -> str:
    """The reason why these associations have no effect size, or nothing."""
    if min(s_x.size, s_y.size) < 2:
        return f"X has {s_x.size} and Y has {s_y.size} usable entries, each needs at least 2"
    s = np.concatenate([s_x, s_y])
    if not np.isfinite(s).all():
        return "an association is not a finite number"
    if s.std(ddof=1) <= _FLAT * max(1.0, float(np.abs(s).max())):
        return "all targets have the same association, the standard deviation is 0"
    return ""


def effect_measurement(
    name: str, s_x: FloatArray, s_y: FloatArray, interval: Interval | None, known: Mapping[str, Any]
) -> Measurement:
    """Effect size, permutation p-value and a given interval as one measurement; the seed is that of the settings."""
    seed = int(known["settings"]["seed"])
    test = permutation_p_value(s_x, s_y, seed)
    details = {"p_value": test.p_value, "partitions": float(test.partitions), **known.get("details", {})}
    return Measurement(name, seat(s_x, s_y), interval, neutral=0.0, **{**known, "details": details})


def seat_measurement(vectors: Mapping[str, npt.ArrayLike], resampling: Resampling = DEFAULT) -> Measurement:
    """SEAT over given vectors, one for each sentence (or word): vectors["A"], ["B"], ["X"], ["Y"], each [item, d].

    p-value by permutation of X ∪ Y; interval by resampling the items of each of the four sets. n: items in all sets.
    """
    _check_sets(vectors)
    arrays = {name: np.asarray(vectors[name], dtype=np.float64) for name in SETS}
    sizes = {f"n_{name.lower()}": float(len(arrays[name])) for name in SETS}
    settings = resampling.settings(METHOD, "items, within each set")
    known: dict[str, Any] = {"n": int(sum(sizes.values())), "settings": settings, "details": sizes}
    if empty := [name for name in SETS if not len(arrays[name])]:
        return Measurement.missing("seat", f"no item in {', '.join(empty)}", neutral=0.0, **known)
    s_x, s_y = (associations(arrays[name], arrays["A"], arrays["B"]) for name in "XY")
    if reason := why_no_effect(s_x, s_y):
        return Measurement.missing("seat", reason, neutral=0.0, **known)
    return effect_measurement("seat", s_x, s_y, _item_interval(arrays, resampling), known)


def word_seat_measurement(
    vectors: npt.ArrayLike, word: npt.ArrayLike, sets: Mapping[str, Sequence[int]], resampling: Resampling = DEFAULT
) -> Measurement:
    """SEAT over static vectors, each the mean of a word's vectors over its contexts.

        vectors [context, d];  word [context], the number of its word;  sets: numbers of the words in A, B, X, Y

    List entries count as given, repeats included. An entry whose word has no context is unscored. The interval redraws
    the contexts of each word (a word with one context is held fixed): it says how far the contexts, not the choice of
    words, leave the value open. n: contexts of the words in the sets.
    """
    _check_sets(sets)
    seen = {int(number) for number in np.unique(np.asarray(word, dtype=np.int64))}
    kept = {name: [int(number) for number in sets[name] if int(number) in seen] for name in SETS}
    lost = sum(len(sets[name]) - len(kept[name]) for name in SETS)
    table = _Contexts.of(vectors, word, kept)
    details: dict[str, float] = {f"n_{name.lower()}": float(len(kept[name])) for name in SETS}
    details["words_with_one_context"] = float((table.sizes == 1).sum())
    settings = resampling.settings(METHOD, "contexts, within each word")
    unscored = {"entry without context": lost} if lost else {}
    known: dict[str, Any] = {"n": len(table.group), "unscored": unscored, "settings": settings, "details": details}
    if empty := [name for name in SETS if not kept[name]]:
        return Measurement.missing("seat", f"no word with a context in {', '.join(empty)}", neutral=0.0, **known)
    static = table.static()
    s_x, s_y = (associations(*(static[table.entries[name]] for name in (target, "A", "B"))) for target in "XY")
    if reason := why_no_effect(s_x, s_y):
        return Measurement.missing("seat", reason, neutral=0.0, **known)
    return effect_measurement("seat", s_x, s_y, _context_interval(table, resampling), known)


def effect_interval(s_x: FloatArray, s_y: FloatArray, resampling: Resampling = DEFAULT) -> Interval | None:
    """Interval of the effect size when the targets of each set are resampled and their associations are given."""
    s, sizes = np.concatenate([s_x, s_y])[None], [s_x.size, s_y.size]

    def replicate(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        effect = _effect(np.broadcast_to(s, counts.shape), counts, s_x.size)
        return effect.value, np.sqrt(effect.variance)

    return _studentized(replicate, sizes, sizes, resampling)


class _Effect(NamedTuple):
    """Effect sizes of weighted targets [r], their variance from drawing targets [r], and d value / d s [r, target]."""

    value: FloatArray
    variance: FloatArray
    gradient: FloatArray


def _effect(s: FloatArray, counts: FloatArray, n_x: int) -> _Effect:
    """SEAT = D / S of associations s [r, target] that were drawn `counts` times; the first n_x targets are X."""
    n = counts.sum(axis=1, keepdims=True)
    center = (s * counts).sum(axis=1, keepdims=True) / n
    square = (s - center) ** 2
    S = np.sqrt((square * counts).sum(axis=1, keepdims=True) / (n - 1))
    S[S <= _FLAT] = np.nan
    sides = (slice(None, n_x), slice(n_x, None))
    means = [_centered(s[:, side], counts[:, side])[0] for side in sides]
    D = means[0] - means[1]
    gradient = -D * counts * (s - center) / ((n - 1) * S**3)
    variance = np.zeros(len(s))
    for side, sign in zip(sides, (1.0, -1.0), strict=True):
        drawn, total = counts[:, side], counts[:, side].sum(axis=1, keepdims=True)
        spread = _centered(square[:, side], drawn)[1] * total / (n - 1)
        influence = sign * _centered(s[:, side], drawn)[1] / S - D / (2 * S**3) * spread
        variance += _variance_of_mean(influence, drawn)
        gradient[:, side] += sign * drawn / (total * S)
    return _Effect((D / S)[:, 0], variance, gradient)


def _centered(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted mean of each row [r, 1] and what is left after it [r, item]."""
    mean = (values * counts).sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
    return mean, values - mean


def _variance_of_mean(influence: FloatArray, counts: FloatArray) -> FloatArray:
    n = counts.sum(axis=1)
    return np.asarray((counts * influence**2).sum(axis=1) / (np.maximum(n - 1, 1) * n), dtype=np.float64)


def _studentized(
    replicate: Replicate, sizes: npt.ArrayLike, targets: Sequence[int], resampling: Resampling
) -> Interval | None:
    """The interval, clipped to what the sizes of X and Y allow; None when under 95 % of the resamples have a value."""
    n = int(np.sum(sizes))
    (value,), (error,) = replicate(np.ones((1, n)))
    rng = np.random.default_rng(resampling.seed)
    drawn = [replicate(draw_counts(rng, r, sizes)) for r in in_chunks(resampling.resamples, n)]
    values, errors = (np.concatenate(part) for part in zip(*drawn, strict=True))
    with np.errstate(all="ignore"):
        t = np.abs(values - value) / errors
    t = t[np.isfinite(t)]
    if not error > 0 or t.size < 0.95 * resampling.resamples:
        return None
    half = float(np.quantile(t, resampling.level) * error)
    most = sum(targets) / math.sqrt(math.prod(targets))
    return max(-most, float(value) - half), min(most, float(value) + half)


def _item_interval(arrays: Mapping[str, FloatArray], resampling: Resampling) -> Interval | None:
    """Interval over items of all four sets; only the cosines between targets and attributes are needed."""
    n_a, n_b, n_x, n_y = (len(arrays[name]) for name in SETS)
    unit = {name: _unit(name, arrays[name]) for name in SETS}
    targets = np.concatenate([unit["X"], unit["Y"]])
    cosines = [targets @ unit["A"].T, -(targets @ unit["B"].T)]

    def replicate(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        drawn = (counts[:, :n_a], counts[:, n_a : n_a + n_b])
        s = sum(c @ cosine.T / cosine.shape[1] for c, cosine in zip(drawn, cosines, strict=True))
        effect = _effect(np.asarray(s), counts[:, n_a + n_b :], n_x)
        variance = effect.variance
        for c, cosine in zip(drawn, cosines, strict=True):
            variance = variance + _variance_of_mean(_centered(effect.gradient @ cosine, c)[1], c)
        return effect.value, np.sqrt(variance)

    return _studentized(replicate, [n_a, n_b, n_x, n_y], [n_x, n_y], resampling)


@dataclass(frozen=True)
class _Contexts:
    """Context vectors of the words in the sets, those of a word side by side."""

    vectors: FloatArray  # [context, d]
    group: npt.NDArray[np.int64]  # [context] row of its word
    sizes: npt.NDArray[np.int64]  # [word]
    entries: Mapping[str, npt.NDArray[np.int64]]  # set -> rows of its words, repeats included

    @classmethod
    def of(cls, vectors: npt.ArrayLike, word: npt.ArrayLike, sets: Mapping[str, Sequence[int]]) -> _Contexts:
        rows, numbers = np.asarray(vectors, dtype=np.float64), np.asarray(word, dtype=np.int64)
        if rows.ndim != 2 or numbers.shape != rows.shape[:1]:
            raise BadProbe(f"Vectors {rows.shape} came with words {numbers.shape}; give [context, d] and [context].")
        used = np.unique(np.array([number for name in SETS for number in sets[name]], dtype=np.int64))
        chosen = np.flatnonzero(np.isin(numbers, used))
        chosen = chosen[np.argsort(numbers[chosen], kind="stable")]
        group = np.searchsorted(used, numbers[chosen])
        entries = {name: np.searchsorted(used, np.asarray(sets[name], dtype=np.int64)) for name in SETS}
        return cls(rows[chosen], group, np.bincount(group, minlength=used.size), entries)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        return np.cumsum(self.sizes) - self.sizes

    def static(self) -> FloatArray:
        """Mean vector of each word, [word, d]."""
        return np.asarray(np.add.reduceat(self.vectors, self.starts, axis=0) / self.sizes[:, None], dtype=np.float64)


def _context_interval(table: _Contexts, resampling: Resampling) -> Interval | None:
    """Interval over contexts. Static vectors are weights @ contexts, so four matrix products serve a batch."""
    V, group, starts, sizes = table.vectors.astype(np.float32), table.group, table.starts, table.sizes
    n_x, n_y = (table.entries[name].size for name in "XY")
    spans = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    grams = [V[span] @ V[span].T for span in spans]
    share = [np.bincount(table.entries[name], minlength=sizes.size) / table.entries[name].size for name in "AB"]
    attribute = (share[0] - share[1]).astype(np.float32)  # [word] weight in mean A − mean B
    targets = np.concatenate([table.entries["X"], table.entries["Y"]])
    member = np.eye(sizes.size)[targets]  # [target entry, word]

    def total(values: Float32Array) -> Float32Array:
        return np.asarray(np.add.reduceat(values, starts, axis=1))

    def replicate(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        C = counts.astype(np.float32)
        W = C / sizes[group].astype(np.float32)
        own = np.concatenate([W[:, span] @ gram for span, gram in zip(spans, grams, strict=True)], axis=1)
        norm: Float32Array = np.sqrt(total(W * own))
        on_m = ((W * (attribute / norm)[:, group]) @ V) @ V.T  # m = mean A − mean B of unit vectors; V · m
        s = (total(W * on_m) / norm)[:, targets].astype(np.float64)
        effect = _effect(s, np.ones_like(s), n_x)
        on_word = (effect.gradient @ member).astype(np.float32)  # d SEAT / d s, summed over a word's entries
        on_g = ((W * (on_word / norm)[:, group]) @ V) @ V.T  # V · d SEAT / d m
        along = on_word[:, group] * on_m + attribute[group] * on_g
        radial = (total(W * along) / norm**2)[:, group] * own
        influence = (along - radial) / norm[:, group]
        influence -= total(W * influence)[:, group]
        variance = total(C * influence**2) / (np.maximum(sizes - 1, 1) * sizes)
        return effect.value, np.sqrt(variance.sum(axis=1)).astype(np.float64)

    return _studentized(replicate, sizes, [n_x, n_y], resampling)


def _unit(name: str, vectors: npt.ArrayLike) -> FloatArray:
    rows = np.asarray(vectors, dtype=np.float64)
    norm = np.linalg.norm(rows, axis=-1, keepdims=True)
    if rows.ndim != 2 or not len(rows) or not np.isfinite(norm).all() or (norm == 0).any():
        raise BadProbe(f"Vectors {name} {rows.shape} are empty, zero or not finite; give [item, d], no zeros.")
    return np.asarray(rows / norm, dtype=np.float64)


def _check_sets(sets: Mapping[str, Any]) -> None:
    if set(sets) != set(SETS):
        raise BadProbe(f"Sets {sorted(sets)} came; SEAT needs exactly A, B (attributes) and X, Y (targets).")
