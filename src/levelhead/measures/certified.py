"""Which of several mitigations is certified: error at most 5 % for all of them together (docs/method.md).

Items fall by cluster into parts A (to fit on), B (to order candidates on) and C (to test on). On C candidates
are tested in the order that B gave them, each by

    p = max( p of gain ≤ δ, p of overshoot, p of each cost ≥ its margin )

and the first p > 0.05 ends the sequence. The chance that any candidate before it is not as claimed is at most
5 %, however many there are: an intersection-union test for each, and a fixed sequence of them. Each p is a
one-sided cluster-robust t-test of paired items; of right and wrong answers also a score test.
References: Laufer-Goldshtein et al. 2023 (Pareto testing); Angelopoulos et al. 2021 (Learn then test); Berger
1982; Maurer et al. 1995; Tango 1998.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.statistics import FloatArray, Interval

LEVEL = 0.05
PERPLEXITY = "perplexity"  # the cost that is the logarithm of one, in nats per token
# Shares of pronouns that miss the gender which a noun states, and which a first name or title states.
AGREEMENT, NAME_AGREEMENT = "agreement", "agreement of names"
_LEARNED = "GLUE "  # and a task: the cost that is the share of wrong answers after fine-tuning on it
Verdict = Literal["certified", "helps but costs", "not shown", "not reached", "overshoots"]


def learned_cost(task: str) -> str:
    """The name of the cost of fine-tuning on a task of GLUE."""
    return f"{_LEARNED}{task}"


def is_learned(cost: str) -> bool:
    """Whether a cost is one of fine-tuning."""
    return cost.startswith(_LEARNED)


@dataclass(frozen=True, eq=False)
class PairedItems:
    """One quantity of the same items before and after a change: each item's share of a weighted mean.

    A bias is signed, with 0 as its neutral value; a cost grows as the model gets worse.
    """

    name: str
    unit: str  # nats, probability, cosine, share of items
    before: FloatArray  # [item]
    after: FloatArray  # [item]
    clusters: npt.NDArray[np.str_]  # [item]
    weights: FloatArray | None = None  # [item]; None: all alike
    answers: int = 0  # right or wrong, that the values are shares of; 0: they are no shares
    strata: npt.NDArray[np.int_] | None = None  # [item] kinds with a fixed share each; None: one kind

    def __post_init__(self) -> None:
        sizes = {len(self.before), len(self.after), len(self.clusters)}
        sizes |= {len(each) for each in (self.weights, self.strata) if each is not None}
        finite = np.isfinite(self.before).all() and np.isfinite(self.after).all()
        if len(sizes) != 1 or not len(self.before) or not finite:
            raise BadProbe(f"{self.name}: give the same items before and after, finite, at least one.")

    def mean(self, values: FloatArray) -> float:
        """The weighted mean over items."""
        return float(np.average(values, weights=self.weights))

    @property
    def change(self) -> float:
        """After less before."""
        return self.mean(self.after - self.before)


def p_at_most(values: FloatArray, bound: float, items: PairedItems) -> float:
    """The p of "the weighted mean is at most the bound", one-sided; small where it lies clearly above.

    Without any spread between clusters the mean is known: p is 0 above the bound and 1 elsewhere.
    """
    mean, stderr, clusters = _robust(values, items)
    if stderr is None:
        return 1.0
    if stderr == 0:
        return 0.0 if mean > bound else 1.0
    return float(stats.t.sf((mean - bound) / stderr, clusters - 1))


def p_of_cost(cost: PairedItems, margin: float) -> float:
    """The p of "it costs the margin or more": of shares of answers the larger of two.

    A t-test takes its spread from the answers that changed, and of a few hundred too few do: a loss of just
    the margin passes it in 7 to 15 of 100 cases (170 to 410 answers, 2 points). The score test has the spread
    that such a loss would bring (Tango 1998); it takes answers of one cluster as several, so the t-test stays
    beside it.
    """
    p = p_at_most(cost.before - cost.after, -margin, cost)
    return max(p, _score_p(cost, margin)) if cost.answers else p


def _score_p(cost: PairedItems, margin: float) -> float:
    """Φ( (w − b − n δ) / √( n (2 q + δ (1 − δ)) ) ) of w answers that got worse and b that got better of n; q
    is the likeliest share of the better ones where w/n − b/n is δ."""
    n, change = cost.answers, cost.after - cost.before
    worse, better = (n * cost.mean(np.maximum(sign * change, 0)) for sign in (1, -1))
    linear = (2 * n - worse + better) * margin - worse - better
    likeliest = math.sqrt(linear**2 + 8 * n * better * margin * (1 - margin)) - linear
    variance = likeliest / 2 + n * margin * (1 - margin)
    if variance <= 0:
        return 1.0
    return float(stats.norm.cdf((worse - better - n * margin) / math.sqrt(variance)))


def mean_interval(values: FloatArray, items: PairedItems, level: float = 0.95) -> Interval | None:
    """The cluster-robust interval of the weighted mean; None where there is one cluster."""
    mean, stderr, clusters = _robust(values, items)
    if stderr is None:
        return None
    half = float(stats.t.ppf((1 + level) / 2, clusters - 1)) * stderr
    return mean - half, mean + half


def _robust(values: FloatArray, items: PairedItems) -> tuple[float, float | None, int]:
    """Mean, its cluster-robust standard error (CR1), and how many clusters there are, less one for every
    stratum beyond the first.

    Items of a stratum are held against its own mean: what lifts one kind and lowers the other is no
    uncertainty of the mean, for either has its share in every sample.
    """
    weights = np.ones(len(values)) if items.weights is None else items.weights
    strata = np.zeros(len(values), np.int64) if items.strata is None else items.strata
    mean = float(np.average(values, weights=weights))
    names, member = np.unique(items.clusters, return_inverse=True)
    scores, kinds = np.zeros(len(names)), np.unique(strata)
    for kind in kinds:
        own = strata == kind
        size = len(np.unique(member[own]))
        if size < 2:
            return mean, None, size
        share = weights[own] / weights.sum() * math.sqrt(size / (size - 1))
        apart = values[own] - np.average(values[own], weights=weights[own])
        scores += np.bincount(member[own], share * apart, len(names))
    stderr = math.sqrt(float((scores**2).sum()))
    rounding = 1e-12 * float(np.abs(values).max())
    return mean, stderr if stderr > rounding else 0.0, max(2, len(names) - len(kinds) + 1)


@dataclass(frozen=True)
class Margins:
    """What a mitigation must gain, and what it may cost."""

    gain: float = 0.0  # δ, in the bias's natural unit
    overshoot: float = 0.25  # of the bias before, on the other side of neutral
    costs: Mapping[str, float] = field(default_factory=dict)  # by the cost's name
    other: float = 0.02  # for a cost without a margin of its own

    def cost(self, name: str) -> float:
        """How far a cost may grow."""
        return self.costs.get(name, self.other)


@dataclass(frozen=True)
class Certificate:
    """What one candidate shows on items that it was neither fitted nor ordered on."""

    candidate: str
    bias: str
    unit: str
    before: float
    after: float
    gain: float  # toward neutral, in the unit
    interval: Interval | None  # of the gain
    p_gain: float
    p_overshoot: float
    p_costs: Mapping[str, float]
    costs: Mapping[str, float]  # by name: how far each grew
    certified: bool = False
    cost_intervals: Mapping[str, Interval | None] = field(default_factory=dict)  # of how far each grew

    def with_costs(self, costs: Sequence[PairedItems], margins: Margins) -> Certificate:
        """The same with more costs."""
        grown = {c.name: c.change for c in costs}
        intervals = {c.name: mean_interval(c.after - c.before, c) for c in costs}
        return replace(
            self,
            p_costs={**self.p_costs, **{c.name: p_of_cost(c, margins.cost(c.name)) for c in costs}},
            costs={**self.costs, **grown},
            cost_intervals={**self.cost_intervals, **intervals},
        )

    def with_unknown_costs(self, names: Sequence[str]) -> Certificate:
        """The same with costs that could not be measured: that they stay within a margin is not shown."""
        return replace(self, p_costs={**self.p_costs, **dict.fromkeys(names, 1.0)})

    @property
    def p(self) -> float:
        """The largest p of all that is claimed."""
        return max(self.p_gain, self.p_overshoot, *self.p_costs.values())

    @property
    def lessened(self) -> float:
        """By how much the size of the bias fell, whichever way it leans."""
        return abs(self.before) - abs(self.after)

    @property
    def too_costly(self) -> bool:
        """Whether these items show that a cost is at least its margin."""
        return max(self.p_costs.values(), default=0.0) > 1 - LEVEL

    @property
    def verdict(self) -> Verdict:
        """The candidate in a word or three. Not reached: it passes every test, but one before it failed, or
        the bias itself does not stand out from null models."""
        if self.certified or self.p <= LEVEL:
            return "certified" if self.certified else "not reached"
        if self.p_gain > LEVEL:
            return "not shown"
        if self.p_overshoot > LEVEL and self.before * self.after < 0:
            return "overshoots"
        return "helps but costs" if max(self.p_costs.values(), default=0.0) > LEVEL else "not shown"

    @property
    def missed(self) -> tuple[str, ...]:
        """Which of the claims did not hold."""
        costs = [name for name, p in self.p_costs.items() if p > LEVEL]
        gain = ["gain"] if self.p_gain > LEVEL else []
        return (*gain, *(["overshoot"] if self.p_overshoot > LEVEL else []), *costs)


def certificate(
    candidate: str, bias: PairedItems, sign: int, costs: Sequence[PairedItems], margins: Margins
) -> Certificate:
    """Test one candidate. sign: of the unmodified model's bias, found on other items than these.

    gain      = sign · (before − after) > δ
    overshoot = sign · after < −(share of sign · before): p of the mean of after + share · before ≤ 0
    """
    before, after = sign * bias.before, sign * bias.after
    gained = before - after
    return Certificate(
        candidate=candidate,
        bias=bias.name,
        unit=bias.unit,
        before=bias.mean(bias.before),
        after=bias.mean(bias.after),
        gain=bias.mean(gained),
        interval=mean_interval(gained, bias),
        p_gain=p_at_most(gained, margins.gain, bias),
        p_overshoot=p_at_most(after + margins.overshoot * before, 0.0, bias),
        p_costs={},
        costs={},
    ).with_costs(costs, margins)


def in_sequence(tested: Sequence[Certificate], level: float = LEVEL) -> list[Certificate]:
    """The same in their order, those before the first p above the level certified."""
    passed, going = [], True
    for each in tested:
        going = going and each.p <= level
        passed.append(replace(each, certified=going))
    return passed
