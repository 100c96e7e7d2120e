"""What a run of mitigations says."""

from __future__ import annotations

import math
from collections.abc import Sequence

from levelhead.measures.certified import APPEARS, LEVEL, MIRROR, MIRROR_GAP, PERPLEXITY, WRITTEN, Certificate
from levelhead.studies.mitigate import Mitigate
from levelhead.studies.mitigate.records import BiasDetected, BiasMoved, CandidateTested, OddsMoved

CERTIFIED = "certified"  # the name by which `levelhead check` asks for how many mitigations are
_SAID = 3  # odds in a sentence
_NOTHING = 5e-4  # what a sentence calls 0
_TWO_DIGITS = 9.95  # from which on a number has two digits before its point


def sentence(run: Mitigate) -> str:
    """What came out, for somebody who must decide."""
    found = run.detected
    if found is None:
        return "Not finished: run the same command again; it goes on."
    if found.why_not:
        missed = "" if found.p is None or found.p <= LEVEL else f" {not_detected(found)}"
        return f"No mitigation can be certified by the {found.bias}: {found.why_not}.{missed}"
    if not found.detected and found.bias in WRITTEN:
        p = f"p {1.0 if found.p is None else found.p:.2f}"
        seen = {
            MIRROR: f"The mirror divergence, {found.value:+.3f} {found.unit}, is not clearly above 0 ({p})",
            APPEARS: f"Who appears in texts about occupations does not clearly follow stereotypes ({p})",
        }
        return f"{seen[found.bias]}, so no mitigation is certified: there is nothing to lower."
    if not found.detected:
        return (
            f"{not_detected(found)} No mitigation is certified: there is nothing that it could be shown to "
            "lower."
        )
    if run.certified:
        chosen = run.certified[0]
        where = "on held-out items of its own only"
        if chosen.certificate.holds_outside:
            where = "on held-out items of its own and on text from elsewhere"
        return (
            f"levelhead certifies, {where}: {chosen.name} {bought(chosen, run.moved)}. "
            "At most 5 % of such runs certify what is not so."
        )
    missed = "; ".join(f"{each.name} {missed_text(each.certificate)}" for each in run.candidates)
    return f"No mitigation is certified: {missed or 'none could run'}."


def not_detected(found: BiasDetected) -> str:
    """`Not detected: the cosine gap, 0.012 cosine (p = 0.39, 9 null models); a bias of at least 0.031 cosine
    would have been detected.`"""
    said = f"Not detected: the {found.bias}, {_in_words(found.value)} {found.unit}"
    models = f"{found.null_models} null models"
    if found.p is None:
        return f"{said} ({models}: too few to tell)."
    seen = "with so few of them, no bias would have been detected"
    if found.detectable is not None:
        seen = f"a bias of at least {_in_words(found.detectable)} {found.unit} would have been detected"
    return f"{said} (p = {found.p:.2f}, {models}); {seen}."


def missed_text(tested: Certificate) -> str:
    """Why a candidate is not certified: what it misses, or that the sequence of tests ended before it."""
    if tested.missed:
        return f"misses {', '.join(tested.missed)}"
    return "would pass alone, but comes after one that fails, where the sequence of tests ends"


def verdict(run: Mitigate, each: CandidateTested) -> str:
    """A candidate in a few words, the same wherever it is shown."""
    passes, found = each.certificate.p <= LEVEL, run.detected
    if passes and found is not None and not found.detected and found.bias == MIRROR:
        return "not tested (nothing to lower)"
    if passes and found is not None and not found.detected:
        return "not tested (no significant bias)"
    return each.certificate.verdict


