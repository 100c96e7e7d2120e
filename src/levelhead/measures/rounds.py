"""Null models in rounds: when no verdict can change any more, no further one is asked (docs/method.md).

A round ends at a look: after 5 null models, after 9, and when all that were planned are there; where no more
than 5 were, also after 3, which spends none of the error. At a look

    a claim holds now        if its p stays below its level when divided by the share of the error that this
                             look may spend; the shares of all looks add up to 1, so that by Bonferroni's
                             inequality the chance of a false claim at any stop is at most the level
    a claim can never hold   if no values of the null models still to come could bring p below 0.05

The second is arithmetic, not chance. With K values of mean m and sum of squares SS, and n = N − K to come,

    t² ≤ (N − 1) / (1 + 1/N) · ( (value − m)² / SS + n / (N K) )

whatever the n values are: equality where all of them lie on the far side of m, at one place. Such a stop
costs no power and no error: the verdict is the one that all N would have given. A claim other than the main
one is not pursued either

    for futility             if its p, undivided, is 0.05 or more after 3 of up to 5 null models, 0.03 or more
                             after 5 of up to 9, or 0.04 or more after 9 of up to 19

which makes no claim, so that it adds no error; what it costs is power (docs/method.md has how much).
Group-sequential tests: Pocock 1977; futility: DeMets and Ware 1980; Monte Carlo tests that stop: Besag and
Clifford 1991, Gandy 2009.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import stats

from levelhead.measures.measurement import ENOUGH, Null
from levelhead.measures.null import LONG_TAILS, MANY, NullDistribution, spent_p
from levelhead.measures.statistics import alike

SPENT = {5: 0.05, 9: 0.05}  # null models at an early look -> share of the error that it may spend
FUTILE = {  # null models at an early look -> of how many at most, p from which on a claim is futile
    3: (5, 0.05),
    5: (9, 0.03),
    9: (19, 0.04),
}
ALPHA = 0.05  # no claim holds at a larger p, however many others do
MAIN_LEVEL = 0.75 * ALPHA  # at which the main claim of a page holds alone
SURE_LEVEL = 0.25 * ALPHA / 32  # at which any other claim does, on a page of up to 32 of them


def looks(planned: int) -> tuple[int, ...]:
    """After how many null models verdicts are looked at; from 199 on, where p is exact, at the end only."""
    if planned >= MANY:
        return (planned,)
    early = {k for k in SPENT if k < planned} | {k for k in FUTILE if _may_end(k, planned)}
    return (*sorted(early), planned)


def share(draws: int, planned: int) -> float:
    """The share of the error that a look may spend: the last one has what is left."""
    early = looks(planned)[:-1]
    return SPENT.get(draws, 0.0) if draws in early else 1 - sum(SPENT.get(k, 0.0) for k in early)


def least_p(null: NullDistribution, value: float, planned: int) -> float:
    """The smallest p that any null models still to come could give a value at a later look."""
    later = [k for k in looks(planned) if k > len(null)]
    if not later or alike(null.values):
        return 0.0
    distance = null.excess(value) ** 2 / ((len(null) - 1) * null.spread**2)
    return min(_least(distance, len(null), n, null.long_tails) / share(n, planned) for n in later)


def least_p_of(p: float, draws: int, planned: int, long_tails: bool = False) -> float:
    """The same from a p that so many null models gave by Student's t."""
    t = float(stats.t.isf(p / 2, _freedom(draws, long_tails)))
    return _least(t * t * (1 + 1 / draws) / (draws - 1), draws, planned, long_tails)


def _least(distance: float, draws: int, planned: int, long_tails: bool) -> float:
    """distance: (value − m)² / SS."""
    more = planned - draws
    square = (planned - 1) / (1 + 1 / planned) * (distance + more / (planned * draws))
    return float(2 * stats.t.sf(math.sqrt(square), _freedom(planned, long_tails)))


def _freedom(draws: int, long_tails: bool) -> int:
    return min(draws - 1, LONG_TAILS) if long_tails else draws - 1


def settled(null: NullDistribution, value: float, planned: int, level: float = SURE_LEVEL) -> bool:
    """Whether a claim holds at this look at a level, or could not hold at any later one."""
    look = share(len(null), planned)
    return null.at_look(look).claimed_p(value) < level or least_p(null, value, planned) >= ALPHA


def futile(null: NullDistribution, value: float, planned: int) -> bool:
    """Whether a claim other than the main one is too far from holding at this look to be pursued."""
    return _futile(null.student_p_value(value), len(null), planned)


def _futile(p: float, draws: int, planned: int) -> bool:
    return draws in FUTILE and _may_end(draws, planned) and p >= FUTILE[draws][1]


def _may_end(draws: int, planned: int) -> bool:
    """Whether claims can be futile after so many of the planned null models."""
    return draws < planned <= FUTILE[draws][0]


def closed(null: NullDistribution, value: float, planned: int) -> bool:
    """Whether no more null models are asked for a claim other than the main one."""
    return settled(null, value, planned) or futile(null, value, planned)


def looked_at(null: NullDistribution, value: float, planned: int) -> NullDistribution:
    """The null at the look after which no more models were asked for a claim other than the main one."""
    stopped = futile(null, value, planned)
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
    return null.draws < 2 or least_p_of(null.p_value, null.draws, null.enough, null.long_tailed) < ALPHA


# ---- the largest of many scores, one-sided


def by_rank(planned: int) -> bool:
    """Whether so many null models are enough for p by rank: with 19 it can be 0.05, with fewer it cannot."""
    return planned >= ENOUGH


def largest_settled(largest: NullDistribution, value: float, planned: int) -> bool:
    """Whether the verdict on clear heads is settled.

    By rank: a head must lie beyond all of 19 null models (38 of 39 ...), so one that does not is enough. With
    fewer, by Student's t of logarithms: a claim holds now, or is futile.
    """
    if by_rank(planned):
        allowed = math.floor(ALPHA * (planned + 1) + 1e-9) - 1
        return int(np.sum(largest.values >= value)) > allowed
    p = largest.logarithmic_p_value(value)
    sure = spent_p(p, share(len(largest), planned)) < SURE_LEVEL
    return sure or _futile(p, len(largest), planned)


def largest_looked_at(largest: NullDistribution, value: float, planned: int) -> NullDistribution:
    """The largest scores of null models at the look after which no more were asked."""
    student = not by_rank(planned)
    stopped = student and _futile(largest.logarithmic_p_value(value), len(largest), planned)
    return replace(largest, share=share(len(largest), planned), futile=stopped, planned=planned)
