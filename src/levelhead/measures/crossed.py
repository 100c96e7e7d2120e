"""SEAT with an interval that answers: what would other words and other sentences of this kind have shown?

Words and templates are both samples, and every listed word stands in every template (docs/method/words.md):

    value = SEAT of the word means                      z = atanh(value / most),   most = n / sqrt(n_x n_y)
    influence of a unit: what z changes by when the unit counts a little more, to first order
    variance of z = Σ over the four kinds of unit:  G / (G − 1) · Σ_unit influence²
    interval = most · tanh( z ± quantile · error )        symmetric studentized bootstrap on Fisher's scale

Kinds of unit: attribute pairs (with pairs that share a word), targets X, targets Y, templates. What a word
does in one template only is counted with words and with templates, which errs on the safe side.

Other words would have another floor in null models too. So the floor is redrawn with the words:

    excess = SEAT − floor                                floor = mean of SEAT over K null models
    influence of a unit = that on SEAT − mean over null models of that on the null model's SEAT
    least = |excess| − quantile · sqrt(error² + spread² / K)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.errors import BadProbe
from levelhead.measures.influence import kept, studentized
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.seat import DIFFERENCE_HIGH, DIFFERENCE_LOW, SETS
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling

FEW_TEMPLATES = 2  # up to so many say nothing of how templates differ: known models do
TEMPLATE_SPREAD = 0.33  # of z: root mean square of what one template lies off the value of all of them, over
# lh:bert-mini (0.07), lh:gpt-mini (0.04), SmolLM2-135M (0.17), Gemma-3-270M (0.64, from two reports)
_TEMPLATE_MODELS = 4
_SEAT = "seat"
METHOD = "symmetric studentized bootstrap on Fisher's scale"
_NO_EFFECT = "fewer than 2 targets on a side, or all targets have the same association"
_OF_WORDS = 3  # the first so many kinds of unit are words
_KINDS = ("attribute pairs", "targets X", "targets Y", "templates")  # of units; several templates or none
_WORDS = 64  # whose vectors are held as doubles at once
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WordSets:
    """Which words stand in A, B, X, Y (numbers; repeats count), and which attributes are counterparts."""

    sets: Mapping[str, Sequence[int]]
    pairs: Sequence[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        if set(self.sets) != set(SETS) or not all(len(self.sets[name]) for name in SETS):
            given = sorted(self.sets)
            raise BadProbe(f"SEAT needs A, B (attributes) and X, Y (targets), none empty (got {given})")

    def of(self, name: str) -> Ints:
        """Numbers of the words of a set."""
        return np.asarray(self.sets[name], np.int64)

    def numbered(self, numbers: Sequence[int]) -> WordSets:
        """The same words in a longer list, where word i has numbers[i]."""
        sets = {name: [numbers[word] for word in entries] for name, entries in self.sets.items()}
        return WordSets(sets, [(numbers[a], numbers[b]) for a, b in self.pairs])

    @cached_property
    def unit_of_word(self) -> Mapping[int, int]:
        """Attribute words that are linked by pairs have one number: they are drawn together."""
        unit = {int(word): int(word) for name in "AB" for word in self.sets[name]}
        for a, b in self.pairs:
            if a in unit and b in unit:
                old, new = unit[a], unit[b]
                unit = {word: new if number == old else number for word, number in unit.items()}
        return unit


class Units(NamedTuple):
    unit: FloatArray  # [word, d]
    norm: FloatArray  # [word]


def units(means: FloatArray) -> Units:
    """Vectors [word, d] divided by their lengths; one of length 0 stays."""
    norm = np.sqrt(np.einsum("wd,wd->w", means, means))
    return Units(means / np.where(norm > 0, norm, 1.0)[:, None], norm)


@dataclass(frozen=True)
class SeatEffect:
    """SEAT of word means and its derivatives."""

    value: float
    most: float  # |SEAT| of perfectly separated targets
    unit: FloatArray  # [word, d]
    norm: FloatArray  # [word]
    direction: FloatArray  # [d] mean of A − mean of B, of unit vectors
    s: tuple[FloatArray, FloatArray]  # associations of X, of Y
    by_s: tuple[FloatArray, FloatArray]  # d value / d s
    words: WordSets
    divided: bool = True  # by the spread of all targets; False: the value is the difference alone

    @classmethod
    def of(cls, vectors: Units, words: WordSets) -> SeatEffect | None:
        """SEAT of words; None with fewer than 2 targets on a side, or one association for all."""
        unit, norm = vectors
        used = np.concatenate([words.of(name) for name in SETS])
        if not (norm[used] > 0).all() or not np.isfinite(norm[used]).all():
            raise BadProbe("A listed word has a vector that is zero or not finite.")
        direction = unit[words.of("A")].mean(0) - unit[words.of("B")].mean(0)
        x, y = unit[words.of("X")] @ direction, unit[words.of("Y")] @ direction
        both, n = np.concatenate([x, y]), x.size + y.size
        spread = both.std(ddof=1) if min(x.size, y.size) > 1 else 0.0
        if not spread > 1e-12:
            return None
        difference = x.mean() - y.mean()
        by_both = -difference * (both - both.mean()) / ((n - 1) * spread**3)
        by_s = (by_both[: x.size] + 1 / (x.size * spread), by_both[x.size :] - 1 / (y.size * spread))
        most = n / math.sqrt(x.size * y.size)
        return cls(float(difference / spread), most, unit, norm, direction, (x, y), by_s, words)

    @property
    def numerator(self) -> SeatEffect:
        """The difference of the two means, which is not divided: a difference of cosines."""
        x, y = self.s
        by_s = np.full(x.size, 1 / x.size), np.full(y.size, -1 / y.size)
        return replace(self, value=float(x.mean() - y.mean()), by_s=by_s, divided=False)

    @property
    def by_direction(self) -> FloatArray:
        """d value / d direction: [d]"""
        sides = zip(self.by_s, "XY", strict=True)
        return np.asarray(sum(slope @ self.unit[self.words.of(name)] for slope, name in sides))

    def influences(self) -> list[FloatArray]:
        """Of attribute pairs, of X, of Y: each [unit], adding up to 0."""
        slope = self.by_direction
        unit, pairs = self.words.unit_of_word, dict[int, float]()
        for name, sign in (("A", 1.0), ("B", -1.0)):
            entries = self.words.of(name)
            along = self.unit[entries] @ slope
            for word, own in zip(entries, along - along.mean(), strict=True):
                number = unit[int(word)]
                pairs[number] = pairs.get(number, 0.0) + sign * own / len(entries)
        found = [np.array(list(pairs.values()))]
        # a target counts in its side's mean and, divided, in the spread of all
        n = sum(part.size for part in self.s)
        for name, s, sign in zip("XY", self.s, (1.0, -1.0), strict=True):
            own = sign * (s - s.mean()) / s.size
            if self.divided:
                both = np.concatenate(self.s)
                spread, square = both.std(ddof=1), (s - both.mean()) ** 2
                own = sign * (s - s.mean()) / (s.size * spread)
                own -= self.value / (2 * spread**2) * (square - square.mean()) / (n - 1)
            group = np.unique(self.words.of(name), return_inverse=True)[1].ravel()
            found.append(np.asarray(np.bincount(group, weights=own), np.float64))
        return found


def all_influences(
    effects: Sequence[SeatEffect], vectors: npt.NDArray[np.floating[Any]]
) -> list[list[FloatArray]]:
    """On each effect: of attribute pairs, of X, of Y, and of templates where vectors [word, template, d] have
    several. The effects are of the means of these vectors: a SEAT, and perhaps its numerator.

    What a template adds to an effect goes through the means of all words. With u a word's unit vector and r
    its length, d value / d mean = ( slope − (slope · u) u ) / r, where slope = attribute weight ·
    by_direction + target weight · direction. So a vector counts by its products with these directions and
    with u, which all effects share.
    """
    influences = [effect.influences() for effect in effects]
    if vectors.shape[1] == 1:
        return influences
    first = effects[0]
    directions = np.stack([first.direction, *(effect.by_direction for effect in effects)], axis=1)

    # how much each word counts as an attribute, by which direction is a mean, and as a target, by which the
    # value is a sum: [word] each
    entries, weights = [first.words.of(name) for name in SETS], []
    for effect in effects:
        counted: list[npt.ArrayLike] = [1 / len(entries[0]), 1 / len(entries[1]), *effect.by_s]
        a, b, x, y = (
            np.bincount(words, np.broadcast_to(each, words.shape), len(first.unit))
            for words, each in zip(entries, counted, strict=True)
        )
        weights.append((a - b, x + y))
    length = np.where(first.norm > 0, first.norm, 1.0)
    along = np.zeros((len(effects), vectors.shape[1]))
    for start in range(0, len(vectors), _WORDS):
        some = slice(start, start + _WORDS)
        own = vectors[some].astype(np.float64)
        unit = first.unit[some]
        by_direction = own @ directions  # [word, template, direction]
        by_unit = np.einsum("wtd,wd->wt", own, unit)
        of_unit = unit @ directions  # [word, direction]
        for number, (attribute, target) in enumerate(weights):
            by_column = np.stack([target[some], attribute[some]], axis=1) / length[some, None]
            columns = [0, number + 1]
            along[number] += np.einsum("wtc,wc->t", by_direction[..., columns], by_column)
            along[number] -= by_unit.T @ (of_unit[:, columns] * by_column).sum(axis=1)
    for of_effect, own in zip(influences, along, strict=True):
        of_effect.append(np.asarray((own - own.mean()) / own.size))
    return influences


def word_means(vectors: npt.NDArray[np.floating[Any]], word: Ints) -> FloatArray:
    """The mean of each word's contexts: vectors [context, d], word [context] -> [word, d]"""
    counts = np.bincount(word)
    by_word = np.split(np.argsort(word, kind="stable"), np.cumsum(counts)[:-1])
    sums = [vectors[contexts].sum(axis=0, dtype=np.float64) for contexts in by_word]  # np.add.at: 20 x slower
    return np.asarray(np.stack(sums) / np.maximum(counts, 1)[:, None])


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
            raise BadProbe(f"Vectors must be [word, template, d] (got shape {self.vectors.shape})")

    @cached_property
    def means(self) -> FloatArray:
        """One vector for each word: [word, d]"""
        return np.asarray(self.vectors.mean(axis=1, dtype=np.float64))

    @cached_property
    def effect(self) -> SeatEffect | None:
        """SEAT of the means; None with fewer than 2 targets on a side, or one association for all."""
        return SeatEffect.of(units(self.means), self.words)

    @cached_property
    def influences(self) -> list[list[FloatArray]]:
        """Of attribute pairs, X, Y and several templates, each [unit], on SEAT and on its numerator; none
        without an effect."""
        if self.effect is None:
            return [[], []]
        return all_influences([self.effect, self.effect.numerator], self.vectors)

    def seat(self, resampling: Resampling = DEFAULT) -> Measurement:
        """SEAT, with an interval that redraws words and templates.

        One or two templates say next to nothing about others: then the interval redraws words alone and is
        widened by what templates differ by in known models, which the settings say; the numerator has none.
        n: contexts of the listed words.
        """
        templates, sets = self.vectors.shape[1], self.words.sets
        details = {f"n_{name.lower()}": float(len(sets[name])) for name in SETS}
        listed = {int(word) for entries in sets.values() for word in entries}
        few = 0 if self.nested or templates > FEW_TEMPLATES else templates
        resampled = "attribute pairs, targets and templates, crossed"
        if self.nested:
            resampled = "attribute pairs and targets, each with its contexts"
        elif few:
            resampled = "attribute pairs, targets; templates as they differ in known models"
        if not self.nested:
            details["templates"] = float(templates)
        settings = resampling.settings(METHOD, resampled)
        n = self.nested or len(listed) * templates
        known: dict[str, Any] = {"n": n, "neutral": 0.0, "settings": settings}
        effect = self.effect
        if effect is None:
            return Measurement.missing(_SEAT, _NO_EFFECT, details=details, **known)
        own, of_difference = self.influences
        known["influence"] = kept(dict(zip(_KINDS, own, strict=False)), resampling)
        if not few and (half := _half_width(of_difference, resampling)) is not None:
            value = effect.numerator.value
            details |= {DIFFERENCE_LOW: value - half, DIFFERENCE_HIGH: value + half}
        half = _half_width(own[:_OF_WORDS] if few else own, resampling)
        if half is None:
            return Measurement(_SEAT, effect.value, details=details, **known)

        # on Fisher's scale
        r = effect.value / effect.most
        half /= effect.most * (1 - r * r)
        if few:
            t = float(scipy.stats.t.ppf(0.5 + resampling.level / 2, _TEMPLATE_MODELS))
            half = math.hypot(half, t * TEMPLATE_SPREAD / math.sqrt(few))
        z = math.atanh(r)
        interval = effect.most * math.tanh(z - half), effect.most * math.tanh(z + half)
        return Measurement(_SEAT, effect.value, interval, details=details, **known)


