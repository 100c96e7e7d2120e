"""Mitigations one after the other, fitted on part A and evaluated on parts B and C until a budget is spent;
and the order in which part B puts their candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from levelhead.edits.sites import Variant
from levelhead.engine.effort import effort
from levelhead.engine.sampling import why_no_texts
from levelhead.errors import BadPlugin, CannotDo
from levelhead.measures.certified import (
    WRITTEN,
    Certificate,
    Margins,
    certificate,
    weighted_interval,
    with_outside,
)
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.probes.outside import OutsideText
from levelhead.progress import steps
from levelhead.scoring.cloze import prompt_table
from levelhead.scoring.items import ItemValues
from levelhead.scoring.natural import LOG_ODDS, NaturalItems, NaturalValues, natural_values
from levelhead.scoring.outside import outside_values
from levelhead.studies.mitigate.budgeting import NO_BUDGET, Budget
from levelhead.studies.mitigate.parts import Parts
from levelhead.studies.mitigate.protocol import Candidate, Mitigation
from levelhead.studies.mitigate.records import (
    BiasMoved,
    MethodLeftOut,
    MethodTimed,
    NotCompared,
    OddsMoved,
)

_SHOWN = 4  # occupations of each group whose odds are shown
_CONTEXTS = 1  # per word of a list that nothing was fitted on


@dataclass(frozen=True)
class Aim:
    """What candidates are judged by; the sign of the bias is that of part B, never of part C."""

    bias: str
    sign: int
    margins: Margins


@dataclass(frozen=True)
class PartValues:
    """Biases and costs of the unmodified model, first, and of every candidate on the same items."""

    items: NaturalItems
    values: NaturalValues
    text: OutsideText | None = None  # which is tested on too
    outside: Sequence[ItemValues] = ()  # the mirror gap of that text, and its costs

    @classmethod
    def of(cls, model: Model, items: NaturalItems, text: OutsideText | None = None) -> PartValues:
        """The unmodified model alone."""
        return cls(items, natural_values(model, items, [()]), text)._outside(model, [()])

    def and_of(self, model: Model, candidates: Sequence[Candidate]) -> PartValues:
        """The same, and these candidates."""
        variants = [candidate.edits for candidate in candidates]
        more = natural_values(model, self.items, variants)
        extended = replace(self, values=self.values.joined(more))._outside(model, variants)
        if (writing := self.items.writing) is not None and writing.objective:
            known = len(self.values.biases[0].values)
            for each in extended.not_compared(candidates, known):
                if each.bias == writing.objective:
                    raise CannotDo(each.reason)
        return extended

    def _outside(self, model: Model, variants: Sequence[Variant]) -> PartValues:
        """The same with what further variants do outside."""
        if self.text is None:
            return self
        more = outside_values(model, self.text, swap_for(self.items.battery.test), variants)
        known = (
            [own.joined(new) for own, new in zip(self.outside, more, strict=True)] if self.outside else more
        )
        return replace(self, outside=known)

    def bias(self, name: str) -> ItemValues:
        """One of the biases."""
        return next(each for each in self.values.biases if each.name == name)

    def tested(self, candidates: Sequence[Candidate], aim: Aim) -> list[Certificate]:
        """Every candidate judged by the bias that it aims at, by every cost, and by what it does outside."""
        tested = []
        for number, candidate in enumerate(candidates, start=1):
            bias, costs = self.bias(aim.bias).paired(number), self.values.costs
            own = certificate(candidate.name, bias, aim.sign, [c.paired(number) for c in costs], aim.margins)
            own = replace(own, unmeasured=self.values.unmeasured)
            if self.outside:
                gap, *further = (each.paired(number) for each in self.outside)
                own = with_outside(own, gap, further, aim.margins)
            tested.append(own)
        return tested

    def moved(self, candidates: Sequence[Candidate]) -> list[BiasMoved]:
        """Every bias before and after, in natural units and as an effect size."""
        moved = []
        for number, candidate in enumerate(candidates, start=1):
            for bias in self.values.biases:
                if not bias.comparable(number):
                    continue
                items = bias.paired(number)
                low, high = weighted_interval(items.after - items.before, items) or (None, None)
                line = BiasMoved(
                    candidate.name,
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
                moved.append(line)
        return moved

    def not_compared(self, candidates: Sequence[Candidate], first: int = 1) -> list[NotCompared]:
        """Which numbers of texts candidates do not have. first: the place of the first one's values."""
        biases = [each for each in self.values.biases if each.name in WRITTEN]
        few = "too few of its texts can be compared"
        return [
            NotCompared(each.name, bias.name, bias.unit, why_no_texts(each.edits) or few)
            for number, each in enumerate(candidates, start=first)
            for bias in biases
            if not bias.comparable(number)
        ]

    def odds(self, candidates: Sequence[Candidate]) -> list[OddsMoved]:
        """Log-odds of the first occupations of either group, the mean over the prompts of each."""
        prompts = self.items.prompts
        if prompts is None or all(each.name != LOG_ODDS for each in self.values.biases):
            return []
        log_odds, table = self.bias(LOG_ODDS), prompt_table(prompts)
        groups = dict(zip(table.occupations.tolist(), table.own.tolist(), strict=True))
        shown = [[name for name, own in groups.items() if own == side][:_SHOWN] for side in (1, -1)]
        moved = []
        for number, candidate in enumerate(candidates, start=1):
            for group, names in zip(table.groups, shown, strict=True):
                for name in names:
                    own = log_odds.values[:, log_odds.clusters == name].mean(axis=1)
                    line = OddsMoved(candidate.name, name, group, float(own[0]), float(own[number]))
                    moved.append(line)
        return moved


