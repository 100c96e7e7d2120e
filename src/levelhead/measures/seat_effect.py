"""SEAT of word vectors, and what single words and templates do to it, to first order.

The influence of a unit is what SEAT changes by when the unit counts a little more. Units are attribute pairs
(a pair is drawn as a whole, and so are pairs that share a word), targets X, targets Y, and templates. The
influences of each kind add up to 0. See docs/method.md, SEAT; Davison and Hinkley 1997.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.statistics import FloatArray

SETS = ("A", "B", "X", "Y")
_WORDS = 64  # whose vectors are held as doubles at once
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WordSets:
    """Which words stand in A, B, X, Y (numbers; repeats count), and which attributes are counterparts."""

    sets: Mapping[str, Sequence[int]]
    pairs: Sequence[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        if set(self.sets) != set(SETS) or not all(len(self.sets[name]) for name in SETS):
            raise BadProbe(
                f"Sets {sorted(self.sets)} came; SEAT needs A, B (attributes) and X, Y (targets), none empty."
            )

    def of(self, name: str) -> Ints:
        """Numbers of the words of a set."""
        return np.asarray(self.sets[name], np.int64)

    def numbered(self, numbers: Sequence[int]) -> WordSets:
        """The same words in a longer list, where word i has numbers[i]."""
        sets = {name: [numbers[word] for word in entries] for name, entries in self.sets.items()}
        return WordSets(sets, [(numbers[a], numbers[b]) for a, b in self.pairs])

    @property
    def sizes(self) -> dict[str, float]:
        """The number of entries of each set, as a measurement's details name it."""
        return {f"n_{name.lower()}": float(len(self.sets[name])) for name in SETS}

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
    """Vectors of words by direction and length."""

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
    def of(cls, means: FloatArray, words: WordSets) -> SeatEffect | None:
        """SEAT of vectors [word, d]; None with fewer than 2 targets on a side, or one association for all."""
        return cls.of_units(units(means), words)

    @classmethod
    def of_units(cls, vectors: Units, words: WordSets) -> SeatEffect | None:
        """The same, of vectors that several lists of words share."""
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
    def spread(self) -> float:
        """Standard deviation of the targets' associations, ddof = 1."""
        return float(np.concatenate(self.s).std(ddof=1))

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
        return [np.array(list(pairs.values())), *(self._of_targets(side) for side in (0, 1))]

    def _of_targets(self, side: int) -> FloatArray:
        """A target counts in its side's mean and, divided, in the spread of all: [word of the side]"""
        s, sign, n = self.s[side], (1.0, -1.0)[side], sum(part.size for part in self.s)
        own = sign * (s - s.mean()) / s.size
        if self.divided:
            both = np.concatenate(self.s)
            spread, square = both.std(ddof=1), (s - both.mean()) ** 2
            own = sign * (s - s.mean()) / (s.size * spread)
            own -= self.value / (2 * spread**2) * (square - square.mean()) / (n - 1)
        group = np.unique(self.words.of("XY"[side]), return_inverse=True)[1].ravel()
        return np.asarray(np.bincount(group, weights=own), np.float64)

    def word_weights(self) -> tuple[FloatArray, FloatArray]:
        """How much each word counts as an attribute, by which direction is a mean, and as a target, by which
        the value is a sum: [word] each."""
        a, b, x, y = (self.words.of(name) for name in SETS)
        attribute = self._by_word(a, 1 / len(a)) - self._by_word(b, 1 / len(b))
        return attribute, self._by_word(x, self.by_s[0]) + self._by_word(y, self.by_s[1])

    def _by_word(self, entries: Ints, weights: npt.ArrayLike) -> FloatArray:
        """The weights of a set's entries, summed by word: [word]"""
        given = np.broadcast_to(np.asarray(weights, np.float64), entries.shape)
        return np.asarray(np.bincount(entries, weights=given, minlength=len(self.unit)), np.float64)


def all_influences(
    effects: Sequence[SeatEffect], vectors: npt.NDArray[np.floating[Any]]
) -> list[list[FloatArray]]:
    """On each effect: of attribute pairs, of X, of Y, and of templates where vectors [word, template, d] have
    several. The effects are of the means of these vectors: a SEAT, and perhaps its numerator."""
    influences = [effect.influences() for effect in effects]
    if vectors.shape[1] > 1:
        for own, of_templates in zip(influences, template_influences(effects, vectors), strict=True):
            own.append(of_templates)
    return influences


def template_influences(
    effects: Sequence[SeatEffect], vectors: npt.NDArray[np.floating[Any]]
) -> list[FloatArray]:
    """What each template adds to each effect, through the means of all words: vectors [word, template, d] ->
    [template], adding up to 0.

    With u a word's unit vector and r its length, d value / d mean = ( slope − (slope · u) u ) / r, where
    slope = attribute weight · by_direction + target weight · direction. So a vector counts by its products
    with these directions and with u, which all effects share.
    """
    first = effects[0]
    directions = np.stack([first.direction, *(effect.by_direction for effect in effects)], axis=1)
    weights = [effect.word_weights() for effect in effects]  # of attributes, of targets: [word] each
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
    return [np.asarray((own - own.mean()) / own.size) for own in along]


def word_means(vectors: npt.NDArray[np.floating[Any]], word: Ints) -> FloatArray:
    """The mean of each word's contexts: vectors [context, d], word [context] -> [word, d]"""
    counts = np.bincount(word)
    by_word = np.split(np.argsort(word, kind="stable"), np.cumsum(counts)[:-1])
    sums = [vectors[contexts].sum(axis=0, dtype=np.float64) for contexts in by_word]  # np.add.at: 20 x slower
    return np.asarray(np.stack(sums) / np.maximum(counts, 1)[:, None])