def findings(run: Mitigate) -> list[str]:
    """What the chosen candidate moves, what becomes of odds, what else is raised, what was written."""
    chosen, said, found = best(run), list[str](), run.detected
    if found is not None and found.bias == MIRROR and found.detected:  # a size that no null says anything of
        said.append(
            f"The mirror divergence of the unmodified model is {found.value:.2f} {found.unit}. Every model "
            "that is not exactly symmetric has one: it is a size to compare models by, and no claim of bias."
        )
    if chosen is not None:

        def listed(moved: list[BiasMoved]) -> str:
            return ", ".join(
                f"{each.bias} ({arrow(each.before, each.after)} {each.unit}{effect_text(each, ', ')})"
                for each in moved
            )

        own = [each for each in run.moved if each.candidate == chosen.name]
        moves = [each for each in own if each.low is not None and each.high is not None]
        sure = [each for each in moves if not (each.low or 0.0) <= 0 <= (each.high or 0.0)]
        rest = [each for each in own if each not in sure]
        parts = [f"moves {listed(sure)}"] if sure else []
        parts += [f"is not shown to move {listed(rest)}"] if rest else []
        said += [f"{chosen.name} {'; it '.join(parts)}."] if parts else []
        odds_said = "; ".join(
            f"for {each.occupation} {odds(each.before)} before, {odds(each.after)} after"
            for each in sorted(chosen_odds(run), key=lambda line: -line.before)[:_SAID]
        )
        said += [f"Words of the stereotyped group : words of the other: {odds_said}."] if odds_said else []
    if run.spillover:  # which other biases are raised for sure; the chosen candidate is named first
        raised = [each for each in run.spillover if each.raised]
        raised.sort(key=lambda each: chosen is None or each.candidate != chosen.name)
        how = f"all {run.spillover[0].cells} cells counted"
        spills = f"No candidate is shown to raise a bias that it was not fitted on ({how})."
        if raised:
            first = raised[0]
            more = f", and {len(raised) - 1} more such cells" if len(raised) > 1 else ""
            spills = (
                f"{first.candidate} raises another bias, {first.bias}: {arrow(first.before, first.after)} "
                f"{first.unit} ({how}){more}."
            )
        said.append(spills)
    written = written_text(run)
    return [*said, written] if written else said


def effect_text(each: BiasMoved, before: str = "") -> str:
    """A bias as an effect size before and after; empty for what is read off texts, whose spread over prompts
    is that of a few samples."""
    if each.bias in WRITTEN:
        return ""
    return f"{before}effect size {arrow(each.effect_before, each.effect_after, 2)}"


def best(run: Mitigate) -> CandidateTested | None:
    """The certified candidate, else the one that was tested first."""
    return next(iter((*run.certified, *run.candidates)), None)


# ---- costs


def bought(each: CandidateTested, moved: Sequence[BiasMoved]) -> str:
    """What a candidate gains with what it loses, as one clause. moved: what becomes of every bias."""
    own = each.certificate
    return "; ".join([lowered(own), gained_outside(own), costs(each), *effects(each, moved)])


def lowered(tested: Certificate) -> str:
    """`lowers the fill-in gap from 0.58 to 0 nats`."""
    before, after = (_in_words(value) for value in (tested.before, tested.after))
    return f"lowers the {tested.bias} from {before} to {after} {tested.unit}"


def gained_outside(tested: Certificate) -> str:
    """`outside, the mirror gap falls from 2.1 to 1.8 nats (−14 %)`."""
    outside = tested.outside
    if outside is None:
        return "not measured outside"
    before, after = _in_words(outside.before), _in_words(outside.after)
    if outside.p_gain > LEVEL:
        return f"outside, the {MIRROR_GAP} is not shown to fall ({before} → {after} nats)"
    return f"outside, the {MIRROR_GAP} falls from {before} to {after} nats (−{100 * outside.share:.0f} %)"


def _every_cost(certificate: Certificate) -> list[tuple[str, str, float]]:
    """Costs with what a sentence says behind their name, those outside last."""
    outside = {} if certificate.outside is None else certificate.outside.costs
    inside = [("", *cost) for cost in certificate.costs.items()]
    return [*inside, *((" outside", *cost) for cost in outside.items())]


