"""What is claimed of a mitigation: what it must gain, what it may cost, and what one candidate shows.

How the numbers of a certificate are found stands in certified.py; this module imports no numpy, so that what
declares and stores certificates is there at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Interval = tuple[float, float]
LEVEL = 0.05
PERPLEXITY = "perplexity"  # the cost that is the logarithm of one, in nats per token
LEARNED = "GLUE "  # and a task: the cost that is the share of wrong answers after fine-tuning on it
MIRROR, APPEARS = "mirror divergence", "who appears"
MIRROR_GAP = "mirror gap"  # how far apart a text outside and its counterfactual are
WRITTEN = (MIRROR, APPEARS)  # what is read off the texts that a model writes
INSIDE_ONLY: Literal["certified on our items only"] = "certified on our items only"
Verdict = Literal[
    "certified",
    "certified on our items only",
    "effective, exceeds cost margin",
    "over-corrected",
    "no significant effect",
    "not tested (an earlier candidate failed)",
]


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
class Outside:
    """What one candidate shows on text that nobody wrote for levelhead."""

    sentences: int  # that the mirror gap is the mean over
    before: float  # the mirror gap, in nats
    after: float
    gain: float
    interval: Interval | None  # of the gain
    p_gain: float  # for all candidates together, once they are tested (Holm)
    p_costs: Mapping[str, float]
    costs: Mapping[str, float]  # by name: how far each grew
    cost_intervals: Mapping[str, Interval | None]

    @property
    def share(self) -> float:
        """How much of the mirror gap is gone."""
        return self.gain / self.before if self.before else 0.0


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
    outside: Outside | None = None  # None: not measured outside
    unmeasured: Mapping[str, str] = field(default_factory=dict)  # costs that nothing is claimed of, and why

    def sharing(self, sequences: int) -> Certificate:
        """The same with its p corrected for so many sequences of tests with one error (Bonferroni)."""
        costs = {name: min(1.0, sequences * p) for name, p in self.p_costs.items()}
        gain, overshoot = (min(1.0, sequences * p) for p in (self.p_gain, self.p_overshoot))
        outside = self.outside
        if outside is not None:
            there = {name: min(1.0, sequences * p) for name, p in outside.p_costs.items()}
            outside = replace(outside, p_gain=min(1.0, sequences * outside.p_gain), p_costs=there)
        return replace(self, p_gain=gain, p_overshoot=overshoot, p_costs=costs, outside=outside)

    @property
    def p(self) -> float:
        """The largest p of all that is claimed of our items, and of every cost outside."""
        outside = () if self.outside is None else self.outside.p_costs.values()
        return max(self.p_gain, self.p_overshoot, *self.p_costs.values(), *outside)

    @property
    def holds_outside(self) -> bool:
        """Whether the gain outside is significant."""
        return self.outside is not None and self.outside.p_gain <= LEVEL

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
        """The candidate in a few words. Not tested: it would pass alone, but an earlier one failed."""
        if self.certified:
            return "certified" if self.holds_outside else INSIDE_ONLY
        if self.p <= LEVEL:
            return "not tested (an earlier candidate failed)"
        if self.p_gain > LEVEL:
            return "no significant effect"
        if self.p_overshoot > LEVEL and self.before * self.after < 0:
            return "over-corrected"
        there = [] if self.outside is None else self.outside.p_costs.values()
        costly = max([*self.p_costs.values(), *there], default=0.0) > LEVEL
        return "effective, exceeds cost margin" if costly else "no significant effect"

    @property
    def missed(self) -> tuple[str, ...]:
        """Which of the claims did not hold."""
        costs = [name for name, p in self.p_costs.items() if p > LEVEL]
        if self.outside is not None:
            costs += [f"{name} outside" for name, p in self.outside.p_costs.items() if p > LEVEL]
        gain = ["gain"] if self.p_gain > LEVEL else []
        return (*gain, *(["overshoot"] if self.p_overshoot > LEVEL else []), *costs)
