"""What a page claims about fill-in prompts: odds that follow the stereotype, and what knowledge does to them.

Claims rest on log-odds (docs/method/prompts.md, Log-odds). The margin among the k likeliest tokens is
described only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from levelhead.inference.claims import (
    Claim,
    Doubt,
    exchange_text,
    floor_text,
    judged,
    p_text,
    spread_text,
    too_few_text,
    valued,
)
from levelhead.measures.cloze import PLANNED, quiet_word
from levelhead.measures.exchange import Exchange
from levelhead.measures.log_odds import CHANGE
from levelhead.measures.log_odds import NAME as LOG_ODDS
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import says_too_little
from levelhead.runs.common import BASE
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.counteracts.records import ClozeCell

SPOKEN = ("strengthens", "weakens", "overturns")  # verdicts that claim something
KNOWLEDGE = "knowledge, "  # before the kind, in the names of claims
_SHARED = "not significantly different from what a sentence does in null models"


def level_claim(base: Mapping[str, Measurement]) -> Claim | None:
    """Whether the odds of the two groups' words follow the stereotype of an occupation."""
    level = base.get(LOG_ODDS)
    if level is None or level.value is None or level.null is None:
        return None
    null = level.null
    side = "follow" if level.value > null.floor else "run against"
    exchanged = Exchange.of(level) if null.exchanged else None
    p = f"p {p_text(null.p_value)}" if exchanged is None else exchange_text(exchanged)
    chance = f"{spread_text(null)} with occupations permuted, {p}"
    value = f"log-odds {valued(level)} (0 is none, 0.7 twice the odds; {chance})"
    return Claim(
        null.p_value,
        level.beyond(null.floor),
        f"Fill-in prompts: the odds of the two groups' words {side} the stereotypes of occupations: {value}.",
        f"Fill-in prompts: the odds of the two groups' words do not clearly follow occupations: {value}.",
    )


def tested(cell: ClozeCell) -> bool:
    """Whether a change of log-odds was held against null models."""
    return cell.verdict not in (None, "untested", "not measured") and cell.measurement.null is not None


def beyond_null_models(cell: ClozeCell) -> bool:
    """Whether a verdict's change lies beyond that of the null models, and further from 0 on the same side.

    A sentence that moves the odds less than it does in null models shows no stereotype at work.
    """
    change = cell.measurement
    if change.value is None or change.null is None or cell.verdict not in SPOKEN:
        return False
    return change.beyond(change.null.floor) and (change.value - change.null.floor) * change.value > 0


def knowledge_claim(cell: ClozeCell) -> Claim:
    """What a kind of knowledge does to the unmodified model."""
    change, null, about = cell.measurement, cell.measurement.null, f"Knowledge, {cell.kind}"
    floor = "" if null is None else f" ({floor_text(null)})"
    value = f"log-odds change {valued(change)}{floor}"
    return Claim(
        None if null is None else null.p_value,
        beyond_null_models(cell),
        f"{about}: it {cell.verdict} the stereotype, {value}.",
        f"{about}: its effect is {_SHARED}, {value}.",
        doubt=null if null is None else Doubt(about, value, replace(null, planned=null.planned or PLANNED)),
    )


def unclaimed_knowledge(claims: Mapping[str, Claim], prompts: Counteracts | None) -> list[str]:
    """Sentences about the kinds of knowledge of which nothing is claimed: those that too few null models were
    evaluated, the others that do not hold, and those that were not held against null models.

    claims: those that do not hold, by name.
    """
    few = {
        name.removeprefix(KNOWLEDGE): claim.doubt.null
        for name, claim in claims.items()
        if claim.doubt is not None and says_too_little(claim.doubt.null)
    }
    said = []
    if few:
        draws, enough = min(null.draws for null in few.values()), max(null.enough for null in few.values())
        why = f"{too_few_text(draws)}; at least {enough} are needed"
        said.append(f"Knowledge, the effects of {len(few)} kinds: {why}: {', '.join(few)}.")
    kinds = [name.removeprefix(KNOWLEDGE) for name in claims if name.removeprefix(KNOWLEDGE) not in few]
    if kinds:
        said.append(f"Knowledge: the effects of {len(kinds)} kinds are each {_SHARED}: {', '.join(kinds)}.")
    cells = [] if prompts is None else [cell for cell in prompts.knowledge() if cell.verdict == "untested"]
    if cells:
        said.append(
            f"What {len(cells)} kinds of knowledge do to the odds was not compared with null models: "
            "nothing is claimed of it."
        )
    return said


def corrected(run: Counteracts, claimed: Mapping[str, bool]) -> tuple[ClozeCell, ...]:
    """All cells of a run, with the verdicts on log-odds that a page may show.

    claimed: whether each claim of the page holds. Changes that no claim is about, those of other models and
    variants, are corrected for their own number. What does not hold is not said.
    """
    holds, others = {}, []
    for cell in run.cells:
        if cell.name != CHANGE or not tested(cell):
            continue
        own = (cell.model, cell.variant, cell.group) == (run.settings.models[0], BASE, "")
        name = f"{KNOWLEDGE}{cell.kind}"
        if own and name in claimed:
            holds[id(cell)] = claimed[name]
        else:
            others.append(cell)
    judgments = judged([knowledge_claim(cell) for cell in others])
    holds |= {id(cell): ok for cell, ok in zip(others, judgments, strict=True)}
    return tuple(
        cell if holds.get(id(cell), True) else replace(cell, verdict=quiet_word(cell.measurement))
        for cell in run.cells
    )
