"""What a null model would show: null distributions, noise floors and p-values.

A null distribution holds the values of K meaningless models: twins of the model (models/twins.py), or the
same measure of words drawn at random. If words mean nothing, the model and its K twins are exchangeable, so
every order of the K + 1 values is equally likely. With c the mean of all K + 1 of them,

    p = (1 + #{k : |null_k − c| ≥ |value − c|}) / (1 + K)       exact for every K; never below 1 / (1 + K)

Two-sided about the center, not about 0: a tokenizer that cuts the words of A and X into more tokens than
those of B and Y gives every model a value above 0, and it is the distance from there that only meaning
explains. The value takes part in its own center, because the K values do too: otherwise p would be too
small for few twins.

For one-token words a twin is the same as other words in the same texts. So vectors of a pool of words, read
once, give thousands of draws (`null_seats`). Definitions: docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.measurement import FUTILE, LONG_TAILED, P_NULL_MODELS, Measurement, Null
from levelhead.measures.seat_effect import SETS, WordSets
from levelhead.measures.statistics import ROUNDING, FloatArray, alike

_CELLS = 2_000_000  # numbers held at once
MANY = 199  # draws from which on an exact p can be small enough to survive a correction
LONG_TAILS = 3  # degrees of freedom that stand for long tails; with 4, one p of 0.003 in 50 is false
_UNCLAIMED = 0.05  # from this p on nothing is claimed
_NEGLIGIBLE = 0.25  # of the spread: so small a floor moves no p across 0.05 that was not near it


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """Values of a measure in null models."""

    values: FloatArray  # [draw]
    long_tails: bool = False  # a few draws lie much farther out than a normal distribution has them
    share: float = 1.0  # of the error that may be spent at this look: null models come in rounds (rounds.py)
    futile: bool = False  # no more are asked: the value lies too near to these for a claim
    planned: int | None = None  # how many were to come, where the claim has its own number of them

    def __post_init__(self) -> None:
        values = np.asarray(self.values, np.float64)
        if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():
            raise BadProbe(f"A null of shape {values.shape} came; give at least 2 finite values.")
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return int(self.values.size)

    @property
    def floor(self) -> float:
        """The mean: what the measure shows where there is nothing."""
        return float(self.values.mean())

    @property
    def spread(self) -> float:
        """Standard deviation, ddof = 1."""
        return float(self.values.std(ddof=1))

    @property
    def floor_error(self) -> float:
        """Standard error of the floor."""
        return self.spread / math.sqrt(len(self))

    def excess(self, value: float) -> float:
        """What is left of a value above the floor."""
        return value - self.floor

    def p_value(self, value: float) -> float:
        """Exact and two-sided: the value's place among the draws, by distance from their common mean."""
        center = (self.values.sum() + value) / (len(self) + 1)
        distance = abs(value - center)
        as_far = np.abs(self.values - center) >= distance * (1 - ROUNDING)
        return float((1 + as_far.sum()) / (1 + len(self)))

    def upper_p_value(self, value: float) -> float:
        """Exact and one-sided, for measures that bias can only raise, such as a largest score."""
        return float((1 + (self.values >= value - ROUNDING * abs(value)).sum()) / (1 + len(self)))

    def student_p_value(self, value: float) -> float:
        """Two-sided p if the draws are normal: with 19 twins the exact p stops at 0.05, this one does not.

        t = (value − floor) / (spread · sqrt(1 + 1/K)),   K − 1 degrees of freedom, with long tails 3 at most
        """
        if alike(self.values):
            return 1.0 if alike([value, *self.values]) else 0.0
        t = self.excess(value) / (self.spread * math.sqrt(1 + 1 / len(self)))
        return float(2 * stats.t.sf(abs(t), min(len(self) - 1, LONG_TAILS if self.long_tails else math.inf)))

    def upper_student_p_value(self, value: float) -> float:
        """The same, one-sided, for measures that bias can only raise."""
        half = self.student_p_value(value) / 2
        return half if value > self.floor else 1 - half

    def logarithmic_p_value(self, value: float) -> float:
        """One-sided, for largest values: those are skewed to the right, their logarithms much less.

            t = (log value − mean log null) / (spread of log null · sqrt(1 + 1/K)),   K − 1 degrees of freedom

        By rank where a draw has no logarithm; 1 for a value that has none.
        """
        if self.values.min() <= 0:
            return self.upper_p_value(value)
        if value <= 0:
            return 1.0
        return NullDistribution(np.log(self.values)).upper_student_p_value(math.log(value))

    def at_look(self, share: float) -> Self:
        """The same null at a look that may spend so much of the error."""
        return replace(self, share=share)

    def claimed_p(self, value: float) -> float:
        """The p that a claim is judged by: exact where draws are many (199 or more), else Student's."""
        exact = len(self) >= MANY
        return spent_p(self.p_value(value) if exact else self.student_p_value(value), self.share)

    def judged(self, value: float, method: str) -> Null:
        """What a measurement carries of this null.

        The exact p where draws are many (199 or more), else Student's, which assumes that they are normal,
        or long-tailed where that is said; corrected for earlier and later looks where there are any.
        """
        null = LONG_TAILED if self.long_tails else "normal"
        how = "exact" if len(self) >= MANY else f"Student's t, {null} null"
        p = self.claimed_p(value)
        said = f"{method}; p two-sided, {how}{self.looked}"
        return Null(said, len(self), self.floor, self.spread, p, planned=self.planned)

    @property
    def looked(self) -> str:
        """What p was corrected for, as the end of a method."""
        spent = "" if self.share == 1 else f", {100 * self.share:g} % of the error at this look"
        return f"{spent}, {FUTILE}" if self.futile else spent

    def harder(self, measurement: Measurement, method: str, relative: float | None = None) -> Measurement:
        """A measurement with the harder of two nulls, the one that it has and this one: the larger p counts.

        The draws are relative to the scale of each model's own differences, value / rms, where the value has
        that detail, since null models need not be as loud as the model. Floor and spread are
        given back on the measurement's scale; the details keep both p-values. The larger p is valid
        wherever one of the two nulls is. relative: the value on the items that the null models were
        asked, where those are not all.
        """
        relative, there = measurement.relative if relative is None else relative, measurement.null
        if relative is None or there is None:
            return measurement
        here, rms = self.judged(relative, method), measurement.details.get("rms") or 1.0
        details = {**measurement.details, "p_flips": there.p_value, P_NULL_MODELS: here.p_value}
        scaled = replace(here, floor=here.floor * rms, spread=here.spread * rms)
        return replace(measurement, null=max(there, scaled, key=lambda null: null.p_value), details=details)

    def upper_quantile(self, level: float = 0.95) -> float:
        """The least value that a meaningless model exceeds with probability 1 − level at most, counted with
        it.

        The ceil(level · (K + 1))-th smallest draw: of 19 the largest. Infinite if there are too few draws.
        """
        place = math.ceil(level * (len(self) + 1) - 1e-9)
        return math.inf if place > len(self) else float(np.sort(self.values)[place - 1])

    @property
    def sound(self) -> bool:
        """Whether the floor lies within noise of 0, so that values may be read as they are."""
        noise = float(stats.t.ppf(0.975, len(self) - 1)) * self.floor_error
        return abs(self.floor) <= max(noise, _NEGLIGIBLE * self.spread)


