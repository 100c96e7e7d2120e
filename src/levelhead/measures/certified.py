"""Which of several mitigations is certified: error at most 5 % for all of them together.

Items fall by cluster into parts A (to fit on), B (to order candidates on) and C (to test on). On C candidates
are tested in the order that B gave them, each by

    p = max( p of gain ≤ δ, p of overshoot, p of each cost ≥ its margin )

and the first p > 0.05 ends the sequence: an intersection-union test for each, and a fixed sequence of them.
Reasons and references: docs/method/certified.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.errors import BadProbe
from levelhead.measures.certificate import APPEARS as APPEARS
from levelhead.measures.certificate import INSIDE_ONLY as INSIDE_ONLY
from levelhead.measures.certificate import LEARNED as LEARNED
from levelhead.measures.certificate import LEVEL as LEVEL
from levelhead.measures.certificate import MIRROR as MIRROR
from levelhead.measures.certificate import MIRROR_GAP as MIRROR_GAP
from levelhead.measures.certificate import PERPLEXITY as PERPLEXITY
from levelhead.measures.certificate import WRITTEN as WRITTEN
from levelhead.measures.certificate import Certificate as Certificate
from levelhead.measures.certificate import Margins as Margins
from levelhead.measures.certificate import Outside as Outside
from levelhead.measures.certificate import Verdict as Verdict
from levelhead.measures.statistics import FloatArray, Interval, holm

# Shares of pronouns that miss the gender which a noun states, and which a first name or title states.
AGREEMENT, NAME_AGREEMENT = "agreement", "agreement of names"


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
    return float(scipy.stats.t.sf((mean - bound) / stderr, clusters - 1))


def p_of_cost(cost: PairedItems, margin: float) -> float:
    """The p of "it costs the margin or more": of shares of answers the larger of two.

    A t-test takes its spread from the answers that changed, and of a few hundred too few do: a loss of just
    the margin passes it in 7 to 15 of 100 cases (170 to 410 answers, 2 points). The score test has the spread
    that such a loss would bring (Tango 1998); it takes answers of one cluster as several, so the t-test stays
    beside it.
    """
    p = p_at_most(cost.before - cost.after, -margin, cost)
    if not cost.answers:
        return p
    # Φ( (w − b − n δ) / √( n (2 q + δ (1 − δ)) ) ) of w answers that got worse and b that got better of n;
    # q is the likeliest share of the better ones where w/n − b/n is δ
    n, change = cost.answers, cost.after - cost.before
    worse, better = (n * cost.mean(np.maximum(sign * change, 0)) for sign in (1, -1))
    linear = (2 * n - worse + better) * margin - worse - better
    likeliest = math.sqrt(linear**2 + 8 * n * better * margin * (1 - margin)) - linear
    variance = likeliest / 2 + n * margin * (1 - margin)
    if variance <= 0:
        return 1.0
    return max(p, float(scipy.stats.norm.cdf((worse - better - n * margin) / math.sqrt(variance))))


def weighted_interval(values: FloatArray, items: PairedItems, level: float = 0.95) -> Interval | None:
    """The cluster-robust interval of the weighted mean; None where there is one cluster."""
    mean, stderr, clusters = _robust(values, items)
    if stderr is None:
        return None
    half = float(scipy.stats.t.ppf((1 + level) / 2, clusters - 1)) * stderr
    return mean - half, mean + half


def _robust(values: FloatArray, items: PairedItems) -> tuple[float, float | None, int]:
    """Mean, its cluster-robust standard error (CR1), and how many clusters there are, less one for every
    stratum beyond the first.

    Items of a stratum are compared with its own mean: what lifts one kind and lowers the other is no
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