def losses(each: CandidateTested) -> str:
    """Every cost that grew, within its margin or not, and more than one pass per answer."""
    certificate = each.certificate
    lost = [
        f"{name}{where} rises by {_change(name, own)[1:]} %"
        if name == PERPLEXITY
        else f"{_change(name, own)[1:]} points of {name}{where} are lost"
        for where, name, own in _every_cost(certificate)
        if own > 0 and _change(name, own)
    ]
    if not certificate.costs:
        lost.append("what it costs was not measured")
    elif not lost:
        lost.append("no measured ability falls")
    return ", ".join([*lost, f"each answer takes {each.passes} passes"] if each.passes > 1 else lost)


def kept(each: CandidateTested) -> str:
    """What is measured as a cost and does not get worse, with how much better it gets."""
    same = [
        f"{name}{where} {change} {cost_unit(name)}"
        if (change := _change(name, own))
        else f"{name}{where} unchanged"
        for where, name, own in _every_cost(each.certificate)
        if own <= 0 or not _change(name, own)
    ]
    return f"not worse: {', '.join(same)}" if same else ""


def costs(each: CandidateTested) -> str:
    """What a candidate costs, what it does not, and what is not known of it, in words."""
    unknown = [f"{name} not measured ({why})" for name, why in each.certificate.unmeasured.items()]
    return "; ".join(filter(None, (losses(each), kept(each), *unknown)))


def effects(each: CandidateTested, moved: Sequence[BiasMoved]) -> list[str]:
    """Effect sizes that rise although their numerator falls, because their spread shrinks more."""
    said = []
    for bias in (bias for bias in moved if bias.candidate == each.name and bias.bias not in WRITTEN):
        before, after = abs(bias.effect_before), abs(bias.effect_after)
        if round(after, 2) > round(before, 2) and abs(bias.after) <= abs(bias.before):
            first, last, old, new = map(_in_words, (before, after, bias.before, bias.after))
            said.append(
                f"the effect size of the {bias.bias} rises from {first} to {last}, because its spread "
                f"shrinks more than the bias itself ({old} → {new} {bias.unit})"
            )
    return said


def _in_words(value: float) -> str:
    """A number of a sentence: two significant digits, and 0 where it rounds to nothing."""
    text = f"{value:#.2g}".rstrip(".") if abs(value) >= _NOTHING else "0"
    return text.replace("-", "−")


def _change(name: str, grown: float) -> str:
    """`+0.1`, `−28`: a change of perplexity or of an ability with two digits; "" where it rounds to none."""
    value = 100 * math.expm1(grown) if name == PERPLEXITY else -100 * grown
    text = f"{value:+.0f}" if abs(value) >= _TWO_DIGITS else f"{value:+.1f}"
    return text.replace("-", "−") if float(text) else ""


def cost_number(name: str, grown: float) -> str:
    """Percent of perplexity, points of any other ability: `+1.0`, `−0.6`, and 0.0 without a sign."""
    value = 100 * math.expm1(grown) if name == PERPLEXITY else -100 * grown
    text = f"{value:+.1f}".replace("-", "−")
    return text.lstrip("+−") if not float(f"{value:.1f}") else text


def cost_unit(name: str) -> str:
    return "%" if name == PERPLEXITY else "points"


def reached(tested: Certificate) -> str:
    """A bias before and after, with its unit."""
    return f"{arrow(tested.before, tested.after)} {tested.unit}"


def arrow(before: float, after: float, digits: int = 3) -> str:
    return f"{before:+z.{digits}f} → {after:+z.{digits}f}".replace("-", "−")


# ---- sentences


def chosen_odds(run: Mitigate) -> list[OddsMoved]:
    chosen = best(run)
    return [] if chosen is None else [each for each in run.odds if each.candidate == chosen.name]


def odds(nats: float) -> str:
    """Log-odds as odds: `3.1 : 1`, `1 : 1.2`."""
    ratio = math.exp(min(abs(nats), 50.0))
    shown = f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}"
    if shown == "1.0":
        return "1 : 1"
    return f"{shown} : 1" if nats >= 0 else f"1 : {shown}"


def written_text(run: Mitigate) -> str:
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