def spent_p(p: float, share: float) -> float:
    """A p at a look that may spend a share of the error: p / share, as far as that is below 0.05.

    A larger p is no claim, so it stays as it is: p(at any stop) ≤ x has probability x at most for x < 0.05.
    """
    return min(1.0, max(p, min(divided_p(p, share), _UNCLAIMED), 1e-12))


def divided_p(p: float, share: float) -> float:
    """p / share; 1 at a look that may spend nothing."""
    return min(1.0, p / share) if share else 1.0


def null_range(null: Null, level: float = 0.95) -> tuple[float, float]:
    """Between which values a further null model lies with probability level, if they are normal.

    floor ± t · spread · sqrt(1 + 1/K),   K − 1 degrees of freedom, with long tails 3 at most
    """
    freedom = min(max(1, null.draws - 1), LONG_TAILS if null.long_tailed else math.inf)
    reach = float(stats.t.isf((1 - level) / 2, freedom)) * null.spread * math.sqrt(1 + 1 / null.draws)
    return null.floor - reach, null.floor + reach


def models_needed(null: Null, level: float) -> int | None:
    """How many null models would give p below a level, if more of them scatter as these do; None: over 199.

        z = t(p, K) · sqrt(1 + 1/K);   the least n with  2 P(T_{n−1} ≥ z / sqrt(1 + 1/n)) < level

    t(p, K) is what Student's p of K models comes from. For nulls of fewer than 199 models.
    """
    counts = np.arange(null.draws, max(null.draws, MANY) + 1)
    freedom = np.minimum(counts - 1, LONG_TAILS if null.long_tailed else math.inf)
    z = float(stats.t.isf(null.p_value / 2, freedom[0])) * math.sqrt(1 + 1 / null.draws)
    p = 2 * stats.t.sf(z / np.sqrt(1 + 1 / counts), freedom)
    reached = counts[1:][p[1:] < level]
    return int(reached[0]) if reached.size else None


