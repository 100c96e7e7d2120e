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

With one or two templates their part of the variance is that of known models (TEMPLATE_SPREAD).
SEAT is a correlation times `most` (the targets' associations with the targets' sets), hence Fisher's z,
which also keeps intervals inside ±most. What a word does in one template only is counted with words and
with templates, which errs on the safe side. Coverage and the methods that were tried: docs/method.md.
References: Owen 2007 (crossed data); Davison and Hinkley 1997 (studentized bootstrap, influence).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.influence import kept, studentized
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.seat.effect import difference_details
from levelhead.measures.seat_effect import SeatEffect, WordSets, all_influences, word_means
from levelhead.measures.statistics import DEFAULT, FloatArray, Interval, Resampling

FEW_TEMPLATES = 2  # up to so many say nothing of how templates differ: known models do
TEMPLATE_SPREAD = 0.33  # of z: root mean square of what one template lies off the value of all of them, over
# lh:bert-mini (0.07), lh:gpt-mini (0.04), SmolLM2-135M (0.17), Gemma-3-270M (0.64, from two reports)
_TEMPLATE_MODELS = 4
_SEAT = "seat"
SEAT_CHANGE = "seat change"  # the name of a paired change of |SEAT|
METHOD = "symmetric studentized bootstrap on Fisher's scale"
_NO_EFFECT = "fewer than 2 targets on a side, or all targets have the same association"
_WORDS = 3  # the first so many kinds of unit are words
_KINDS = ("attribute pairs", "targets X", "targets Y", "templates")  # of units; several templates or none


@dataclass(frozen=True, eq=False)
class CrossedVectors:
    """Vectors of words in templates, [word, template, d], and what they say of SEAT, worked out once.

    Words that have sentences of their own have one vector each, the mean over them, in place of templates.
    """

    vectors: npt.NDArray[np.floating[Any]]
    words: WordSets
    nested: int = 0  # how many sentences the listed words have of their own; 0: they share templates

    def __post_init__(self) -> None:
        if self.vectors.ndim != 3:
            raise BadProbe(f"Vectors of shape {self.vectors.shape} came; give [word, template, d].")

    @cached_property
    def means(self) -> FloatArray:
        """One vector for each word: [word, d]"""
        return np.asarray(self.vectors.mean(axis=1, dtype=np.float64))

    @cached_property
    def effect(self) -> SeatEffect | None:
        """SEAT of the means; None with fewer than 2 targets on a side, or one association for all."""
        return SeatEffect.of(self.means, self.words)

    @property
    def influences(self) -> list[FloatArray]:
        """Of attribute pairs, X, Y and several templates on SEAT, each [unit]; none without an effect."""
        return self._influences[0]

    @cached_property
    def _influences(self) -> list[list[FloatArray]]:
        """On SEAT, and on its numerator."""
        if self.effect is None:
            return [[], []]
        return all_influences([self.effect, self.effect.numerator], self.vectors)

    @property
    def n(self) -> int:
        """Contexts of the listed words."""
        return self.nested or _listed(self.words) * self.vectors.shape[1]

    @property
    def resampled(self) -> str:
        """What an interval redraws."""
        if self.nested:
            return "attribute pairs and targets, each with its contexts"
        if self.few_templates:
            return "attribute pairs, targets; templates as they differ in known models"
        return "attribute pairs, targets and templates, crossed"

    @property
    def few_templates(self) -> int:
        """How many templates there are, where they are too few to say how templates differ; else 0."""
        templates = self.vectors.shape[1]
        return 0 if self.nested or templates > FEW_TEMPLATES else templates

    def seat(self, resampling: Resampling = DEFAULT) -> Measurement:
        """SEAT, with an interval that redraws words and templates.

        One or two templates say next to nothing about others: then the interval redraws words alone and is
        widened by what templates differ by in known models, which the settings say; the numerator has none.
        n: contexts of the listed words.
        """
        settings = resampling.settings(METHOD, self.resampled)
        details = self.words.sizes
        if not self.nested:
            details["templates"] = float(self.vectors.shape[1])
        known: dict[str, Any] = {"n": self.n, "neutral": 0.0, "settings": settings}
        if self.effect is None:
            return Measurement.missing(_SEAT, _NO_EFFECT, details=details, **known)
        own, of_difference = self._influences
        if not self.few_templates:
            details |= difference_details(_around(self.effect.numerator.value, of_difference, resampling))
        known["influence"] = kept(dict(zip(_KINDS, own, strict=False)), resampling)
        interval = _interval(self.effect, own, resampling, self.few_templates)
        return Measurement(_SEAT, self.effect.value, interval, details=details, **known)