def nested_vectors(vectors: npt.ArrayLike, word: npt.ArrayLike, words: WordSets) -> CrossedVectors:
    """Vectors [context, d] of words with sentences of their own: word [context] is the word's number.

    A word is drawn with its sentences: what they leave open is a part of how words differ.
    """
    rows, number = np.asarray(vectors, np.float64), np.asarray(word, np.int64)
    if rows.ndim != 2 or number.shape != rows.shape[:1]:
        raise BadProbe(f"Vectors must be [context, d], words [context] (got {rows.shape} and {number.shape})")
    counts = np.bincount(number)
    listed = sorted({int(w) for entries in words.sets.values() for w in entries})
    if lacking := [w for w in listed if w >= len(counts) or not counts[w]]:
        raise BadProbe(f"Word {lacking[0]} is listed and has no context; leave it out or give it one.")
    return CrossedVectors(word_means(rows, number)[:, None], words, int(counts[listed].sum()))


def _half_width(influences: Sequence[FloatArray], resampling: Resampling) -> float | None:
    drawn = studentized(influences, resampling)
    return None if drawn is None else float(np.quantile(drawn[0], resampling.level)) * drawn[1]


def least_excess(
    value: float,
    null: NullDistribution,
    influences: Sequence[FloatArray],
    of_null_models: Sequence[FloatArray],
    resampling: Resampling = DEFAULT,
) -> float | None:
    """The one-sided limit of |value − floor|: below 0 where other words may show nothing.

    influences: of attribute pairs, X, Y and perhaps templates on the model's SEAT; of_null_models: of the
    first three on a null model's SEAT, the mean over null models. None where a kind has one unit only.
    """
    paired = [own - null_model for own, null_model in zip(influences, of_null_models, strict=False)]
    drawn = studentized([*paired, *influences[len(of_null_models) :]], resampling)
    if drawn is None:
        return None
    t, error = drawn
    one_sided = float(np.quantile(t, 2 * resampling.level - 1))  # of |t|, symmetric
    return abs(value - null.floor) - one_sided * math.hypot(error, null.spread / math.sqrt(len(null)))
