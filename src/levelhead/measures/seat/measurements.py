"""SEAT with its p-value and interval: over given vectors, or over words and their contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat.contexts import Contexts, context_interval
from levelhead.measures.seat.effect import SETS, associations, effect_measurement, why_no_effect
from levelhead.measures.seat.intervals import METHOD, item_interval
from levelhead.measures.statistics import DEFAULT, Resampling


def seat_measurement(vectors: Mapping[str, npt.ArrayLike], resampling: Resampling = DEFAULT) -> Measurement:
    """SEAT over given vectors, one for each sentence (or word): vectors["A"], ["B"], ["X"], ["Y"], each
    [item, d].

    The p-value permutes X ∪ Y; the interval resamples the items of each of the four sets. n counts the items
    of all sets.
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

        vectors [context, d];  word [context], the number of its word;  sets: numbers of words in A, B, X, Y

    List entries count as given, repeats included. An entry whose word has no context is unscored. The
    interval redraws the contexts of each word: it says how far the contexts, not the choice of words, leave
    the value open. A word with one context is not certain but takes the spread of other words' contexts
    around their means; there is no interval when no word has two. n counts the contexts of the words in the
    sets.
    """
    _check_sets(sets)
    seen = {int(number) for number in np.unique(np.asarray(word, dtype=np.int64))}
    kept = {name: [int(number) for number in sets[name] if int(number) in seen] for name in SETS}
    lost = sum(len(sets[name]) - len(kept[name]) for name in SETS)
    table = Contexts.of(vectors, word, kept)
    details: dict[str, float] = {f"n_{name.lower()}": float(len(kept[name])) for name in SETS}
    details["words_with_one_context"] = float((table.sizes == 1).sum())
    known: dict[str, Any] = {
        "n": len(table.group),
        "unscored": {"entry without context": lost} if lost else {},
        "settings": resampling.settings(METHOD, "contexts, within each word"),
        "details": details,
    }
    if empty := [name for name in SETS if not kept[name]]:
        reason = f"no word with a context in {', '.join(empty)}"
        return Measurement.missing("seat", reason, neutral=0.0, **known)
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
