"""Mitigations within a budget of time: how many items and null models are evaluated, and what is tried.

A plan is a function of three things: what one pass over all items takes on this machine (measured on a few
of them, `measured_pace`), what each mitigation costs in passes, and the budget. The cheapest mitigation has
its time first, with the test whether there is a bias at all; what is left goes to others in order of cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from levelhead.engine.effort import now
from levelhead.models.model import Model
from levelhead.progress import duration
from levelhead.results.records.mitigating import BudgetPlan
from levelhead.scoring.natural import COSINE, clearest_bias, natural_bias, natural_values
from levelhead.studies.mitigating.parts import Parts
from levelhead.studies.mitigating.settings import FEWEST_NULLS

THINNED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # one of so many items
_FEWER_NULLS = 5  # null models that Student's p still has some power with
_PLANNED = 0.75  # of the budget: others use the machine too, and a model is written at the end
_PROBED = 0.05  # of the budget, to find out what a pass takes
OTHER_CONTEXTS = 460  # words of the lists that ship for other biases, in a sentence each (spillover.py)
OTHERS = "biases that it was not fitted on"  # what is evaluated last, by the name that a plan has for it


@dataclass(frozen=True)
class Pace:
    """Seconds that the unmodified model takes on this machine for one pass over all items."""

    choose: float  # which bias part B shows most clearly; 0 where it is named
    detect: float  # that bias on all items
    order: float  # everything on part B
    test: float  # everything on part C
    others: float  # the word lists of other biases

    def base(self, nulls: int) -> float:
        """The bias in the model and in so many null models, and the unmodified model on part C."""
        return self.choose + (1 + nulls) * self.detect + self.test

    def method(self, cost: float, *, alone: bool) -> float:
        """Fitting and testing a mitigation. alone: the first one, which needs no order by part B."""
        return cost * (self.test if alone else self.test + self.order)

    def at(self, every: int) -> Pace:
        """The same for one of so many items; other biases have lists of their own."""
        thin = {name: getattr(self, name) / every for name in ("choose", "detect", "order", "test")}
        return replace(self, **thin)


def planned(pace: Pace, costs: Mapping[str, float], null: int, seconds: float) -> BudgetPlan:
    """What fits into a budget. costs: of every mitigation, in passes, the cheapest first; null: how many null
    models there would be without a budget."""
    allowed, names = _PLANNED * seconds, list(costs)
    cheapest = costs[names[0]] if names else 0.0
    every, nulls = _sizes(pace, cheapest, null, allowed)
    thin, passes = pace.at(every), 1 + cheapest
    tried = {name: thin.method(cheapest, alone=True) for name in names[:1]}
    left, skipped = allowed - thin.base(nulls) - sum(tried.values()), {}
    for name in names[1:]:
        ordered = passes * thin.order if len(tried) == 1 else 0.0  # the first one, which now needs an order
        takes = thin.method(costs[name], alone=False) + ordered
        if takes <= left:
            tried[name] = takes
            left -= takes
            passes += costs[name]
        else:
            skipped[name] = takes
    if (takes := passes * pace.others) > left:
        skipped[OTHERS] = takes
    else:
        left -= takes
    return BudgetPlan(
        every,
        nulls,
        tried,
        skipped,
        seconds=allowed - left,
        whole=whole_seconds(pace, costs, null),
        null_seconds=thin.detect,
        reserved=thin.test + thin.method(cheapest, alone=True),
    )


def whole_seconds(pace: Pace, costs: Mapping[str, float], null: int) -> float:
    """Seconds of a run without a budget."""
    methods = pace.method(sum(costs.values()), alone=len(costs) == 1)
    return pace.base(null) + pace.order * (len(costs) > 1) + methods + (1 + sum(costs.values())) * pace.others


def _sizes(pace: Pace, cheapest: float, null: int, seconds: float) -> tuple[int, int]:
    """One of how many items, and how many null models: as many of both as leave the cheapest mitigation its
    time; fewer null models than a claim needs only where the fewest items leave no other way."""
    few = min(null, _FEWER_NULLS)
    last = THINNED[-1]
    sizes = [(every, nulls) for every in THINNED for nulls in dict.fromkeys((null, few))]
    for every, nulls in [*sizes, (last, min(null, FEWEST_NULLS))]:
        thin = pace.at(every)
        if thin.base(nulls) + thin.method(cheapest, alone=True) <= seconds:
            return every, nulls
    return last, 0


def told(plan: BudgetPlan, budget: str, null: int) -> list[str]:
    """A plan in lines, before anything of it begins."""
    items = "all items" if plan.every == 1 else f"one of {plan.every} items"
    said = [
        f"Within {budget}: {items}, {plan.null} null models, {', '.join(plan.methods) or 'no mitigation'} "
        f"(about {duration(plan.seconds)}). All items, {null} null models and every mitigation would take "
        f"about {duration(plan.whole)}."
    ]
    if not plan.null:
        said.append(
            f"Whether there is a bias cannot be tested within {budget}: {FEWEST_NULLS} null models would take "
            f"about {duration(FEWEST_NULLS * plan.null_seconds)} more. Nothing will be certified."
        )
    if plan.skipped:
        what = ", ".join(f"{name} {duration(takes)}" for name, takes in plan.skipped.items())
        said.append(f"Does not fit, with the time that it would take: {what}.")
    return said


def measured_pace(model: Model, parts_of: Callable[[int], Parts], objective: str, seconds: float) -> Pace:
    """What a pass takes here, by a pass over a few items, and over twice as many as long as it is short.

    parts_of: of one of how many items, the parts. seconds: the budget, of which a twentieth may be spent.
    """
    began, every = now(), THINNED[-1]
    while True:
        lap = now()
        pace = _pace(model, parts_of(every), objective, every)
        last = now() - lap
        if every == 1 or now() - began + 2.5 * last > _PROBED * seconds:
            return pace
        every //= 2


def _pace(model: Model, split: Parts, objective: str, every: int) -> Pace:
    times = [now()]
    bias = objective or clearest_bias(model, split.order)
    times.append(now())
    natural_bias(model, split.whole, bias)
    times.append(now())
    natural_values(model, split.order, [()])
    times.append(now())
    natural_values(model, split.test, [()])
    times.append(now())
    natural_bias(model, split.order, COSINE)
    times.append(now())
    choose, detect, order, test, words = (b - a for a, b in zip(times, times[1:], strict=False))
    others = words * OTHER_CONTEXTS / max(1, len(split.order.battery.contexts))
    return Pace(0.0 if objective else every * choose, every * detect, every * order, every * test, others)


@dataclass
class Budget:
    """A plan under way, with the time by which it has to end."""

    plan: BudgetPlan | None = None  # None: everything is evaluated, however long it takes
    deadline: float = math.inf
    pace: float = 1.0  # times as long as planned the last mitigation took

    def nulls(self, wanted: int) -> int:
        """How many null models there are at most."""
        return wanted if self.plan is None else self.plan.null

    @property
    def stops_nulls(self) -> bool:
        """Whether another null model would take the time of the cheapest mitigation: a matter of the clock,
        not of what the others show, so that p stays valid."""
        plan = self.plan
        return plan is not None and now() + plan.null_seconds + plan.reserved > self.deadline

    def why_not(self, name: str, *, tried: bool) -> str:
        """Why a mitigation is not begun; "" where it is. tried: another one was; the first always is."""
        if self.plan is None:
            return ""
        if name in self.plan.skipped:
            return f"does not fit into the budget: it would take about {duration(self.plan.skipped[name])}"
        takes = self.pace * self.plan.methods.get(name, 0.0)
        if tried and now() + takes > self.deadline:
            return f"the budget was spent before its turn: it would take about {duration(takes)}"
        return ""

    def took(self, name: str, seconds: float) -> None:
        """What a mitigation really took: the others will be as much slower, or faster, than planned."""
        if self.plan is not None and (expected := self.plan.methods.get(name)):
            self.pace = seconds / expected

    def has_time_for(self, what: str) -> bool:
        """Whether what is evaluated last fits."""
        return self.plan is None or (what not in self.plan.skipped and now() < self.deadline)


NO_BUDGET = Budget()
