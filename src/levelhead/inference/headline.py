"""What an audit found, in plain words that claim no more than the numbers show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from levelhead.inference import head_claims
from levelhead.inference.claims import (
    MAIN_SHARE,
    SILENT,
    Claim,
    Doubt,
    doubted,
    exchange_text,
    floor_text,
    judged,
    p_text,
    valued,
)
from levelhead.inference.contents import doubt_text
from levelhead.inference.fill_in import KNOWLEDGE, knowledge_claim, level_claim, tested, unclaimed_knowledge
from levelhead.inference.generation_claims import generation_claims
from levelhead.measures.catalog import ALPHA, CATALOG, NOT_COMPARED, is_about
from levelhead.measures.exchange import Exchange, held_fixed
from levelhead.measures.measurement import Measurement
from levelhead.runs.common import BASE
from levelhead.studies.audit import Audit
from levelhead.studies.audit.records import Headline
from levelhead.studies.heads import WORD_LIST

_NEXT_SENTENCES = {  # measure -> what is said where its null is beaten, and what it is called
    "preference": "Next sentences: the stereotype is preferred by {} logits (0 is none)",
    "ss_paired": "The stereotypical next sentence is the likelier one in a share of {} (0.5 is even)",
    "strength": "Strength of stereotype in the most biased tenth of triples: {}",
}
_NAMED = 16  # group words that a claim about nothing else can name
_NOBODY = "Not compared with null models, so nothing is claimed of"
ASSOCIATION, LOG_ODDS = "association", "log-odds"  # names of claims
_CONTRAST = "attention contrast"
_DESCRIBED = {  # measures without a null: values, and no claim
    "fairness": "Inferences about occupations: fairness {} (1 is fair: neutral for women and men alike).",
    "margin": "Fill-in prompts among the likeliest tokens alone: margin {} (0 is even; it has no null).",
}


def headline(run: Audit) -> Headline:
    """The association with its uncertainty, and the findings one by one: those that hold come first.

    Every sentence that claims something is a claim (claims.py); all claims are corrected together.
    """
    base = run.measurements[BASE]
    values = {name: base[name] for name in _DESCRIBED if name in base}
    described = [
        _DESCRIBED[name].format(valued(each)) for name, each in values.items() if each.value is not None
    ]
    by_reason: dict[str, list[str]] = {}  # measures without a number that have one reason are named together
    for each in base.values():
        if each.value is None:
            by_reason.setdefault(each.reason, []).append(each.name)
    missing = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
    not_measured = [f"Not measured: {'; '.join(missing)}."] if missing else []
    if run.doubts:
        return Headline(doubt_text(run), (*described, *not_measured))
    claims = headline_claims(run)
    first = [claim.said(holds) for name, claim, holds in claims if name == ASSOCIATION]
    quiet = {name: claim for name, claim, holds in claims if name.startswith(KNOWLEDGE) and not holds}
    others = [each for each in claims if each[0] not in (ASSOCIATION, *quiet)]
    with_nulls = asks_null_models(run)
    untested = [
        name for name, claim, _ in others if claim.p is None and not (with_nulls and claim.doubt is None)
    ]
    said = sorted((each for each in others if each[0] not in untested), key=lambda each: not each[2])
    findings = [
        *(claim.said(holds) for _, claim, holds in said),
        *([f"{_NOBODY} {', '.join(untested)}."] if untested else []),
        *unclaimed_knowledge(quiet, run.counteracts),
        *described,
        *head_claims.head_findings(run.heads),
        *not_measured,
    ]
    if with_nulls and len(claims) > 1:
        findings.append(
            f"{len(claims)} claims were tested on this page and corrected for their number "
            "(Holm; three quarters of the error go to the first)."
        )
    if _association_claim(run, base) is None:
        first.insert(0, f"{run.model}: the association of {run.bias} with stereotypes was not measured.")
    return Headline(" ".join(first), tuple(findings))


def headline_claims(run: Audit) -> list[tuple[str, Claim, bool]]:
    """Every claim that the page makes or keeps silent about: its name, itself, and whether it holds."""
    base = run.measurements[BASE]
    cells = () if run.counteracts is None else run.counteracts.knowledge()
    named: dict[str, Claim | None] = {
        ASSOCIATION: _association_claim(run, base),
        "agreement": head_claims.agreement_claim(run.heads),
        _CONTRAST: head_claims.contrast_claim(run.heads),
        "clear head": head_claims.clear_head_claim(run.heads),
        **dict(_measured_claims(run, base)),
        LOG_ODDS: level_claim(base),
        **{f"{KNOWLEDGE}{cell.kind}": knowledge_claim(cell) for cell in cells if tested(cell)},
    }
    if run.generate is not None:  # claims of its chapter, which is corrected together with the rest
        named |= {each.name: claim for each, claim, _ in generation_claims(run.generate)}
    known = {name: claim for name, claim in named.items() if claim is not None}
    # The contrast holds the list's group words fixed. The claim holds only if exchanged group words do
    # not show as much, so the larger p counts.
    if _CONTRAST in known:
        contrast, exchanged = known[_CONTRAST], Exchange.of(base.get("seat"))
        if exchanged is not None and contrast.p is not None and exchanged.p_value > contrast.p:
            silent = f"{contrast.silent.rstrip('.')}; the association itself: {exchange_text(exchanged)}."
            known[_CONTRAST] = replace(contrast, p=exchanged.p_value, silent=silent)
    claims = doubted(list(known.values()))
    if not asks_null_models(run):
        claims = [replace(claim, p=None) for claim in claims]
    holds = [ok and not run.doubts for ok in judged(claims)]
    return list(zip(known, claims, holds, strict=True))


def asks_null_models(run: Audit) -> bool:
    """Whether the model was held against null models in any way; without them a page claims
    nothing, since fewer claims and easier nulls would claim more."""
    known = [*run.measurements[BASE].values(), *(() if run.heads is None else run.heads.cross_fit)]
    return any(each.held_against_models for each in known)


def spoken_measures(run: Audit) -> frozenset[str]:
    """Measures of the unmodified model of which the page claims a bias."""
    named = {ASSOCIATION: "seat", LOG_ODDS: "log_odds"}
    return frozenset(named.get(name, name) for name, _, holds in headline_claims(run) if holds)


# ---- claims


def _association_claim(run: Audit, base: Mapping[str, Measurement]) -> Claim | None:
    seat = base.get("seat")
    if seat is None or seat.value is None:
        return None
    null, bias = seat.null, run.bias
    if null is None:
        p = p_text(seat.details.get("p_value"))
        text = f"{run.model}: SEAT {valued(seat)} (0 is none, 2 the most; p {p} over the words alone). "
        compared = NOT_COMPARED if run.settings.all_sizes.null == 0 else "not compared with null models"
        return Claim(None, False, "", f"{text}{compared[0].upper()}{compared[1:]}: nothing is claimed.")
    whom, fixed = bias, ""
    # Of a list with too few pairs for a claim about its groups, but few words too, the claim is about these
    # words, and its null holds them fixed.
    exchanged = Exchange.of(seat)
    words = None if run.heads is None else WORD_LIST.read(run.heads.folder)
    if exchanged is not None and words is not None and exchanged.least >= MAIN_SHARE * ALPHA:
        sides = [list(dict.fromkeys(side)) for side in (words.A, words.B)]
        of_words = held_fixed(seat)
        if of_words is not None and sum(map(len, sides)) <= _NAMED:
            a, b = (", ".join(side) for side in sides)
            null, whom = of_words, f"the words {a} rather than {b}"
            fixed = f"; these words are held fixed, and nothing is claimed about {bias}: {exchanged.why_not}"
    value = f"SEAT {valued(seat)} (0 is none, 2 the most; {floor_text(null)})"
    value += head_claims.readable_text(run.heads)
    side = "stereotypes" if (seat.value or 0.0) > null.floor else "the reverse of stereotypes"
    silent = "is significantly different from null models, on this much data"
    if null.exchanged:
        silent = "is shown that other words of the groups would show too"
    return Claim(
        null.p_value,
        seat.beyond(null.floor),
        f"{run.model} associates {whom} with {side}: {value}{fixed}.",
        f"{run.model}: no association of {whom} with stereotypes {silent}: {value}{fixed}.",
        main=True,
        doubt=Doubt(f"{run.model}, an association of {whom} with stereotypes", f"{value}{fixed}", null),
    )


def _measured_claims(run: Audit, base: Mapping[str, Measurement]) -> Iterator[tuple[str, Claim]]:
    """Next sentences by sign flips and null models, fill-in associations by permutation of their words, and
    measures of the user's own that have a p."""
    for name, text in _NEXT_SENTENCES.items():
        each = base.get(name)
        if each is not None and each.value is not None and each.null is not None:
            value = text.format(valued(each))
            floor, beyond = floor_text(each.null), each.beyond(each.null.floor)
            spoken, silent = f"{value}: {floor}.", f"{value}: {SILENT} ({floor})."
            doubt = Doubt(value, floor, each.null)
            held = each.held_against_models
            yield name, Claim(each.null.p_value if held else None, beyond, spoken, silent, doubt=doubt)
    for name, each in base.items():
        if name.split()[0] == "lpbs" and each.value is not None:
            p, exchanged = each.p_value, Exchange.of(each)
            a, b = each.settings.get("attributes", ((), ()))
            words = f"{a[0]} or {b[0]}" if len(a) == len(b) == 1 else "a word of either group"
            value = f"Filling in {words}, {name.removeprefix('lpbs').strip()}: {valued(each)}"
            side = "follows" if each.value > 0 else "runs against"
            how = f"p {p_text(p)}{'' if exchanged else ', these words held fixed'}"
            if exchanged is not None and exchanged.p_value == p:
                how = exchange_text(exchanged)
            spoken = f"{value} {side} the stereotype (0 is none; {how})."
            silent = f"{value}: {SILENT} ({how})."
            yield name, Claim(p, each.beyond(0.0), spoken, silent)
    catalog = CATALOG.joined_by(*run.measures)
    for name in (name for info in run.measures for name in base if is_about(info.name, name)):
        each, info = base[name], catalog.info(name)
        p = each.p_value
        if each.value is None or p is None or info.side != "bias":
            continue
        neutral = each.null.floor if each.null is not None else each.neutral or 0.0
        says = info.above if each.value > neutral else info.below
        value = f"{info.title}: {valued(each)}"
        spoken, silent = f"{value} {says} (p {p_text(p)}).", f"{value}: {SILENT} (p {p_text(p)})."
        yield info.name, Claim(p, each.beyond(neutral), spoken, silent)
