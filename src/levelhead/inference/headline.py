"""What an audit found, in plain words that claim no more than the numbers show."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from levelhead.inference.claims import (
    MAIN_SHARE,
    SILENT,
    Claim,
    Doubt,
    doubted,
    exchange_text,
    floor_text,
    judged,
    needing,
    p_text,
    sentence,
    valued,
)
from levelhead.inference.counter import contrast_claim
from levelhead.inference.doubts import doubt_text
from levelhead.inference.fill_in import (
    is_knowledge,
    knowledge_claims,
    level_claim,
    silent_text,
    untested_text,
)
from levelhead.inference.head_claims import (
    agreement_claim,
    clear_head_claim,
    head_findings,
    readable_text,
    removal_claim,
)
from levelhead.inference.ways_out import projection_claims, unclaimed_projections
from levelhead.measures.catalog import ALPHA, CATALOG, NOT_COMPARED, is_about
from levelhead.measures.exchange import Exchange, held_fixed
from levelhead.measures.measurement import Measurement, Null
from levelhead.results import layout
from levelhead.results.records.audit import Headline
from levelhead.results.records.common import BASE
from levelhead.results.runs import AuditRun

_NEXT_SENTENCES = {  # measure -> what is said where its null is beaten, and what it is called
    "preference": "Next sentences: the stereotype is preferred by {} logits (0 is none)",
    "ss_paired": "The stereotypical next sentence is the likelier one in a share of {} (0.5 is even)",
    "strength": "Strength of stereotype in the most biased tenth of triples: {}",
}
_NAMED = 16  # group words that a claim about nothing else can name
_NOBODY = "Not compared with null models, so nothing is claimed of"
ASSOCIATION, LOG_ODDS = "association", "log-odds"  # names of claims
_REMOVAL, _CONTRAST, _PROJECTION = "removal", "attention contrast", "projection"
_FIRST = (ASSOCIATION, _REMOVAL)  # claims of the headline itself; the others are findings
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
    quiet = {name: claim for name, claim, holds in claims if is_knowledge(name) and not holds}
    others = [each for each in claims if each[0] not in (*_FIRST, *quiet)]
    asked = asks_null_models(run)
    untested = [name for name, claim, _ in others if claim.p is None and not (asked and claim.doubt is None)]
    said = sorted((each for each in others if each[0] not in untested), key=lambda each: not each[2])
    findings = [sentence(claim, holds) for _, claim, holds in said]
    base = measured[BASE]
    findings += [
        *([f"{_NOBODY} {', '.join(untested)}."] if untested else []),
        *silent_text(quiet),
        *untested_text(run.prompts),
        *_described(base),
        *head_findings(run.heads),
    ]
    findings += unclaimed_projections(run, measured)
    findings += _not_measured(base)
    if asked and len(claims) > 1:
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
        ASSOCIATION: _opening(run, base),
        _REMOVAL: removal_claim(run, measured),
        "agreement": agreement_claim(run.heads),
        _CONTRAST: contrast_claim(run.heads),
        "clear head": clear_head_claim(run.heads),
        **dict(_base_claims(base)),
        **dict(_own_claims(run, base)),
        LOG_ODDS: level_claim(base),
        **knowledge_claims(run.prompts),
        **projection_claims(run, measured),
    }
    known = {name: claim for name, claim in named.items() if claim is not None}
    known |= {name: needing(known[name], base.get("seat")) for name in _of_words(run, known)}
    claims = doubted(list(known.values()))
    if not asks_null_models(run):
        claims = [replace(claim, p=None) for claim in claims]
    holds = [ok and not run.doubts for ok in judged(claims)]
    return list(zip(known, claims, holds, strict=True))


def _of_words(run: AuditRun, names: Collection[str]) -> list[str]:
    """Claims whose own p holds the list's group words fixed: on attention to them, and on a projection that
    is chosen by SEAT."""
    by_seat = any(each.bias.name.strip("|") == "seat" for each in run.candidates)
    return [name for name in names if name == _CONTRAST or (by_seat and name == _PROJECTION)]


def asks_null_models(run: AuditRun) -> bool:
    """Whether the model was held against null models in any way; without them a page claims
    nothing, since fewer claims and easier nulls would claim more."""
    known = [*run.by_variant()[BASE].values(), *(() if run.heads is None else run.heads.cross_fit)]
    return any(each.held_against_models for each in known)


def spoken_measures(run: AuditRun) -> frozenset[str]:
    """Measures of the unmodified model of which the page claims a bias."""
    named = {ASSOCIATION: "seat", LOG_ODDS: "log_odds"}
    return frozenset(named.get(name, name) for name, _, holds in headline_claims(run) if holds)


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
        compared = NOT_COMPARED if run.settings.sizes.null == 0 else "not compared with null models"
        return Claim(None, False, "", f"{text}{compared[0].upper()}{compared[1:]}: nothing is claimed.")
    whom, fixed = bias, ""
    if (few := _too_few(run, seat)) is not None:
        null, whom, fixed = few
    value = f"SEAT {valued(seat)} (0 is none, 2 the most; {floor_text(null)}){readable_text(run.heads)}"
    side = "stereotypes" if (seat.value or 0.0) > null.floor else "the reverse of stereotypes"
    silent = "can be told from a null model, on this much data"
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


def _too_few(run: AuditRun, seat: Measurement) -> tuple[Null, str, str] | None:
    """Of a list with too few pairs for a claim about its groups, but few words too: the null that holds these
    words fixed, the words, and that they are held fixed."""
    exchanged = Exchange.of(seat)
    words = None if run.heads is None else layout.WORD_LIST.read(run.heads.folder)
    if exchanged is None or words is None or exchanged.least < MAIN_SHARE * ALPHA:
        return None
    sides = [list(dict.fromkeys(side)) for side in (words.A, words.B)]
    null = held_fixed(seat)
    if null is None or sum(map(len, sides)) > _NAMED:
        return None
    a, b = (", ".join(side) for side in sides)
    why = f"; these words are held fixed, and nothing is claimed about {run.bias}: {exchanged.why_not}"
    return null, f"the words {a} rather than {b}", why


def _no_opening(run: AuditRun) -> str:
    return f"{run.model}: the association of {run.bias} with stereotypes was not measured."


def _base_claims(base: Mapping[str, Measurement]) -> Iterator[tuple[str, Claim]]:
    """Next sentences by sign flips and null twins, fill-in associations by permutation of their words."""
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
            value = f"Filling in {_filled_in(each)}, {name.removeprefix('lpbs').strip()}: {valued(each)}"
            side = "follows" if each.value > 0 else "runs against"
            how = f"p {p_text(p)}{'' if exchanged else ', these words held fixed'}"
            if exchanged is not None and exchanged.p_value == p:
                how = exchange_text(exchanged)
            spoken = f"{value} {side} the stereotype (0 is none; {how})."
            silent = f"{value}: {SILENT} ({how})."
            yield name, Claim(p, each.beyond(0.0), spoken, silent)


def _filled_in(lpbs: Measurement) -> str:
    """What a masked model chooses between: two words, or words of either group."""
    a, b = lpbs.settings.get("attributes", ((), ()))
    return f"{a[0]} or {b[0]}" if len(a) == len(b) == 1 else "a word of either group"


def _own_claims(run: AuditRun, base: Mapping[str, Measurement]) -> Iterator[tuple[str, Claim]]:
    """Measures of the user's own that have a p."""
    catalog = CATALOG.joined_by(*run.measures)
    own = [name for info in run.measures for name in base if is_about(info.name, name)]
    for name in own:
        each, info = base[name], catalog.info(name)
        p = each.p_value
        if each.value is None or p is None or info.side != "bias":
            continue
        floor = each.null.floor if each.null is not None else each.neutral or 0.0
        says = info.above if each.value > floor else info.below
        value = f"{info.title}: {valued(each)}"
        spoken, silent = f"{value} {says} (p {p_text(p)}).", f"{value}: {SILENT} (p {p_text(p)})."
        yield info.name, Claim(p, each.beyond(floor), spoken, silent)


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
