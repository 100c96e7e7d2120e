"""What an audit found, in plain words that claim no more than the numbers show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from levelhead.edits.head import Head
from levelhead.measures.measurement import Measurement
from levelhead.results.records.audit import Headline, NamedValue, ProjectionCandidate
from levelhead.results.records.common import BASE
from levelhead.results.records.heads import CounterTest
from levelhead.results.runs import AuditRun, HeadsRun

Measured = Mapping[str, Mapping[str, Measurement]]  # variant -> measure -> measurement

_SENTENCES = {  # measure -> its neutral value, and what is said about it
    "strength": (
        0.0,
        "Next sentences: gender bias Strength {} on the most biased tenth of triples (0 is none).",
    ),
    "ss": (0.5, "It prefers the stereotypical next sentence in a share of {} of the triples (0.5 is even)."),
    "fairness": (
        1.0,
        "Inferences about occupations: fairness {} (1 is fair: neutral for women and men alike).",
    ),
    "margin": (
        0.0,
        "Asked who works as what, it gives the stereotypical gender {} more probability (0 is even).",
    ),
}


def headline(run: AuditRun) -> Headline:
    """One or two sentences with their uncertainty, and the findings one by one."""
    measured = run.by_variant()
    base = measured[BASE]
    findings = [*_base_findings(base), *_head_findings(run.heads), *_mitigation_findings(run)]
    skipped = [f"{each.name} ({each.reason})" for each in base.values() if each.value is None]
    if skipped:
        findings.append(f"Not measured: {'; '.join(skipped)}.")
    text = " ".join([_opening(run.model, base), *_best_step(run, measured)])
    return Headline(text, tuple(findings))


# ---- numbers in sentences


def valued(measurement: Measurement, digits: int = 2) -> str:
    """`0.93 [0.85, 1.01]`, or why there is no number."""
    if measurement.value is None:
        return f"not measured ({measurement.reason})"
    if measurement.interval is None:
        return f"{measurement.value:.{digits}f}"
    low, high = measurement.interval
    return f"{measurement.value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def clear_of(measurement: Measurement, neutral: float) -> bool:
    """Whether the interval excludes the neutral value."""
    if measurement.value is None or measurement.interval is None:
        return False
    low, high = measurement.interval
    return not low <= neutral <= high


def _number(value: float | None, digits: int = 2) -> str:
    """A number without its uncertainty; None is never a number."""
    return "not measured" if value is None else f"{value:.{digits}f}"


def _p(value: float | None) -> str:
    if value is None:
        return "unknown"
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def _listed(heads: Sequence[Head]) -> str:
    names = [str(head) for head in heads]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# ---- the first sentences


def _opening(model: str, base: Mapping[str, Measurement]) -> str:
    seat = base.get("seat")
    if seat is None or seat.value is None:
        return f"{model}: the association of gender with stereotypes was not measured."
    p = seat.details.get("p_value")
    sure = "associates" if clear_of(seat, 0.0) else "shows no clear association of"
    sentence = f"{model} {sure} gender with stereotypes: SEAT {valued(seat)} (0 is none, 2 the most"
    return sentence + (f"; p {_p(p)})." if p is not None else ").")


def _best_step(run: AuditRun, measured: Measured) -> list[str]:
    """What the first way out, closing heads, did to SEAT, and at what cost."""
    base = measured[BASE].get("seat")
    for way in run.mitigations:
        after = measured.get(way.variant, {}).get("seat")
        if not way.heads or base is None or after is None or base.value is None or after.value is None:
            continue
        cost = measured[way.variant].get("fluency change")
        verb = "lowers" if abs(after.value) < abs(base.value) else "does not lower"
        return [f"Removing heads {_listed(way.heads)} {verb} it: {valued(after)}{_cost(cost)}."]
    return []


def _cost(change: Measurement | None) -> str:
    if change is None or change.value is None:
        return ""
    low, high = change.interval or (change.value, change.value)
    percent = f"{100 * (change.value - 1):+.1f} % [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]"
    return f", at a change of {percent} in perplexity"


# ---- findings


def _base_findings(base: Mapping[str, Measurement]) -> list[str]:
    findings = []
    for name, (neutral, sentence) in _SENTENCES.items():
        measurement = base.get(name)
        if measurement is not None and measurement.value is not None:
            clear = "" if clear_of(measurement, neutral) else " The interval includes the neutral value."
            findings.append(sentence.format(valued(measurement)) + clear)
    return findings


def _head_findings(heads: HeadsRun | None) -> list[str]:
    if heads is None or not heads.scores:
        return []
    biased = [score for score in heads.scores if score.biased]
    sure = [score for score in biased if score.q is not None and score.q < 0.05]
    findings = [
        f"{len(biased)} of {len(heads.scores)} heads add to the association, "
        f"{len(sure)} of them clearly (q < 0.05)."
    ]
    if heads.agreement is not None and heads.agreement.value is not None:
        rho = valued(heads.agreement)
        findings.append(
            f"Scores against removing heads one by one: Spearman's rho {rho} (1: the same order)."
        )
    tests = [test for test in heads.counter if test.group == "biased" and test.measurement.value is not None]
    return findings + [_counter_finding(test, heads) for test in tests]


def _counter_finding(test: CounterTest, heads: HeadsRun) -> str:
    p = test.measurement.details.get("p_value")
    holds = p is not None and p < 0.05
    verb = "look less at the gender word" if holds else "do not clearly look less at the gender word"
    sentence = f"When a stereotype is turned around, biased heads {verb}"
    return f"{sentence} (p {_p(p)}, N = {test.measurement.n}).{counter_sides(heads)}"


def counter_sides(heads: HeadsRun) -> str:
    """A warning where the two sides of the counter-stereotype experiment contradict each other, or
    nothing."""
    tests = [test.measurement for test in heads.counter_sides if test.group == "biased"]
    signs = [(low > 0) - (high < 0) for low, high in (m.interval for m in tests if m.interval is not None)]
    if len(signs) < 2 or signs[0] * signs[1] >= 0 or heads.words is None:
        return ""
    first, second = heads.words.labels[:2]
    t = [_number(m.details.get("t"), 1) for m in tests if m.interval is not None]
    more = first if signs[0] > 0 else second
    return (
        f" Mind the sides: with {first} originals t is {t[0]}, with {second} ones {t[1]}; "
        f"these heads look at {more} words more, whatever is said."
    )


def _mitigation_findings(run: AuditRun) -> list[str]:
    return [
        _candidate_finding(candidates, whose)
        for candidates, whose in ((run.candidates, ""), (run.nli_candidates, " of the classifier"))
        if candidates
    ]


def _candidate_finding(candidates: Sequence[ProjectionCandidate], whose: str) -> str:
    """The best viable projection against the untouched model, which is the first candidate."""
    before = candidates[0]
    tried = f"{len(candidates) - 1} projections{whose}"
    chosen = next((each for each in candidates if each.chosen), None)
    if chosen is None:
        return f"None of {tried} improves {before.bias.name} without losing too much ability."
    bias, ability = _step(before.bias, chosen.bias), _step(before.ability, chosen.ability)
    return f"Best viable of {tried} ({chosen.variant}): {bias}, {ability}."


def _step(before: NamedValue, after: NamedValue) -> str:
    return f"{after.name} {_number(before.value)} → {_number(after.value)}"


# ---- notebooks


def notebook_html(text: str, findings: Sequence[str], measurements: Measured) -> str:
    """An audit as a small table, for notebooks."""
    lines = "".join(
        f"<tr><th scope='row' style='text-align:left'>{escape(name)}</th>"
        f"<td>{escape(valued(measurement, 3))}</td><td>{measurement.n}</td></tr>"
        for name, measurement in measurements.get(BASE, {}).items()
    )
    points = "".join(f"<li>{escape(finding)}</li>" for finding in findings)
    head = "<tr><th>measure</th><th>value [95 % interval]</th><th>n</th></tr>"
    return f"<p><b>{escape(text)}</b></p><ul>{points}</ul><table>{head}{lines}</table>"