def sound_choice(nulls: Mapping[str, NullDistribution]) -> tuple[str, str]:
    """The first of several ways to measure that is sound, else the one with the smallest |floor|; and why.

    Give the ways in order of preference, the one with the most words first.
    """
    if not nulls:
        raise BadProbe("No null distribution came; at least one way to measure is needed.")
    for name, null in nulls.items():
        if null.sound:
            return name, f"null models lie around 0 ({null.floor:.2f} ± {null.spread:.2f})"
    least = min(nulls, key=lambda name: abs(nulls[name].floor))
    return least, f"no way is sound; this one has the smallest floor ({nulls[least].floor:.2f})"


def null_seats(
    pool: npt.ArrayLike,
    words: WordSets,
    strata: tuple[Sequence[int], Sequence[int]] | None = None,
    draws: int = 2_000,
    seed: int = 0,
) -> NullDistribution:
    """SEAT of words drawn at random from a pool of vectors [pool word, d], as often as asked.

    Every listed word is exchanged for another pool word, the same one wherever it is listed, so that
    repeats and words in two sets stay what they are. strata: of each listed word number and of each pool
    word, for example their numbers of tokens; words are exchanged within a stratum. Put the listed words
    themselves into the pool too: the value is then one of the equally likely draws.
    """
    vectors = np.asarray(pool, np.float64)
    size = 1 + max(int(word) for name in SETS for word in words.sets[name])
    of_word, of_pool = ([0] * size, [0] * len(vectors)) if strata is None else strata
    listed = np.unique(np.concatenate([words.of(name) for name in SETS]))
    groups = _groups(listed, np.asarray(of_word), np.asarray(of_pool))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    share = np.zeros(size)
    for name, sign in (("A", 1.0), ("B", -1.0)):
        np.add.at(share, words.of(name), sign / len(words.of(name)))
    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // len(vectors))
    drawn = [
        _drawn_seats(rng, min(step, draws - done), (unit, share, groups), words)
        for done in range(0, draws, step)
    ]
    return NullDistribution(np.concatenate(drawn))


def _groups(
    listed: npt.NDArray[np.int64], of_word: npt.NDArray[np.int64], of_pool: npt.NDArray[np.int64]
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """For each stratum: its listed words and its pool words."""
    groups = []
    for stratum in np.unique(of_word[listed]):
        own, others = listed[of_word[listed] == stratum], np.flatnonzero(of_pool == stratum)
        if len(others) < len(own):
            raise BadProbe(
                f"Stratum {stratum}: {len(own)} listed words and {len(others)} pool words came; "
                "the pool needs at least as many."
            )
        groups.append((own, others))
    return groups


def _drawn_seats(
    rng: np.random.Generator,
    draws: int,
    table: tuple[FloatArray, FloatArray, list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]],
    words: WordSets,
) -> FloatArray:
    unit, share, groups = table
    stand_in = np.zeros((draws, share.size), np.int64)  # [draw, word] -> pool word
    for own, others in groups:
        order = np.argsort(rng.random((draws, len(others))), axis=1)[:, : len(own)]
        stand_in[:, own] = others[order]
    weights = np.zeros((draws, len(unit)))
    used = np.flatnonzero(share)
    np.put_along_axis(weights, stand_in[:, used], np.broadcast_to(share[used], (draws, used.size)), axis=1)
    s = (weights @ unit) @ unit.T
    x, y = (np.take_along_axis(s, stand_in[:, words.of(name)], axis=1) for name in "XY")
    both = np.concatenate([x, y], axis=1)
    return np.asarray((x.mean(1) - y.mean(1)) / both.std(axis=1, ddof=1), np.float64)
