"""What a run of mitigations says."""

from __future__ import annotations

import math
from collections.abc import Sequence

from levelhead.inference.contents import Contents
from levelhead.measures.certified import PERPLEXITY, Certificate
from levelhead.measures.measurement import Measurement
from levelhead.results.records.mitigating import BiasMoved, CandidateTested, OddsMoved
from levelhead.results.runs import MitigateRun

CERTIFIED = "certified"  # the name by which `levelhead check` asks for how many mitigations are
_SAID = 3  # odds in a sentence


def sentence(run: MitigateRun) -> str:
    """What came out, for somebody who must decide."""
    found = run.detected
    if found is None:
        return "Not finished: run the same command again; it goes on."
    if found.why_not:
        return f"No mitigation can be certified by the {found.bias}: {found.why_not}."
    if not found.detected:
        p = "too few of them to tell" if found.p is None else f"p {found.p:.2f}"
        return (
            f"No bias in {found.bias} stands out from {found.null_models} null models ({p}), so no "
            "mitigation is certified: there is nothing that it could be shown to lower."
        )
    if run.certified:
        chosen = run.certified[0]
        return (
            f"Certified on held-out items: {chosen.name} {bought(chosen, run.moved)}; at most 5 % of such "
            "runs certify what is not so."
        )
    missed = "; ".join(f"{each.name} {missed_text(each.certificate)}" for each in run.candidates)
    return f"No mitigation is certified: {missed or 'none could run'}."


def missed_text(tested: Certificate) -> str:
    """Why a candidate is not certified: what it misses, or that the sequence of tests ended before it."""
    if tested.missed:
        return f"misses {', '.join(tested.missed)}"
    return "would pass alone, but comes after one that fails, where the sequence of tests ends"


def findings(run: MitigateRun) -> list[str]:
    """What the chosen candidate moves, what becomes of odds, what else is raised, what was written."""
    said = [moved_text(run), odds_text(run), spillover_text(run), written_text(run)]
    return [text for text in said if text]


def best(run: MitigateRun) -> CandidateTested | None:
    """The certified candidate, else the one that was tested first."""
    return next(iter((*run.certified, *run.candidates)), None)


# ---- costs


def costs(each: CandidateTested) -> str:
    """What a candidate costs, in words."""
    grown = each.certificate.costs.items()
    parts = [f"{name} {cost_number(name, own)} {_cost_unit(name)}" for name, own in grown]
    known = ", ".join(parts) or "no cost could be measured"
    return known if each.passes == 1 else f"{known}, {each.passes} passes per answer"


def bought(each: CandidateTested, moved: Sequence[BiasMoved]) -> str:
    """What a candidate gains with what it loses, as one clause. moved: what becomes of every bias."""
    tested = each.certificate
    change = f"lowers {tested.bias} from {tested.before:+.3f} to {tested.after:+.3f} {tested.unit}"
    return f"{change}, {price(each, moved)} (measured: {costs(each)})"


def price(each: CandidateTested, moved: Sequence[BiasMoved]) -> str:
    """What a candidate is known to lose, for the sentence that says what it gains.

    A loss is any cost that grew, within its margin or not, more than one pass per answer, and an effect size
    that rises.
    """
    grown = each.certificate.costs.items()
    lost = [
        f"{name} {cost_number(name, own)} {_cost_unit(name)}"
        for name, own in grown
        if own > 0 and float(cost_number(name, own).replace("−", "-"))
    ]
    lost += [f"{each.passes} passes per answer"] if each.passes > 1 else []
    lost += [rises for bias in moved if bias.candidate == each.name and (rises := rise_text(bias))]
    if lost:
        return f"at the price of {', '.join(lost)}"
    kept = ", ".join(name for name, _ in grown)
    return f"with no measured loss in {kept}" if kept else "at a cost that was not measured"


def rise_text(moved: BiasMoved) -> str:
    """That an effect size rises although its numerator falls, and why; empty where it does not."""
    before, after = abs(moved.effect_before), abs(moved.effect_after)
    if round(after, 2) <= round(before, 2) or abs(moved.after) > abs(moved.before):
        return ""
    return (
        f"an effect size of {moved.bias} that rises ({before:.2f} → {after:.2f}: its spread shrinks more "
        f"than the bias, {arrow(moved.before, moved.after)} {moved.unit})"
    )


def cost_number(name: str, grown: float) -> str:
    """Percent of perplexity, points of any other ability: `+1.0`, `−0.6`."""
    return _signed(100 * math.expm1(grown) if name == PERPLEXITY else -100 * grown)


def cost_title(name: str) -> str:
    """`Perplexity, %`, `Language sense, points`."""
    return f"{name[0].upper()}{name[1:]}, {_cost_unit(name)}"