def certificate(
    candidate: str, bias: PairedItems, sign: int, costs: Sequence[PairedItems], margins: Margins
) -> Certificate:
    """Test one candidate. sign: of the unmodified model's bias, found on other items than these.

    gain      = sign · (before − after) > δ
    overshoot = sign · after < −(share of sign · before): p of the mean of after + share · before ≤ 0
    """
    before, after = sign * bias.before, sign * bias.after
    gained = before - after
    certificate = Certificate(
        candidate=candidate,
        bias=bias.name,
        unit=bias.unit,
        before=bias.mean(bias.before),
        after=bias.mean(bias.after),
        gain=bias.mean(gained),
        interval=weighted_interval(gained, bias),
        p_gain=p_at_most(gained, margins.gain, bias),
        p_overshoot=p_at_most(after + margins.overshoot * before, 0.0, bias),
        p_costs={},
        costs={},
    )
    return with_costs(certificate, costs, margins)


def with_outside(
    certificate: Certificate, gap: PairedItems, costs: Sequence[PairedItems], margins: Margins
) -> Certificate:
    """The certificate with what the candidate shows outside: the paired test of a smaller mirror gap, and
    costs at the same margins."""
    gained = gap.before - gap.after
    outside = Outside(
        sentences=len(gained),
        before=gap.mean(gap.before),
        after=gap.mean(gap.after),
        gain=gap.mean(gained),
        interval=weighted_interval(gained, gap),
        p_gain=p_at_most(gained, 0.0, gap),
        p_costs={each.name: p_of_cost(each, margins.cost(each.name)) for each in costs},
        costs={each.name: each.change for each in costs},
        cost_intervals={each.name: weighted_interval(each.after - each.before, each) for each in costs},
    )
    return replace(certificate, outside=outside)


def with_costs(certificate: Certificate, costs: Sequence[PairedItems], margins: Margins) -> Certificate:
    intervals = {c.name: weighted_interval(c.after - c.before, c) for c in costs}
    return replace(
        certificate,
        p_costs={**certificate.p_costs, **{c.name: p_of_cost(c, margins.cost(c.name)) for c in costs}},
        costs={**certificate.costs, **{c.name: c.change for c in costs}},
        cost_intervals={**certificate.cost_intervals, **intervals},
    )


def in_sequence(tested: Sequence[Certificate]) -> list[Certificate]:
    """The same in their order, those before the first p above the level certified.

    The gains outside are tested for all candidates together (Holm), with an error of 5 % of their own.
    """
    outside = holm([np.nan if each.outside is None else each.outside.p_gain for each in tested])
    passed, going = [], True
    for each, p in zip(tested, outside.tolist(), strict=True):
        going = going and each.p <= LEVEL
        there = None if each.outside is None else replace(each.outside, p_gain=p)
        passed.append(replace(each, certified=going, outside=there))
    return passed


# ---- does the size of a bias grow, and does it stand out from null models? (docs/atlas.md)


@dataclass(frozen=True)
class Growth:
    """|after| − |before| of a weighted mean over items."""

    before: float
    after: float
    grown: float
    low: float | None
    high: float | None


def size_growth(items: PairedItems, cells: int) -> Growth:
    """The growth of a quantity's size; the interval holds for so many cells together (Bonferroni).

    The directions before and after are taken as known.
    """
    before, after = items.mean(items.before), items.mean(items.after)
    grown = np.copysign(1.0, after) * items.after - np.copysign(1.0, before) * items.before
    low, high = weighted_interval(grown, items, 1 - LEVEL / cells) or (None, None)
    return Growth(before, after, abs(after) - abs(before), low, high)


def size_p_value(size: float, nulls: Sequence[float]) -> float | None:
    """The p of a size |J| against those of K null models; None below 3.

        t = |J| / sqrt(mean of J² over null models),   Student's t with K degrees of freedom, two-sided

    What null models lean to is counted as spread.
    """
    if len(nulls) < 3:
        return None
    scale = math.sqrt(float(np.mean(np.square(nulls))))
    return float(2 * scipy.stats.t.sf(abs(size) / scale, len(nulls))) if scale > 0 else None
