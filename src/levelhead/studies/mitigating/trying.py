"""Mitigations one after the other: fitted on part A, asked on parts B and C, until a budget is spent; and the
order in which part B puts their candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from levelhead.engine.effort import effort
from levelhead.errors import BadPlugin, CannotDo
from levelhead.measures.certified import Certificate, Margins, certificate, mean_interval
from levelhead.models.model import Model
from levelhead.progress import steps
from levelhead.results.records.mitigating import BiasMoved, MethodLeftOut, MethodTimed, OddsMoved
from levelhead.scoring.cloze import prompt_table
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.natural import LOG_ODDS, NaturalItems, NaturalValues, natural_values
from levelhead.studies.mitigating.budgeting import NO_BUDGET, Budget
from levelhead.studies.mitigating.parts import Parts
from levelhead.studies.mitigating.protocol import Candidate, Mitigation

_SHOWN = 4  # occupations of each group whose odds are shown


@dataclass(frozen=True)
class Aim:
    """What candidates are judged by; the sign of the bias is that of part B, never of part C."""

    bias: str
    sign: int
    margins: Margins


@dataclass(frozen=True)
class Asked:
    """Biases and costs of the unmodified model, first, and of every candidate on the same items."""

    items: NaturalItems
    values: NaturalValues

    @classmethod
    def of(cls, model: Model, items: NaturalItems) -> Asked:
        """The unmodified model alone."""
        return cls(items, natural_values(model, items, [()]))

    def and_of(self, model: Model, candidates: Sequence[Candidate]) -> Asked:
        """The same, and these candidates."""
        more = natural_values(model, self.items, [candidate.edits for candidate in candidates])
        return Asked(self.items, self.values.joined(more))

    def bias(self, name: str) -> ItemValues:
        """One of the biases."""
        return next(each for each in self.values.biases if each.name == name)

    def tested(self, candidates: Sequence[Candidate], aim: Aim) -> list[Certificate]:
        """Every candidate judged by the bias that it aims at, and by every cost."""
        return [
            certificate(
                candidate.name,
                self.bias(aim.bias).paired(number),
                aim.sign,
                [cost.paired(number) for cost in self.values.costs],
                aim.margins,
            )
            for number, candidate in enumerate(candidates, start=1)
        ]

    def moved(self, candidates: Sequence[Candidate]) -> list[BiasMoved]:
        """Every bias before and after, in natural units and as an effect size."""
        return [
            _moved(candidate.name, bias, number)
            for number, candidate in enumerate(candidates, start=1)
            for bias in self.values.biases
        ]

    def odds(self, candidates: Sequence[Candidate]) -> list[OddsMoved]:
        """Log-odds of the first occupations of either group, the mean over the prompts of each."""
        prompts = self.items.prompts
        if prompts is None or all(each.name != LOG_ODDS for each in self.values.biases):
            return []
        asked, table = self.bias(LOG_ODDS), prompt_table(prompts)
        groups = dict(zip(table.occupations.tolist(), table.own.tolist(), strict=True))
        shown = [[name for name, own in groups.items() if own == side][:_SHOWN] for side in (1, -1)]
        moved = []
        for number, candidate in enumerate(candidates, start=1):
            for group, names in zip(table.groups, shown, strict=True):
                for name in names:
                    own = asked.values[:, asked.clusters == name].mean(axis=1)
                    line = OddsMoved(candidate.name, name, group, float(own[0]), float(own[number]))
                    moved.append(line)
        return moved


def _moved(candidate: str, bias: ItemValues, number: int) -> BiasMoved:
    items = bias.paired(number)
    low, high = mean_interval(items.after - items.before, items) or (None, None)
    return BiasMoved(
        candidate,
        bias.name,
        bias.unit,
        before=items.mean(items.before),
        after=items.mean(items.after),
        change=items.change,
        low=low,
        high=high,
        effect_before=bias.effect(0),
        effect_after=bias.effect(number),
    )


@dataclass
class Tried:
    """All candidates, with what they do on part C and, where there is an order to find, on part B."""

    on_c: Asked
    on_b: Asked | None = None  # None: of one candidate there is no order
    candidates: list[Candidate] = field(default_factory=list)
    left_out: list[MethodLeftOut] = field(default_factory=list)
    times: list[MethodTimed] = field(default_factory=list)


def try_methods(
    model: Model, split: Parts, methods: Sequence[Mitigation], budget: Budget = NO_BUDGET
) -> Tried:
    """Try mitigations in their order, those that the budget has time for. A plug-in that fails is left out
    where another method was tried: what that one took long to fit is not lost."""
    failed: BadPlugin | None = None
    with steps("Mitigations", len(methods)) as advance:
        tried = Tried(Asked.of(model, split.test))
        for method in methods:
            left = budget.why_not(method.name, tried=bool(tried.candidates))
            try:
                if reason := method.why_not(model, split.fit) or left:
                    tried.left_out.append(MethodLeftOut(method.name, reason))
                else:
                    _try(model, split, method, tried)
            except BadPlugin as error:
                failed = failed or error
                tried.left_out.append(MethodLeftOut(method.name, str(error)))
            if tried.times and tried.times[-1].method == method.name:
                budget.took(method.name, tried.times[-1].seconds)
            advance(1)
    if failed is not None and not tried.candidates:
        raise failed
    return tried


def _try(model: Model, split: Parts, method: Mitigation, tried: Tried) -> None:
    """One mitigation; one that turns out not to be able to do it is left out with its reason."""
    on_b, on_c = tried.on_b, tried.on_c
    try:
        with steps(method.name[:1].upper() + method.name[1:], 1), effort(model) as took:
            made = method.candidates(model, split.fit)
            if made:
                on_b, on_c = _asked_on_b(model, split, tried, made), on_c.and_of(model, made)
    except CannotDo as error:
        tried.left_out.append(MethodLeftOut(method.name, str(error)))
        return
    tried.on_b, tried.on_c = on_b, on_c
    tried.candidates += made
    tried.times.append(MethodTimed(method.name, round(took.seconds, 1), took.memory))


def _asked_on_b(model: Model, split: Parts, tried: Tried, made: Sequence[Candidate]) -> Asked | None:
    """Part B with more candidates, from the second one on: the first waits for another."""
    if tried.on_b is not None:
        return tried.on_b.and_of(model, made)
    every = [*tried.candidates, *made]
    return Asked.of(model, split.order).and_of(model, every) if len(every) > 1 else None


def order_of(candidates: Sequence[Candidate], seen: Sequence[Certificate]) -> list[int]:
    """In which order candidates are tested, from what part B shows of each: methods by the most that one of
    their candidates takes, those of a method from mild to strong; last, in the same order, those that B shows
    to cost too much."""
    most: dict[str, float] = {}
    for each, own in zip(candidates, seen, strict=True):
        if not own.too_costly:
            most[each.method] = max(own.lessened, most.get(each.method, -math.inf))

    def place(number: int) -> tuple[bool, float, float]:
        each = candidates[number]
        return seen[number].too_costly, -most.get(each.method, -math.inf), each.strength

    return sorted(range(len(candidates)), key=place)
