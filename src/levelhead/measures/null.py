"""What a null model would show: null distributions, noise floors and p-values (docs/method/statistics.md).

With c the mean of the values of K null models and of the model's own, all exchangeable if words mean nothing,

    p = (1 + #{k : |null_k − c| ≥ |value − c|}) / (1 + K)       exact for every K; never below 1 / (1 + K)

Two-sided about the center, not about 0: a tokenizer that cuts the words of A and X into more tokens than
those of B and Y gives every model a value above 0. The value takes part in its own center, because the K
values do too: otherwise p would be too small.

Null models come in rounds, which end at a look. There a claim holds if its p stays below its level when
divided by the share of the error that this look may spend; it can never hold, by arithmetic, if no values
still to come could bring p below 0.05; and, unless it is the main one, it is futile if its p is too large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.errors import BadProbe
from levelhead.measures.measurement import (
    ENOUGH,
    FUTILE,
    LONG_TAILED,
    NULL_MODELS,
    P_NULL_MODELS,
    Measurement,
    Null,
)
from levelhead.measures.statistics import ROUNDING, FloatArray, alike

MANY = 199  # draws from which on an exact p can be small enough to survive a correction
LONG_TAILS = 3  # degrees of freedom that stand for long tails; with 4, one p of 0.003 in 50 is false
_UNCLAIMED = 0.05  # from this p on nothing is claimed
_NEGLIGIBLE = 0.25  # of the spread: so small a floor moves no p across 0.05 that was not near it
SPENT = {5: 0.05, 9: 0.05}  # null models at an early look -> share of the error that it may spend
FUTILE_FROM = {  # null models at an early look -> of how many at most, p from which on a claim is futile
    3: (5, 0.05),
    5: (9, 0.03),
    9: (19, 0.04),
}
ALPHA = 0.05  # no claim holds at a larger p, however many others do
MAIN_LEVEL = 0.75 * ALPHA  # at which the main claim of a page holds alone
SURE_LEVEL = 0.25 * ALPHA / 32  # at which any other claim does, on a page of up to 32 of them
Test = Literal["rank", "student", "logarithm"]


@dataclass(frozen=True, eq=False)
class NullDistribution:
    values: FloatArray  # [draw]
    long_tails: bool = False  # a few draws lie much farther out than a normal distribution has them
    share: float = 1.0  # of the error that may be spent at this look: null models come in rounds
    futile: bool = False  # no more are evaluated: the value lies too near to these for a claim
    planned: int | None = None  # how many were to come, where the claim has its own number of them

    def __post_init__(self) -> None:
        values = np.asarray(self.values, np.float64)
        if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():
            raise BadProbe(f"A null needs at least 2 finite values (got shape {values.shape})")
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

    def p_value(self, value: float, by: Test = "rank", upper: bool = False) -> float:
        """The p of a value, two-sided, or with upper one-sided for measures that bias can only raise.

        rank        exact: the value's place among the draws, by distance from their common mean; with
                    upper its place from above
        student     t = (value − floor) / (spread · sqrt(1 + 1/K)),   K − 1 degrees of freedom, with long
                    tails 3 at most; with 19 null models the exact p stops at 0.05, this one does not
        logarithm   the same of logarithms and always one-sided, for largest values: those are skewed to the
                    right, their logarithms much less. By rank where a draw has no logarithm; 1 for a value
                    that has none
        """
        values = self.values
        if by == "logarithm" and values.min() > 0:
            if value <= 0:
                return 1.0
            return NullDistribution(np.log(values)).p_value(math.log(value), "student", upper=True)
        if by == "student":
            if alike(values):
                p = 1.0 if alike([value, *values]) else 0.0
            else:
                t = (value - self.floor) / (self.spread * math.sqrt(1 + 1 / len(self)))
                p = float(2 * scipy.stats.t.sf(abs(t), freedom(len(self), self.long_tails)))
            half = p / 2 if value > self.floor else 1 - p / 2
            return half if upper else p
        if upper or by == "logarithm":
            return float((1 + (values >= value - ROUNDING * abs(value)).sum()) / (1 + len(self)))
        center = (values.sum() + value) / (len(self) + 1)
        distance = abs(value - center)
        as_far = np.abs(values - center) >= distance * (1 - ROUNDING)
        return float((1 + as_far.sum()) / (1 + len(self)))

    def judged(self, value: float, method: str) -> Null:
        """What a measurement carries of this null.

        The exact p where draws are many (199 or more), else Student's, which assumes that they are normal,
        or long-tailed where that is said; corrected for earlier and later looks where there are any.
        """
        exact = len(self) >= MANY
        null = LONG_TAILED if self.long_tails else "normal"
        how = "exact" if exact else f"Student's t, {null} null"
        p = spent_p(self.p_value(value, "rank" if exact else "student"), self.share)
        said = f"{method}; p two-sided, {how}{self.looked}"
        return Null(said, len(self), self.floor, self.spread, p, planned=self.planned)

    def detectable(self, level: float) -> float:
        """The size from which on a value on either side of 0 has Student's p of a level at most:
        |floor| + t · spread · sqrt(1 + 1/K)."""
        degrees = freedom(len(self), self.long_tails)
        reach = float(scipy.stats.t.isf(level / 2, degrees)) * self.spread * math.sqrt(1 + 1 / len(self))
        return abs(self.floor) + reach

    @property
    def looked(self) -> str:
        """What p was corrected for, as the end of a method."""
        spent = "" if self.share == 1 else f", {100 * self.share:g} % of the error at this look"
        return f"{spent}, {FUTILE}" if self.futile else spent

    def harder(self, measurement: Measurement, method: str, relative: float | None = None) -> Measurement:
        """A measurement with the harder of two nulls, the one that it has and this one: the larger p counts.

        The draws are relative to the scale of each model's own differences, value / rms, where the value has
        that detail, since null models need not be as loud as the model. Floor and spread are given back on
        the measurement's scale. The larger p is valid wherever one of the two nulls is. relative: the value
        on the items that the null models were evaluated on, where those are not all.
        """
        relative, there = measurement.relative if relative is None else relative, measurement.null
        if relative is None or there is None:
            return measurement
        here, rms = self.judged(relative, method), measurement.details.get("rms") or 1.0
        details = {**measurement.details, "p_flips": there.p_value, P_NULL_MODELS: here.p_value}
        scaled = replace(here, floor=here.floor * rms, spread=here.spread * rms)
        return replace(measurement, null=max(there, scaled, key=lambda null: null.p_value), details=details)

    @property
    def sound(self) -> bool:
        """Whether the floor lies within noise of 0, so that values may be read as they are."""
        noise = float(scipy.stats.t.ppf(0.975, len(self) - 1)) * (self.spread / math.sqrt(len(self)))
        return abs(self.floor) <= max(noise, _NEGLIGIBLE * self.spread)


def freedom(draws: int, long_tails: bool) -> float:
    """Student's degrees of freedom of so many draws."""
    return min(draws - 1, LONG_TAILS if long_tails else math.inf)


