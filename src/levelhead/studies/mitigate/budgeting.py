"""Mitigations within a budget of time: how many items and null models are evaluated, and what is tried.

A plan is a function of three things: what one pass over all items takes on this machine (their tokens, at the
speed of a few sentences), what each mitigation costs in passes, and the budget. The cheapest mitigation has
its time first, with the test whether there is a bias at all; what is left goes to others in order of cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from levelhead.engine.effort import now
from levelhead.measures.certificate import WRITTEN
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.progress import duration, tokens_in
from levelhead.scoring.natural import (
    BLANKS,
    COSINE,
    INFERENCES,
    LOG_ODDS,
    PREFERENCE,
    NaturalItems,
    behaviors,
    judges,
    writes,
)
from levelhead.scoring.outside import MASKED_LETTERS, outside_tokens
from levelhead.studies.mitigate.parts import Parts, gender_items
from levelhead.studies.mitigate.records import BudgetPlan
from levelhead.studies.mitigate.settings import FEWEST_NULLS

THINNED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # one of so many items
_FEWER_NULLS = 5  # null models that Student's p still has some power with
_PLANNED = 0.75  # of the budget: others use the machine too, and a model is written at the end
_OTHERS = 4_600.0  # tokens of the lists that ship for other biases, each word in one sentence (trying.py)
_BLANK = 50.0  # tokens of a word of the tests whose words are filled in
_ITEM, _MASKED_ITEM = 60.0, 600.0  # of an item of a benchmark; a masked model takes a pass per token
_COSTS = "costs"
WRITING = "what candidates write"
_OF_METHOD = 3  # candidates of a mitigation, about; each writes as much as the unmodified model
OTHERS = "biases that it was not fitted on"  # what is evaluated last, by the name that a plan has for it


@dataclass(frozen=True)
class Pace:
    """Seconds that the unmodified model takes on this machine for one pass over all items."""

    choose: float  # which bias part B shows most clearly; 0 where it is named
    detect: float  # that bias on all items
    order: float  # everything on part B
    test: float  # everything on part C
    others: float  # the word lists of other biases
    writing: float = 0.0  # texts of one candidate, where they are only shown

    def unmodified(self, nulls: int) -> float:
        """The bias in the model and in so many null models, and the unmodified model on part C."""
        return self.choose + (1 + nulls) * self.detect + self.test

    def method(self, cost: float, *, alone: bool) -> float:
        """Fitting and testing a mitigation. alone: the first one, which needs no order by part B."""
        return cost * (self.test if alone else self.test + self.order)

    def at(self, every: int) -> Pace:
        """The same for one of so many items; other biases have lists of their own."""
        items = ("choose", "detect", "order", "test", "writing")
        thin = {name: getattr(self, name) / every for name in items}
        return replace(self, **thin)


def planned(pace: Pace, costs: Mapping[str, float], null: int, seconds: float) -> BudgetPlan:
    """What fits into a budget. costs: of every mitigation, in passes, the cheapest first; null: how many null
    models there would be without a budget."""
    allowed, names = _PLANNED * seconds, list(costs)
    cheapest = costs[names[0]] if names else 0.0
    # as many items and null models as leave the cheapest mitigation its time; fewer null models than a claim
    # needs only where the fewest items leave no other way
    counts = dict.fromkeys((null, min(null, _FEWER_NULLS)))
    sizes = [(every, nulls) for every in THINNED for nulls in counts]
    sizes.append((THINNED[-1], min(null, FEWEST_NULLS)))
    every, nulls = THINNED[-1], 0
    for fewer, some in sizes:
        thin = pace.at(fewer)
        if thin.unmodified(some) + thin.method(cheapest, alone=True) <= allowed:
            every, nulls = fewer, some
            break
    thin, passes = pace.at(every), 1 + cheapest
    tried = {name: thin.method(cheapest, alone=True) for name in names[:1]}
    left, skipped = allowed - thin.unmodified(nulls) - sum(tried.values()), {}
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
    if (takes := (1 + _OF_METHOD * len(tried)) * thin.writing) > left:
        skipped[WRITING] = takes
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
    return (
        pace.unmodified(null)
        + pace.order * (len(costs) > 1)
        + methods
        + (1 + sum(costs.values())) * pace.others
        + (1 + _OF_METHOD * len(costs)) * pace.writing
    )


def told(plan: BudgetPlan, budget: str, null: int) -> list[str]:
    """A plan in lines, before anything of it begins."""
    items = "all items" if plan.every == 1 else f"one of {plan.every} items"
    said = [
        f"Within {budget}: {items}, {plan.null} null models, {', '.join(plan.methods) or 'no mitigation'} "
        f"(about {duration(plan.seconds)}). All items, {null} null models and every mitigation would take "
        f"about {duration(plan.whole)}."
    ]
    if null and not plan.null:
        said.append(
            f"Whether there is a bias cannot be tested within {budget}: {FEWEST_NULLS} null models would "
            f"take about {duration(FEWEST_NULLS * plan.null_seconds)} more. Nothing will be certified."
        )
    if plan.skipped:
        what = ", ".join(f"{name} {duration(takes)}" for name, takes in plan.skipped.items())
        said.append(f"Does not fit, with the time that it would take: {what}.")
    return said


def pace_of(model: Model, split: Parts, objective: str, seconds: float) -> Pace:
    """What a pass over all items takes. seconds: of one token through all blocks (engine/effort.py)."""
    order, test, whole = (
        {name: seconds * size for name, size in tokens_of(model, items).items()}
        for items in (split.order, split.test, split.whole)
    )
    gender = 0.0
    if not about_gender(split.whole.battery.test):
        sizes = tokens_of(model, gender_items())
        gender = sum(size for name, size in sizes.items() if name in (PREFERENCE, LOG_ODDS, INFERENCES))
    outside = 0.0 if split.outside is None else seconds * outside_tokens(model, split.outside)
    writing = 0.0 if objective in WRITTEN else test.pop(WRITING, 0.0)  # else a part of what is tested
    named = WRITING if objective in WRITTEN else objective
    done = [named] if named in whole else behaviors(model, split.order)
    return Pace(
        choose=0.0 if objective else sum(order[name] for name in done),
        detect=max((whole[name] for name in done), default=whole[COSINE]),
        order=sum(order.values()),
        test=sum(test.values()) + outside,
        others=seconds * (_OTHERS + gender),
        writing=writing,
    )


def tokens_of(model: Model, items: NaturalItems) -> dict[str, float]:
    """Tokens that a model is given for each bias, and for its costs, about."""
    battery, able = items.battery, model.abilities
    masked = "mlm" in able
    sizes = {COSINE: tokens_in(context.text for context in battery.contexts)}
    costs = 0.0
    if judges(model):
        kinds = ("stereotype", "anti", "unrelated")
        triples = [pair.original for pair in battery.triples.pairs]
        sizes[PREFERENCE] = 2 * tokens_in(
            f"{t.context} {getattr(t, kind)}" for t in triples for kind in kinds
        )
        costs += tokens_in(
            f"{each.context} {other}" for each in items.sense for other in (each.related, each.unrelated)
        )
    if able & {"mlm", "causal"}:
        prompts = () if items.prompts is None else items.prompts.prompts
        sizes[LOG_ODDS] = tokens_in(f"{each.base} {each.ask}" for each in prompts)
        costs += tokens_in(item.text for item in items.agreement)
        costs += sum(
            (len(text) / MASKED_LETTERS if masked else 1.0) * tokens_in([text]) for text in battery.sentences
        )
    if masked:
        sizes[BLANKS] = _BLANK * sum(len(side) for test in items.blanks for side in test.groups().values())
    if "nli" in able:
        sizes[INFERENCES] = tokens_in(f"{pair.premise} {pair.hypothesis}" for pair in battery.probe.pairs)
        costs += tokens_in(f"{pair.premise} {pair.hypothesis}" for pair in battery.ability.pairs)
    if items.writing is not None and writes(model):
        sizes[WRITING] = items.writing.tokens
    if items.target is not None:
        sizes[items.target.name] = items.target.items * (_MASKED_ITEM if masked else _ITEM)
    return {**sizes, _COSTS: costs}


@dataclass
class Budget:
    """A plan under way, with the time by which it has to end."""

    plan: BudgetPlan | None = None  # None: everything is evaluated, however long it takes
    deadline: float = math.inf
    pace: float = 1.0  # times as long as planned the last mitigation took

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
            return f"the budget was spent before it: it would take about {duration(takes)}"
        return ""

    def took(self, name: str, seconds: float) -> None:
        """What a mitigation really took: the others will be as much slower, or faster, than planned."""
        if self.plan is not None and (expected := self.plan.methods.get(name)):
            self.pace = seconds / expected


NO_BUDGET = Budget()
