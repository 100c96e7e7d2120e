"""What an audit found, in plain words that claim no more than the numbers show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from levelhead.edits.head import Head
from levelhead.measures.measurement import Measurement
from levelhead.pages.claims import (
    SILENT,
    Claim,
    floor_text,
    judged,
    p_text,
    sentence,
    tested_p,
    valued,
)
from levelhead.pages.counter import contrast_claim, contrast_parts
from levelhead.pages.doubts import doubt_text
from levelhead.pages.fill_in import is_knowledge, knowledge_claims, level_claim, silent_text, untested_text
from levelhead.pages.heads_in_words import row_words
from levelhead.pages.ways_out import projection_claims, unclaimed_projections
from levelhead.probes.pieces import ALL_WORDS
from levelhead.results.records.audit import Headline
from levelhead.results.records.common import BASE
from levelhead.results.records.heads import CHANGE_ON_OTHER_WORDS, HEAD_AGREEMENT, LARGEST_HELD
from levelhead.results.runs import AuditRun, HeadsRun

Measured = Mapping[str, Mapping[str, Measurement]]  # variant -> measure -> measurement

_NEXT_SENTENCES = {  # measure -> what is said where its null is beaten, and what it is called
    "preference": "Next sentences: the stereotype is preferred by {} logits (0 is none)",
    "ss_paired": "The stereotypical next sentence is the likelier one in a share of {} (0.5 is even)",
    "strength": "Strength of stereotype in the most biased tenth of triples: {}",
}
_ASSOCIATION, _REMOVAL, _LEVEL = "association", "removal", "log-odds"
_FIRST = (_ASSOCIATION, _REMOVAL)  # claims of the headline itself; the others are findings
_DESCRIBED = {  # measures without a null: values, and no claim
    "fairness": "Inferences about occupations: fairness {} (1 is fair: neutral for women and men alike).",
    "margin": "Fill-in prompts among the likeliest tokens alone: margin {} (0 is even; it has no null).",
}


def headline(run: AuditRun) -> Headline:
    """One or two sentences with their uncertainty, and the findings one by one: those that hold come first.

    Every sentence that claims something is a claim (claims.py); all claims are corrected together.
    """
    measured = run.by_variant()
    if run.doubts:
        return Headline(doubt_text(run), (*_described(measured[BASE]), *_not_measured(measured[BASE])))
    claims = headline_claims(run)
    first = [sentence(claim, holds) for name, claim, holds in claims if name in _FIRST]
    quiet = [name for name, _, holds in claims if is_knowledge(name) and not holds]  # said in one sentence
    others = [(claim, holds) for name, claim, holds in claims if name not in (*_FIRST, *quiet)]
    findings = [sentence(claim, holds) for claim, holds in sorted(others, key=lambda each: not each[1])]
    base = measured[BASE]
    findings += [
        *silent_text(quiet),
        *untested_text(run.prompts),
        *_described(base),
        *_head_findings(run.heads),
    ]
    findings += unclaimed_projections(run, measured)
    findings += _not_measured(base)
    if len(claims) > 1:
        findings.append(
            f"{len(claims)} claims were tested on this page and corrected for their number "
            "(Holm; three quarters of the error go to the first)."
        )
    opening = first if _opening(run, base) is not None else [_no_opening(run), *first]
    return Headline(" ".join(opening), tuple(findings))


def headline_claims(run: AuditRun) -> list[tuple[str, Claim, bool]]:
    """Every claim that the page makes or keeps silent about: its name, itself, and whether it holds."""
    measured = run.by_variant()
    base = measured[BASE]
    named: dict[str, Claim | None] = {
        _ASSOCIATION: _opening(run, base),
        _REMOVAL: _removal(run, measured),
        "agreement": _agreement(run.heads),
        "attention contrast": contrast_claim(run.heads),
        "clear head": _clear_head(run.heads),
        **dict(_base_claims(base)),
        **dict(_own_claims(run, base)),
        _LEVEL: level_claim(base),
        **knowledge_claims(run.prompts),
        **projection_claims(run, measured),
    }
    known = {name: claim for name, claim in named.items() if claim is not None}
    holds = [ok and not run.doubts for ok in judged(list(known.values()))]
    return [(name, claim, ok) for (name, claim), ok in zip(known.items(), holds, strict=True)]


def spoken_measures(run: AuditRun) -> frozenset[str]:
    """Measures of the untouched model of which the page claims a bias."""
    named = {_ASSOCIATION: "seat", _LEVEL: "log_odds"}
    return frozenset(named.get(name, name) for name, _, holds in headline_claims(run) if holds)


# ---- numbers in sentences


def _number(value: float | None, digits: int = 2) -> str:
    """A number without its uncertainty; None is never a number."""
    return "not measured" if value is None else f"{value:.{digits}f}"


def _listed(heads: Sequence[Head]) -> str:
    names = [str(head) for head in heads]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# ---- claims


def _opening(run: AuditRun, base: Mapping[str, Measurement]) -> Claim | None:
    """The association itself."""
    seat = base.get("seat")
    if seat is None or seat.value is None:
        return None
    null, bias = seat.null, run.bias
    if null is None:
        p = p_text(seat.details.get("p_value"))
        text = f"{run.model}: SEAT {valued(seat)} (0 is none, 2 the most; p {p} over the words alone). "
        return Claim(None, False, "", text + "No null twin was asked, so nothing is claimed.")
    value = f"SEAT {valued(seat)} (0 is none, 2 the most; {floor_text(null)}){_readable(run.heads)}"
    side = "stereotypes" if (seat.value or 0.0) > null.floor else "the reverse of stereotypes"
    return Claim(
        null.p_value,
        seat.beyond(null.floor),
        f"{run.model} associates {bias} with {side}: {value}.",
        f"{run.model}: no association of {bias} with stereotypes can be told from a model without meaning, "
        f"on this much data: {value}.",
        main=True,
    )


def _readable(heads: HeadsRun | None) -> str:
    """SEAT of the words for which models without meaning show none, where those are not all words."""
    row = None if heads is None else heads.sound_row
    if row is None or row.name == ALL_WORDS or row.measurement.value is None:
        return ""
    return f"; over {row_words(row)}, where those show about none, {valued(row.measurement)}"


def _no_opening(run: AuditRun) -> str:
    return f"{run.model}: the association of {run.bias} with stereotypes was not measured."


def _removal(run: AuditRun, measured: Measured) -> Claim | None:
    """What closing the worst heads does on words that they were not chosen on, and at what cost."""
    change = _cross_fitted(run.heads, CHANGE_ON_OTHER_WORDS)
    way = next((way for way in run.mitigations if way.heads), None)
    if way is None or change is None or change.value is None or change.null is None:
        return None
    cost = _cost(measured.get(way.variant, {}).get("fluency change"))
    heads = f"Removing the {len(way.heads)} highest-scoring heads (here {_listed(way.heads)})"
    by = f"{change.value:+.2f} ± {_number(change.details.get('sd'))} over splits; {floor_text(change.null)}"
    return Claim(
        change.null.p_value,
        change.value < change.null.floor,
        f"{heads} lowers |SEAT| on words that heads were not chosen on: {by}{cost}.",
        f"{heads} is not shown to lower |SEAT| on words that heads were not chosen on: {by}{cost}.",
    )


def _agreement(heads: HeadsRun | None) -> Claim | None:
    """Whether the same heads carry the association on other words."""
    rho = _cross_fitted(heads, HEAD_AGREEMENT)
    if rho is None or rho.value is None or rho.null is None:
        return None
    by = f"rank correlation {rho.value:.2f}; {floor_text(rho.null)}"
    return Claim(
        rho.null.p_value,
        rho.value > rho.null.floor,
        f"Heads found on half of the words hold on the other half: {by}.",
        f"Heads found on half of the words do not clearly hold on the other half: {by}.",
    )


def _clear_head(heads: HeadsRun | None) -> Claim | None:
    """Whether any head is clear: the largest score that holds on other words, against that of twins."""
    largest = _cross_fitted(heads, LARGEST_HELD)
    if heads is None or largest is None or largest.value is None or largest.null is None:
        return None
    by = f"the largest score that holds on other words is {largest.value:.3f}; {floor_text(largest.null)}"
    if not (clear := heads.clear_heads):
        return Claim(largest.null.p_value, False, "", f"No head stands out clearly: {by}.")
    many = f"{len(clear)} of {len(heads.scores)} heads stand out clearly ({_listed(clear)})"
    silent = f"{many} by themselves, but not once all claims of this page are counted: {by}."
    return Claim(largest.null.p_value, True, f"{many}: {by}.", silent)


def _cross_fitted(heads: HeadsRun | None, name: str) -> Measurement | None:
    return None if heads is None else next((each for each in heads.cross_fit if each.name == name), None)


def _base_claims(base: Mapping[str, Measurement]) -> Iterator[tuple[str, Claim]]:
    """Next sentences by sign flips and null twins, fill-in associations by permutation of their words."""
    for name, text in _NEXT_SENTENCES.items():
        each = base.get(name)
        if each is not None and each.value is not None and each.null is not None:
            value = text.format(valued(each))
            floor, beyond = floor_text(each.null), each.beyond(each.null.floor)
            spoken, silent = f"{value}: {floor}.", f"{value}: {SILENT} ({floor})."
            yield name, Claim(each.null.p_value, beyond, spoken, silent)
    for name, each in base.items():
        if name.split()[0] == "lpbs" and each.value is not None:
            p = each.details.get("p_value")
            value = f"Filling in {_filled_in(each)}, {name.removeprefix('lpbs').strip()}: {valued(each)}"
            side = "follows" if each.value > 0 else "runs against"
            spoken = f"{value} {side} the stereotype (0 is none; p {p_text(p)})."
            silent = f"{value}: {SILENT} (p {p_text(p)})."
            yield name, Claim(p, each.beyond(0.0), spoken, silent)


def _filled_in(lpbs: Measurement) -> str:
    """What a masked model chooses between: two words, or words of either group."""
    a, b = lpbs.settings.get("attributes", ((), ()))
    return f"{a[0]} or {b[0]}" if len(a) == len(b) == 1 else "a word of either group"


def _own_claims(run: AuditRun, base: Mapping[str, Measurement]) -> Iterator[tuple[str, Claim]]:
    """Measures of the user's own that have a p."""
    for info in run.measures:
        each = base.get(info.name)
        p = None if each is None else tested_p(each)
        if each is None or each.value is None or p is None or info.side != "bias":
            continue
        floor = each.null.floor if each.null is not None else each.neutral or 0.0
        says = info.above if each.value > floor else info.below
        value = f"{info.title}: {valued(each)}"
        spoken, silent = f"{value} {says} (p {p_text(p)}).", f"{value}: {SILENT} (p {p_text(p)})."
        yield info.name, Claim(p, each.beyond(floor), spoken, silent)