@dataclass
class Tried:
    """All candidates, with what they do on part C and, where there is an order to find, on part B."""

    on_c: PartValues
    on_b: PartValues | None = None  # None: of one candidate there is no order
    candidates: list[Candidate] = field(default_factory=list)
    left_out: list[MethodLeftOut] = field(default_factory=list)
    times: list[MethodTimed] = field(default_factory=list)
    sequences: int = 1  # of tests, that share one error


def try_methods(
    model: Model,
    split: Parts,
    methods: Sequence[Mitigation],
    budget: Budget = NO_BUDGET,
    sequences: int = 1,
    useless: str = "",
) -> Tried:
    """Try mitigations in their order, those that the budget has time for. A plug-in that fails is left out
    where another method was tried: what that one took long to fit is not lost.

    useless: why none of them is worth trying.
    """
    failed: BadPlugin | None = None
    with steps("Mitigations", len(methods)) as advance:
        tried = Tried(PartValues.of(model, split.test, split.outside), sequences=sequences)
        for method in methods:
            left = budget.why_not(method.name, tried=bool(tried.candidates))
            try:
                if reason := useless or method.why_not(model, split.fit) or left:
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
    """One mitigation; one that proves unable to do it is left out with its reason."""
    on_b, on_c = tried.on_b, tried.on_c
    try:
        with steps(method.name[:1].upper() + method.name[1:], 1), effort(model) as took:
            made = method.candidates(model, split.fit)
            every = [*tried.candidates, *made]
            if made:
                if on_b is not None:
                    on_b = on_b.and_of(model, made)
                elif len(every) > 1:  # the first one needs no order, and waits for another
                    on_b = PartValues.of(model, split.order).and_of(model, every)
                on_c = on_c.and_of(model, made)
    except CannotDo as error:
        tried.left_out.append(MethodLeftOut(method.name, str(error)))
        return
    tried.on_b, tried.on_c, tried.candidates = on_b, on_c, every
    tried.times.append(MethodTimed(method.name, round(took.seconds, 1), took.memory))


def order_of(candidates: Sequence[Candidate], seen: Sequence[Certificate]) -> list[int]:
    """In which order candidates are tested, from what part B shows of each: methods by the most that one of
    their candidates takes, those of a method from mild to strong; last, in the same order, those that B shows
    to cost too much."""
    most: dict[str, float] = {}
    for each, own in zip(candidates, seen, strict=True):
        if not own.too_costly:
            most[each.method] = max(own.lessened, most.get(each.method, -math.inf))
    places = [
        (own.too_costly, -most.get(each.method, -math.inf), each.strength)
        for each, own in zip(candidates, seen, strict=True)
    ]
    return sorted(range(len(candidates)), key=places.__getitem__)
