"""The picture of a run of mitigations."""

from __future__ import annotations

import math

from levelhead.measures.certified import PERPLEXITY, is_learned
from levelhead.pages.charts.base import Chart, absolute_ends
from levelhead.pages.charts.frontier import Axes, Cross, FrontierPoint, frontier
from levelhead.results.records.mitigating import CandidateTested
from levelhead.results.runs import MitigateRun

_UNMODIFIED = "unmodified"


def picture(run: MitigateRun) -> Chart | None:
    """Bias left, cost up: every candidate with its intervals, the certified one ringed."""
    if not run.candidates:
        return None
    first = run.candidates[0].certificate
    points = [FrontierPoint(_UNMODIFIED, _UNMODIFIED, abs(first.before), 0.0, kept=True)]
    points += [_point(each, run) for each in run.candidates]
    axes = Axes(
        name="mitigate",
        title="What less bias costs",
        bias=f"{first.bias} that is left ({first.unit}, 0 is neutral)",
        use="largest cost (1: its margin)",
        less_bias="Left and down is better; above 1 a cost is beyond its margin.",
        points="mitigations",
        level="mitigation",
        bent=True,
    )
    return frontier(points, axes, Cross(abs(first.before), 0.0, None, None))


def _point(each: CandidateTested, run: MitigateRun) -> FrontierPoint:
    tested, cost = each.certificate, 0.0
    ends: tuple[float, float] | None = None
    if tested.costs:
        name = max(tested.costs, key=lambda name: tested.costs[name] / _margin(run, name))
        cost = tested.costs[name] / _margin(run, name)
        ends = _scaled(tested.cost_intervals.get(name), 1 / _margin(run, name))
    left = None
    if tested.interval is not None:
        low, high = (abs(tested.before) - gained for gained in reversed(tested.interval))
        left = absolute_ends((low, high))
    kept = not any(p > 0.05 for p in tested.p_costs.values())
    chosen = bool(run.certified) and each is run.certified[0]
    return FrontierPoint(each.name, each.method, abs(tested.after), cost, kept, chosen, left, ends)


def _scaled(ends: tuple[float, float] | None, by: float) -> tuple[float, float] | None:
    return None if ends is None else (ends[0] * by, ends[1] * by)


def _margin(run: MitigateRun, cost: str) -> float:
    """What a cost may grow by; where that is nothing, one percent or point is drawn as 1."""
    settings = run.settings
    if cost == PERPLEXITY:
        return math.log1p((settings.max_perplexity or 1.0) / 100)
    return ((settings.max_glue if is_learned(cost) else settings.max_loss) or 1.0) / 100