def spent_p(p: float, share: float) -> float:
    """A p at a look that may spend a share of the error: p / share, as far as that is below 0.05.

    A larger p is no claim, so it stays as it is: p(at any stop) ≤ x has probability x at most for x < 0.05.
    """
    return min(1.0, max(p, min(p / share if share else 1.0, _UNCLAIMED), 1e-12))


def null_range(null: Null, level: float = 0.95) -> tuple[float, float]:
    """Between which values a further null model lies with probability level, if they are normal.

    floor ± t · spread · sqrt(1 + 1/K),   K − 1 degrees of freedom, with long tails 3 at most
    """
    degrees = freedom(max(2, null.draws), LONG_TAILED in null.method)
    reach = float(scipy.stats.t.isf((1 - level) / 2, degrees)) * null.spread * math.sqrt(1 + 1 / null.draws)
    return null.floor - reach, null.floor + reach


def models_needed(null: Null, level: float) -> int | None:
    """How many null models would give p below a level, if more of them scatter as these do; None: over 199.

        z = t(p, K) · sqrt(1 + 1/K);   the least n with  2 P(T_{n−1} ≥ z / sqrt(1 + 1/n)) < level

    t(p, K) is what Student's p of K models comes from. For nulls of fewer than 199 models.
    """
    counts = np.arange(null.draws, max(null.draws, MANY) + 1)
    degrees = np.minimum(counts - 1, LONG_TAILS if LONG_TAILED in null.method else math.inf)
    z = float(scipy.stats.t.isf(null.p_value / 2, degrees[0])) * math.sqrt(1 + 1 / null.draws)
    p = 2 * scipy.stats.t.sf(z / np.sqrt(1 + 1 / counts), degrees)
    reached = counts[1:][p[1:] < level]
    return int(reached[0]) if reached.size else None


def sound_choice(nulls: Mapping[str, NullDistribution]) -> tuple[str, str]:
    """The first of several ways to measure that is sound, else the one with the smallest |floor|; and why.

    Give the ways in order of preference, the one with the most words first.
    """
    if not nulls:
        raise BadProbe("At least one way to measure needs a null distribution (got none)")
    for name, null in nulls.items():
        if null.sound:
            return name, f"null models lie around 0 ({null.floor:.2f} ± {null.spread:.2f})"
    least = min(nulls, key=lambda name: abs(nulls[name].floor))
    return least, f"no way is sound; this one has the smallest floor ({nulls[least].floor:.2f})"


