"""SEAT with an interval that answers: what would other words and other sentences of this kind have shown?

Words and templates are both samples. Every listed word stands in every template, so they are crossed: the
vector of a word is its mean over the templates, and one odd template moves all words at once. With v[word,
template],

    value = SEAT of the word means                      z = atanh(value / most),   most = n / sqrt(n_x n_y)
    influence of a unit: what z changes by when the unit counts a little more, to first order
    variance of z = Σ over the four kinds of unit:  G / (G − 1) · Σ_unit influence²

Kinds of unit: attribute pairs (a pair is drawn as a whole, and so are pairs that share a word), targets X,
targets Y, templates. Units of each kind are then resampled, 2,000 times, which gives the quantile of |Σ
influence*| / error*:

    interval = most · tanh( z ± quantile · error )        symmetric studentized bootstrap on Fisher's scale

SEAT is a correlation times `most` (the targets' associations with the targets' sets), hence Fisher's z,
which also keeps intervals inside ±most. What a word does in one template only is counted with words and
with templates, which errs on the safe side. Coverage and the methods that were tried: docs/method.md.
References: Owen 2007 (crossed data); Davison and Hinkley 1997 (studentized bootstrap, influence).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.influence import kept, studentized
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.seat.effect import difference_details
from levelhead.measures.seat_effect import SeatEffect, WordSets, all_influences, word_means
from levelhead.measures.statistics import DEFAULT, FloatArray, Interval, Resampling

SEAT_CHANGE = "seat change"  # the name of a paired change of |SEAT|
METHOD = "symmetric studentized bootstrap on Fisher's scale"
_KINDS = ("attribute pairs", "targets X", "targets Y", "templates")  # of units; several templates or none


def crossed_seat(
    vectors: npt.ArrayLike, words: WordSets, resampling: Resampling = DEFAULT, name: str = "seat"
) -> Measurement:
    """SEAT of vectors [word, template, d], every word in every template; the interval redraws both.

    With one template the interval redraws words alone, which the settings say. Two say next to nothing about
    others: one-token words of lh:bert-mini have 1.05 [-0.87, 1.86] with 2 templates, 1.15 [0.75, 1.45] with
    4, 1.26 [1.06, 1.43] with 16. n: contexts of the listed words.
    """
    v = np.asarray(vectors)
    if v.ndim != 3:
        raise BadProbe(f"Vectors of shape {v.shape} came; give [word, template, d].")
    templates = v.shape[1]
    resampled = (
        "attribute pairs, targets and templates, crossed" if templates > 1 else "attribute pairs, targets"
    )
    known = {"details": {**words.sizes, "templates": float(templates)}, "n": _listed(words) * templates}
    means = v.mean(axis=1, dtype=np.float64)
    return _measured(name, means, words, v if templates > 1 else None, (resampling, resampled, known))


def nested_seat(
    vectors: npt.ArrayLike,
    word: npt.ArrayLike,
    words: WordSets,
    resampling: Resampling = DEFAULT,
    name: str = "seat",
) -> Measurement:
    """SEAT of vectors [context, d] where each word has sentences of its own: word [context] is its number.

    A word is drawn with its sentences: what they leave open is a part of how words differ, and is not
    counted twice.
    """
    rows, number = np.asarray(vectors, np.float64), np.asarray(word, np.int64)
    if rows.ndim != 2 or number.shape != rows.shape[:1]:
        raise BadProbe(
            f"Vectors {rows.shape} came with words {number.shape}; give [context, d] and [context]."
        )
    counts = np.bincount(number)
    listed = sorted({int(w) for entries in words.sets.values() for w in entries})
    if lacking := [w for w in listed if w >= len(counts) or not counts[w]]:
        raise BadProbe(f"Word {lacking[0]} is listed and has no context; leave it out or give it one.")
    known = {"details": words.sizes, "n": int(counts[listed].sum())}
    resampled = "attribute pairs and targets, each with its contexts"
    return _measured(name, word_means(rows, number), words, None, (resampling, resampled, known))


def _listed(words: WordSets) -> int:
    return len({int(w) for entries in words.sets.values() for w in entries})


def _measured(
    name: str,
    means: FloatArray,
    words: WordSets,
    crossed: npt.NDArray[np.floating[Any]] | None,
    about: tuple[Resampling, str, dict[str, Any]],
) -> Measurement:
    resampling, resampled, known = about
    settings = resampling.settings(METHOD, resampled)
    effect = SeatEffect.of(means, words)
    if effect is None:
        reason = "fewer than 2 targets on a side, or all targets have the same association"
        return Measurement.missing(name, reason, neutral=0.0, settings=settings, **known)
    influences = effect.influences()
    if crossed is not None:
        influences.append(effect.template_influence(crossed))
    interval = _interval(effect, influences, resampling)
    known["details"] = {**known["details"], **difference_details(_difference(effect, crossed, resampling))}
    of_units = kept(dict(zip(_KINDS, influences, strict=False)), resampling)
    return Measurement(
        name, effect.value, interval, neutral=0.0, settings=settings, influence=of_units, **known
    )


def _difference(
    effect: SeatEffect, crossed: npt.NDArray[np.floating[Any]] | None, resampling: Resampling
) -> Interval | None:
    """The interval of SEAT's numerator, a difference of cosines: the same units are redrawn."""
    own = effect.numerator
    influences = own.influences() if crossed is None else all_influences(own, crossed)
    drawn = studentized(influences, resampling)
    if drawn is None:
        return None
    t, error = drawn
    half = float(np.quantile(t, resampling.level)) * error
    return own.value - half, own.value + half