def nested_vectors(vectors: npt.ArrayLike, word: npt.ArrayLike, words: WordSets) -> CrossedVectors:
    """Vectors [context, d] of words with sentences of their own: word [context] is the word's number.

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
    return CrossedVectors(word_means(rows, number)[:, None], words, int(counts[listed].sum()))


def _listed(words: WordSets) -> int:
    return len({int(w) for entries in words.sets.values() for w in entries})


def crossed_change(
    first: CrossedVectors, second: CrossedVectors, resampling: Resampling = DEFAULT
) -> Measurement:
    """Change of |SEAT| between two sets of vectors of the same words; the interval redraws what SEAT's does.

        change = |SEAT(second)| − |SEAT(first)|,   influence of a unit = that on the one − that on the other
        interval = change ± quantile · error,      p = share of redraws with |t*| ≥ |change| / error

    With one template words alone are redrawn. The scale of the vectors does not count; details hold the
    standard deviation of associations, which falls where cosines collapse.
    """
    if first.vectors.shape[:2] != second.vectors.shape[:2]:
        raise BadProbe(
            f"Vectors {first.vectors.shape} and {second.vectors.shape}: give [word, template, d] twice."
        )
    known: dict[str, Any] = {"n": first.n, "neutral": 0.0}
    settings = {**resampling.settings("symmetric studentized bootstrap", "as for SEAT"), "of": "|SEAT|"}
    known["settings"] = settings
    old, new = first.effect, second.effect
    if old is None or new is None:
        return Measurement.missing(SEAT_CHANGE, _NO_EFFECT, **known)
    signs = math.copysign(1, old.value), math.copysign(1, new.value)
    both = zip(first.influences, second.influences, strict=True)
    influences = [signs[1] * after_one - signs[0] * one for one, after_one in both]
    change = abs(new.value) - abs(old.value)
    known["details"] = {"spread_before": old.spread, "spread_after": new.spread}
    drawn = studentized(influences, resampling)
    if drawn is None:
        return Measurement(SEAT_CHANGE, change, **known)
    t, error = drawn
    half = float(np.quantile(t, resampling.level)) * error
    p = float((1 + (t >= abs(change) / error).sum()) / (1 + t.size))
    known["null"] = Null("symmetric studentized bootstrap, two-sided", t.size, 0.0, error, p)
    return Measurement(SEAT_CHANGE, change, (change - half, change + half), **known)


def _interval(
    effect: SeatEffect, influences: Sequence[FloatArray], resampling: Resampling, few_templates: int
) -> Interval | None:
    """On Fisher's scale. few_templates: so few that their variance comes from known models; 0: from them."""
    r = effect.value / effect.most
    half = _half_width(influences[:_WORDS] if few_templates else influences, resampling)
    if half is None:
        return None
    half /= effect.most * (1 - r * r)
    if few_templates:
        t = float(stats.t.ppf(0.5 + resampling.level / 2, _TEMPLATE_MODELS))
        half = math.hypot(half, t * TEMPLATE_SPREAD / math.sqrt(few_templates))
    z = math.atanh(r)
    return effect.most * math.tanh(z - half), effect.most * math.tanh(z + half)


def _around(value: float, influences: Sequence[FloatArray], resampling: Resampling) -> Interval | None:
    half = _half_width(influences, resampling)
    return None if half is None else (value - half, value + half)


def _half_width(influences: Sequence[FloatArray], resampling: Resampling) -> float | None:
    drawn = studentized(influences, resampling)
    return None if drawn is None else float(np.quantile(drawn[0], resampling.level)) * drawn[1]