# ---- rounds of null models


def looks(planned: int) -> tuple[int, ...]:
    """After how many null models verdicts are looked at; from 199 on, where p is exact, at the end only."""
    if planned >= MANY:
        return (planned,)
    early = {k for k in SPENT if k < planned} | {
        k for k, (most, _) in FUTILE_FROM.items() if k < planned <= most
    }
    return (*sorted(early), planned)


def likely(planned: int) -> int:
    """How many of so many null models are evaluated, most likely: up to the last look but one."""
    return looks(planned)[-2] if len(looks(planned)) > 1 else planned


def share(draws: int, planned: int) -> float:
    """The share of the error that a look may spend: the last one has what is left."""
    early = looks(planned)[:-1]
    return SPENT.get(draws, 0.0) if draws in early else 1 - sum(SPENT.get(k, 0.0) for k in early)


def least_p(null: NullDistribution, value: float, planned: int) -> float:
    """The smallest p that any null models still to come could give a value at a later look."""
    # at a look that spends no error nothing is claimed, only given up (FUTILE_FROM)
    later = [k for k in looks(planned) if k > len(null) and share(k, planned) > 0]
    if not later or alike(null.values):
        return 0.0
    distance = (value - null.floor) ** 2 / ((len(null) - 1) * null.spread**2)
    return min(_least(distance, len(null), n, null.long_tails) / share(n, planned) for n in later)


def _least(distance: float, draws: int, planned: int, long_tails: bool) -> float:
    """distance: (value − m)² / SS."""
    more = planned - draws
    square = (planned - 1) / (1 + 1 / planned) * (distance + more / (planned * draws))
    return float(2 * scipy.stats.t.sf(math.sqrt(square), freedom(planned, long_tails)))


def settled(null: NullDistribution, value: float, planned: int, level: float = SURE_LEVEL) -> bool:
    """Whether a claim holds at this look at a level, or could not hold at any later one."""
    here = replace(null, share=share(len(null), planned)).judged(value, NULL_MODELS)
    return here.p_value < level or least_p(null, value, planned) >= ALPHA


def futile(p: float, draws: int, planned: int) -> bool:
    """Whether a claim other than the main one has too large a p at this look to be pursued."""
    return draws in FUTILE_FROM and draws < planned <= FUTILE_FROM[draws][0] and p >= FUTILE_FROM[draws][1]


def closed(null: NullDistribution, value: float, planned: int) -> bool:
    """Whether no more null models are evaluated for a claim other than the main one."""
    return settled(null, value, planned) or futile(null.p_value(value, "student"), len(null), planned)


def looked_at(null: NullDistribution, value: float, planned: int) -> NullDistribution:
    """The null at the look after which no more models were evaluated for a claim other than the main one."""
    stopped = futile(null.p_value(value, "student"), len(null), planned)
    return replace(null, share=share(len(null), planned), futile=stopped, planned=planned)


def says_too_little(null: Null | None) -> bool:
    """Whether null models are so few that more of them could give a claim that these do not.

    A round after which none could is as good as all of them, and so is a stop for futility where enough
    were planned. Where group words that are exchanged have the larger p, more null models would not help.
    """
    if null is None or not null.of_models or null.exchanged or null.draws >= null.enough:
        return False
    if null.futile and (null.planned is None or null.planned >= null.enough):
        return False
    if null.draws < 2:
        return True
    # Student's t of so many null models, converted back into the distance that gave it
    t = float(scipy.stats.t.isf(null.p_value / 2, freedom(null.draws, LONG_TAILED in null.method)))
    distance = t * t * (1 + 1 / null.draws) / (null.draws - 1)
    return _least(distance, null.draws, null.enough, LONG_TAILED in null.method) < ALPHA


# ---- the largest of many scores, one-sided


def largest_settled(largest: NullDistribution, value: float, planned: int) -> bool:
    """Whether the verdict on clear heads is settled.

    By rank: a head must lie beyond all of 19 null models (38 of 39 ...), so one that does not is enough. With
    fewer, by Student's t of logarithms: a claim holds now, or is futile.
    """
    if planned >= ENOUGH:
        allowed = math.floor(ALPHA * (planned + 1) + 1e-9) - 1
        return int(np.sum(largest.values >= value)) > allowed
    p = largest.p_value(value, "logarithm")
    sure = spent_p(p, share(len(largest), planned)) < SURE_LEVEL
    return sure or futile(p, len(largest), planned)