def _cost_unit(name: str) -> str:
    return "%" if name == PERPLEXITY else "points"


def _signed(value: float) -> str:
    """One decimal with its sign; what rounds to nothing has none."""
    text = f"{value:+.1f}".replace("-", "−")
    return text.lstrip("+−") if not float(f"{value:.1f}") else text


def reached(tested: Certificate) -> str:
    """A bias before and after, with its unit."""
    return f"{arrow(tested.before, tested.after)} {tested.unit}"


def arrow(before: float, after: float, digits: int = 3) -> str:
    """A number before and after a change."""
    return f"{before:+z.{digits}f} → {after:+z.{digits}f}".replace("-", "−")


# ---- sentences


def moved_text(run: MitigateRun) -> str:
    """Which biases the chosen candidate moves, in natural units and as effect sizes."""
    chosen = best(run)
    if chosen is None:
        return ""
    own = [each for each in run.moved if each.candidate == chosen.name]
    moves = [each for each in own if each.low is not None and each.high is not None]
    sure = [each for each in moves if not (each.low or 0.0) <= 0 <= (each.high or 0.0)]
    rest = [each for each in own if each not in sure]
    parts = [f"moves {_listed(sure)}"] if sure else []
    parts += [f"is not shown to move {_listed(rest)}"] if rest else []
    return f"{chosen.name} {'; it '.join(parts)}." if parts else ""


def _listed(moved: list[BiasMoved]) -> str:
    return ", ".join(
        f"{each.bias} ({arrow(each.before, each.after)} {each.unit}, effect size "
        f"{arrow(each.effect_before, each.effect_after, 2)})"
        for each in moved
    )


def odds_text(run: MitigateRun) -> str:
    """The odds of some occupations before and after the chosen candidate."""
    lines = chosen_odds(run)
    said = "; ".join(
        f"for {each.occupation} {odds(each.before)} before, {odds(each.after)} after"
        for each in sorted(lines, key=lambda line: -line.before)[:_SAID]
    )
    return f"Words of the stereotyped group : words of the other: {said}." if said else ""


def chosen_odds(run: MitigateRun) -> list[OddsMoved]:
    """The odds before and after the chosen candidate."""
    chosen = best(run)
    return [] if chosen is None else [each for each in run.odds if each.candidate == chosen.name]


def odds(nats: float) -> str:
    """Log-odds as odds: `3.1 : 1`, `1 : 1.2`."""
    ratio = math.exp(min(abs(nats), 50.0))
    shown = f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}"
    if shown == "1.0":
        return "1 : 1"
    return f"{shown} : 1" if nats >= 0 else f"1 : {shown}"


def spillover_text(run: MitigateRun) -> str:
    """Which other biases a candidate raises for sure; the chosen one is named first."""
    if not run.spillover:
        return ""
    chosen = best(run)
    raised = [each for each in run.spillover if each.raised]
    raised.sort(key=lambda each: chosen is None or each.candidate != chosen.name)
    how = f"all {run.spillover[0].cells} cells counted"
    if not raised:
        return f"No candidate is shown to raise a bias that it was not fitted on ({how})."
    first = raised[0]
    more = f", and {len(raised) - 1} more such cells" if len(raised) > 1 else ""
    return (
        f"{first.candidate} raises another bias, {first.bias}: {arrow(first.before, first.after)} "
        f"{first.unit} ({how}){more}."
    )


def written_text(run: MitigateRun) -> str:
    """Which candidate lies in the folder as a model, or why none does."""
    written = run.written
    if written is None or not run.certified:
        return ""
    if written.candidate:
        also = "" if written.candidate == run.certified[0].name else ", certified too,"
        chosen = next((each for each in run.candidates if each.name == written.candidate), None)
        timed = None if chosen is None else run.times.get(chosen.method)
        measured = {"answer": timed and timed.per_answer, "generated token": timed and timed.per_token}
        took = [f"{ratio:.1f} times per {what}" for what, ratio in measured.items() if ratio is not None]
        if not took and chosen is not None and chosen.passes > 1:
            took = ["not measured"]
        time = f" Time relative to the unmodified model: {', '.join(took)}." if took else ""
        return f"The folder model/ of the run holds {written.candidate}{also} as transformers loads it.{time}"
    return f"No folder was written: {written.reason.rstrip('.')}."


# ---- for `levelhead check`


def certified_measurement(contents: Contents) -> Measurement:
    """How many mitigations a run certifies."""
    run = contents.mitigations
    if run is None or run.detected is None:
        return Measurement.missing(CERTIFIED, "no mitigations were tried in this run")
    return Measurement(CERTIFIED, float(len(run.certified)), n=len(run.candidates))
