"""SEAT: how strongly two sets of words lean to two other sets, with a p-value and an interval
(seat_intervals.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat_intervals import (
    FLAT,
    METHOD,
    SETS,
    Contexts,
    context_interval,
    item_interval,
    unit,
)
from levelhead.measures.statistics import DEFAULT, FloatArray, Interval, Resampling, permutation_p_value


def associations(vectors_w: npt.ArrayLike, vectors_a: npt.ArrayLike, vectors_b: npt.ArrayLike) -> FloatArray:
    """How much closer each word is to the attributes A than to B.

        s(w) = mean_{a∈A} cos(w, a) − mean_{b∈B} cos(w, b)

    Between −2 and 2. Equal vectors get equal values to the bit, so ties stay ties. Reference: Caliskan et al.
    2017.
    """
    direction = unit("A", vectors_a).mean(axis=0) - unit("B", vectors_b).mean(axis=0)
    return np.asarray((unit("W", vectors_w) * direction).sum(axis=1), dtype=np.float64)


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
    if s.std(ddof=1) <= FLAT * max(1.0, float(np.abs(s).max())):
        return "all targets have the same association, the standard deviation is 0"
    return ""


def effect_measurement(
    name: str, s_x: FloatArray, s_y: FloatArray, interval: Interval | None, known: Mapping[str, Any]
) -> Measurement:
    """Effect size, permutation p-value and a given interval as one measurement; the seed is that of the
    settings."""
    seed = int(known["settings"]["seed"])
    test = permutation_p_value(s_x, s_y, seed)
    details = {"p_value": test.p_value, "partitions": float(test.partitions), **known.get("details", {})}
    return Measurement(name, seat(s_x, s_y), interval, neutral=0.0, **{**known, "details": details})


def seat_measurement(vectors: Mapping[str, npt.ArrayLike], resampling: Resampling = DEFAULT) -> Measurement:
    """SEAT over given vectors, one for each sentence (or word): vectors["A"], ["B"], ["X"], ["Y"], each
    [item, d].

    p-value by permutation of X ∪ Y; interval by resampling the items of each of the four sets. n: items in
    all sets.
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
    return effect_measurement("seat", s_x, s_y, item_interval(arrays, resampling), known)


def word_seat_measurement(
    vectors: npt.ArrayLike,
    word: npt.ArrayLike,
    sets: Mapping[str, Sequence[int]],
    resampling: Resampling = DEFAULT,
) -> Measurement:
    """SEAT over static vectors, each the mean of a word's vectors over its contexts.

        vectors [context, d];  word [context], the number of its word;  sets: numbers of the words in A, B, X, Y

    List entries count as given, repeats included. An entry whose word has no context is unscored. The
    interval redraws the contexts of each word: it says how far the contexts, not the choice of words, leave
    the value open. A word with one context is not certain but takes the spread of other words' contexts
    around their means (_Drawn); there is no interval when no word has two. n: contexts of the words in the
    sets.
    """
    _check_sets(sets)
    seen = {int(number) for number in np.unique(np.asarray(word, dtype=np.int64))}
    kept = {name: [int(number) for number in sets[name] if int(number) in seen] for name in SETS}
    lost = sum(len(sets[name]) - len(kept[name]) for name in SETS)
    table = Contexts.of(vectors, word, kept)
    details: dict[str, float] = {f"n_{name.lower()}": float(len(kept[name])) for name in SETS}
    details["words_with_one_context"] = float((table.sizes == 1).sum())
    settings = resampling.settings(METHOD, "contexts, within each word")
    unscored = {"entry without context": lost} if lost else {}
    known: dict[str, Any] = {
        "n": len(table.group),
        "unscored": unscored,
        "settings": settings,
        "details": details,
    }
    if empty := [name for name in SETS if not kept[name]]:
        return Measurement.missing(
            "seat", f"no word with a context in {', '.join(empty)}", neutral=0.0, **known
        )
    static = table.static()
    s_x, s_y = (
        associations(*(static[table.entries[name]] for name in (target, "A", "B"))) for target in "XY"
    )
    if reason := why_no_effect(s_x, s_y):
        return Measurement.missing("seat", reason, neutral=0.0, **known)
    return effect_measurement("seat", s_x, s_y, context_interval(table, resampling), known)


def _check_sets(sets: Mapping[str, Any]) -> None:
    if set(sets) != set(SETS):
        raise BadProbe(f"Sets {sorted(sets)} came; SEAT needs exactly A, B (attributes) and X, Y (targets).")
