"""What a page claims about fill-in prompts: odds that follow the stereotype, and what knowledge does to them.

Claims rest on log-odds (docs/method.md, Log-odds). The margin among the k likeliest tokens is described only.
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
    too_few_text,
    valued,
)
from levelhead.measures.cloze.log_odds import CHANGE
from levelhead.measures.cloze.log_odds import NAME as LOG_ODDS
from levelhead.measures.cloze.verdicts import quiet_word, with_plan
from levelhead.measures.exchange import Exchange
from levelhead.measures.measurement import Measurement
from levelhead.measures.rounds import says_too_little
from levelhead.results.records.cloze import ClozeCell
from levelhead.results.records.common import BASE
from levelhead.results.runs import PromptsRun

SPOKEN = ("strengthens", "weakens", "overturns")  # verdicts that claim something
_KNOWLEDGE = "knowledge, "  # before the kind, in the names of claims
_SHARED = "cannot be told from what a sentence does in null models"


def level_claim(base: Mapping[str, Measurement]) -> Claim | None:
    """Whether the odds of the two groups' words follow the stereotype of an occupation."""
    level = base.get(LOG_ODDS)
    if level is None or level.value is None or level.null is None:
        return None
    null = level.null
    side = "follow" if level.value > null.floor else "run against"
    exchanged = Exchange.of(level) if null.exchanged else None
    p = f"p {p_text(null.p_value)}" if exchanged is None else exchange_text(exchanged)
    chance = f"{null.floor:z.2f} ± {null.spread:.2f} with occupations dealt out anew, {p}"
    value = f"log-odds {valued(level)} (0 is none, 0.7 twice the odds; {chance})"
    return Claim(
        null.p_value,
        level.beyond(null.floor),
        f"Fill-in prompts: the odds of the two groups' words {side} the stereotypes of occupations: {value}.",
        f"Fill-in prompts: the odds of the two groups' words do not clearly follow occupations: {value}.",
    )


def claim_name(kind: str) -> str:
    """The name of the claim about one kind of knowledge."""
    return f"{_KNOWLEDGE}{kind}"


def knowledge_claims(prompts: PromptsRun | None) -> dict[str, Claim]:
    """What each kind of knowledge does to the unmodified model, where it was held against null twins."""
    cells = () if prompts is None else prompts.knowledge()
    return {claim_name(cell.kind): _knowledge(cell) for cell in cells if tested(cell)}


def tested(cell: ClozeCell) -> bool:
    """Whether a change of log-odds was held against null twins."""
    return cell.verdict not in (None, "untested", "not measured") and cell.measurement.null is not None


def beyond_twins(cell: ClozeCell) -> bool:
    """Whether a verdict's change lies beyond that of the twins, and further from 0 on the same side.

    A sentence that moves the odds less than it does in null models shows no stereotype at work.
    """
    change = cell.measurement
    if change.value is None or change.null is None or cell.verdict not in SPOKEN:
        return False
    return change.beyond(change.null.floor) and (change.value - change.null.floor) * change.value > 0


def _knowledge(cell: ClozeCell) -> Claim:
    change = cell.measurement
    floor = "" if change.null is None else f" ({floor_text(change.null)})"
    value = f"log-odds change {valued(change)}{floor}"
    return Claim(
        None if change.null is None else change.null.p_value,
        beyond_twins(cell),
        f"Knowledge, {cell.kind}: it {cell.verdict} the stereotype, {value}.",
        f"Knowledge, {cell.kind}: its effect {_SHARED}, {value}.",
        doubt=None
        if change.null is None
        else Doubt(f"Knowledge, {cell.kind}", value, with_plan(change.null)),
    )


def is_knowledge(name: str) -> bool:
    """Whether the claim of this name is about a kind of knowledge."""
    return name.startswith(_KNOWLEDGE)


def silent_text(claims: Mapping[str, Claim]) -> list[str]:
    """A sentence about the kinds of knowledge that too few null models were asked about, and one about the
    others of which nothing is claimed; their claims by name."""
    few = {
        name.removeprefix(_KNOWLEDGE): claim.doubt.null
        for name, claim in claims.items()
        if claim.doubt is not None and says_too_little(claim.doubt.null)
    }
    said = []
    if few:
        draws, enough = min(null.draws for null in few.values()), max(null.enough for null in few.values())
        why = f"{too_few_text(draws)}; at least {enough} are needed"
        said.append(f"Knowledge, the effects of {len(few)} kinds: {why}: {', '.join(few)}.")
    kinds = [name.removeprefix(_KNOWLEDGE) for name in claims if name.removeprefix(_KNOWLEDGE) not in few]
    if kinds:
        said.append(f"Knowledge: the effects of {len(kinds)} kinds each {_SHARED}: {', '.join(kinds)}.")
    return said


def untested_text(prompts: PromptsRun | None) -> list[str]:
    """A sentence about the kinds of knowledge that were not held against twins, if there are any."""
    cells = [] if prompts is None else [cell for cell in prompts.knowledge() if cell.verdict == "untested"]
    if not cells:
        return []
    return [
        f"What {len(cells)} kinds of knowledge do to the odds was not held against null models: "
        "nothing is claimed of it."
    ]


def corrected(run: PromptsRun, claimed: Mapping[str, bool]) -> tuple[ClozeCell, ...]:
    """All cells of a run, with the verdicts on log-odds that a page may show.

    claimed: whether each claim of the page holds. Changes that no claim is about, those of other models and
    variants, are corrected for their own number. What does not hold is not said.
    """
    others = [
        cell for cell in run.cells if tested(cell) and cell.name == CHANGE and not _named(run, cell, claimed)
    ]
    holds = {
        id(cell): ok for cell, ok in zip(others, judged([_knowledge(cell) for cell in others]), strict=True)
    }
    return tuple(
        replace(cell, verdict=quiet_word(cell.measurement))
        if cell.name == CHANGE
        and tested(cell)
        and not holds.get(id(cell), claimed.get(claim_name(cell.kind)))
        else cell
        for cell in run.cells
    )


def _named(run: PromptsRun, cell: ClozeCell, claimed: Mapping[str, bool]) -> bool:
    """Whether one of the page's claims is about this cell."""
    own = (cell.model, cell.variant, cell.group) == (run.settings.models[0], BASE, "")
    return own and claim_name(cell.kind) in claimed
