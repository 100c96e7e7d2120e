"""What a run of mitigations says: one sentence, one table, one picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

from levelhead.measures.certified import PERPLEXITY, Certificate
from levelhead.pages.charts.base import Chart
from levelhead.pages.charts.frontier import Axes, Cross, FrontierPoint, frontier
from levelhead.results.records.mitigating import CandidateTested
from levelhead.results.runs import MitigateRun

_UNMODIFIED = "unmodified"


def sentence(run: MitigateRun) -> str:
    """What came out, for somebody who must decide."""
    found = run.detected
    if found is None:
        return "Not finished: run the same command again; it goes on."
    if not found.detected:
        p = "too few of them to tell" if found.p is None else f"p {found.p:.2f}"
        return (
            f"No bias in {found.bias} stands out from {found.null_models} null models ({p}), so no "
            "mitigation is certified: there is nothing that it could be shown to lower."
        )
    if run.certified:
        best = run.certified[0].certificate
        return (
            f"Certified on held-out items: {best.candidate} lowers {best.bias} from {best.before:+.3f} to "
            f"{best.after:+.3f} {best.unit} ({costs(best)}); at most 5 % of such runs certify what is not so."
        )
    missed = "; ".join(f"{each.name} misses {', '.join(each.certificate.missed)}" for each in run.candidates)
    return f"No mitigation is certified: {missed or 'none could run'}."


def costs(tested: Certificate) -> str:
    """What a candidate cost, in words."""
    parts = []
    for name, grown in tested.costs.items():
        if name == PERPLEXITY:
            parts.append(f"perplexity {_signed(100 * math.expm1(grown))} %")
        else:
            parts.append(f"{name} {_signed(-100 * grown)} points")
    return ", ".join(parts) or "no cost could be measured"


def _signed(value: float) -> str:
    """One decimal with its sign; what rounds to nothing has none."""
    text = f"{value:+.1f}".replace("-", "−")
    return text.lstrip("+−") if not float(f"{value:.1f}") else text


def reached(tested: Certificate) -> str:
    """A bias before and after, with its unit."""
    return f"{tested.before:+.3f} → {tested.after:+.3f} {tested.unit}".replace("-", "−")


def picture(run: MitigateRun) -> Chart | None:
    """Bias left, cost up: every candidate, the certified one ringed."""
    if not run.candidates:
        return None
    first = run.candidates[0].certificate
    points = [FrontierPoint(_UNMODIFIED, _UNMODIFIED, abs(first.before), 0.0, kept=True)]
    points += [_point(each, run.certified) for each in run.candidates]
    unit = f"{first.bias} ({first.unit}, 0 is neutral)"
    axes = Axes("mitigate", "What less bias costs", unit, "largest cost", "Left and down is better.")
    return frontier(points, axes, Cross(abs(first.before), 0.0, None, None))


def _point(each: CandidateTested, certified: Sequence[CandidateTested]) -> FrontierPoint:
    tested = each.certificate
    dearest = max(tested.costs.values(), default=0.0)
    kept = not any(p > 0.05 for p in tested.p_costs.values())
    chosen = bool(certified) and each is certified[0]
    return FrontierPoint(each.name, each.method, abs(tested.after), dearest, kept, chosen)