def crossed_change(
    before: npt.ArrayLike, after: npt.ArrayLike, words: WordSets, resampling: Resampling = DEFAULT
) -> Measurement:
    """Change of |SEAT| between two sets of vectors of the same words; the interval redraws what SEAT's does.

        change = |SEAT(after)| − |SEAT(before)|,   influence of a unit = that on the one − that on the other
        interval = change ± quantile · error,      p = share of redraws with |t*| ≥ |change| / error

    before, after [word, template, d]; with one template words alone are redrawn. The scale of the vectors
    does not count; details hold the standard deviation of associations, which falls where cosines collapse.
    """
    sides = [np.asarray(vectors) for vectors in (before, after)]
    if sides[0].ndim != 3 or sides[0].shape[:2] != sides[1].shape[:2]:
        raise BadProbe(f"Vectors {sides[0].shape} and {sides[1].shape}: give [word, template, d] twice.")
    known = {"n": _listed(words) * sides[0].shape[1], "neutral": 0.0}
    settings = {**resampling.settings("symmetric studentized bootstrap", "as for SEAT"), "of": "|SEAT|"}
    first, second = (SeatEffect.of(vectors.mean(axis=1, dtype=np.float64), words) for vectors in sides)
    if first is None or second is None:
        reason = "fewer than 2 targets on a side, or all targets have the same association"
        return Measurement.missing(SEAT_CHANGE, reason, settings=settings, **known)
    old, new = all_influences(first, sides[0]), all_influences(second, sides[1])
    signs = math.copysign(1, first.value), math.copysign(1, second.value)
    influences = [signs[1] * after_one - signs[0] * one for one, after_one in zip(old, new, strict=True)]
    change = abs(second.value) - abs(first.value)
    drawn = studentized(influences, resampling)
    details = {"spread_before": first.spread, "spread_after": second.spread}
    if drawn is None:
        return Measurement(SEAT_CHANGE, change, details=details, settings=settings, **known)
    t, error = drawn
    half = float(np.quantile(t, resampling.level)) * error
    p = float((1 + (t >= abs(change) / error).sum()) / (1 + t.size))
    null = Null("symmetric studentized bootstrap, two-sided", t.size, 0.0, error, p)
    interval = change - half, change + half
    return Measurement(SEAT_CHANGE, change, interval, details=details, settings=settings, null=null, **known)


def _interval(
    effect: SeatEffect, influences: Sequence[FloatArray], resampling: Resampling
) -> Interval | None:
    drawn = studentized(influences, resampling)
    if drawn is None:
        return None
    t, error = drawn
    r = effect.value / effect.most
    half = float(np.quantile(t, resampling.level)) * error / (effect.most * (1 - r * r))
    return effect.most * math.tanh(math.atanh(r) - half), effect.most * math.tanh(math.atanh(r) + half)