def _cost(change: Measurement | None) -> str:
    if change is None or change.value is None:
        return ""
    low, high = change.interval or (change.value, change.value)
    percent = f"{100 * (change.value - 1):+.1f} % [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]"
    return f", at a change of {percent} in perplexity"


# ---- findings


def _described(base: Mapping[str, Measurement]) -> list[str]:
    """Values that have no null: they are stated, and nothing is claimed of them."""
    texts = []
    for name, text in _DESCRIBED.items():
        each = base.get(name)
        if each is not None and each.value is not None:
            texts.append(text.format(valued(each)))
    return texts


def _not_measured(base: Mapping[str, Measurement]) -> list[str]:
    """What has no number, one sentence for all; measures with one reason are named together."""
    by_reason: dict[str, list[str]] = {}
    for each in base.values():
        if each.value is None:
            by_reason.setdefault(each.reason, []).append(each.name)
    parts = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
    return [f"Not measured: {'; '.join(parts)}."] if parts else []


def _head_findings(heads: HeadsRun | None) -> list[str]:
    if heads is None or not heads.scores:
        return []
    biased = [score for score in heads.scores if score.biased]
    findings = [f"{len(biased)} of {len(heads.scores)} heads have a score above 0 on these words."]
    if heads.agreement is not None and heads.agreement.value is not None:
        rho = valued(heads.agreement)
        findings.append(
            f"Scores against removing heads one by one: Spearman's rho {rho} (1: the same order)."
        )
    return findings + contrast_parts(heads)


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
