"""Which sentences a page may say: claims that hold after correction for all claims of the page.

A claim needs a p from a null (a null model, sign flips, a permutation) that is below 0.05 after
Holm's correction, and an interval beyond the null's floor. Otherwise its silent form is printed, and where
null models are too few for either, that (docs/method.md, Statistics).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from levelhead.measures.catalog import ALPHA
from levelhead.measures.corrections import holm
from levelhead.measures.exchange import Exchange
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.null import models_needed
from levelhead.measures.rounds import says_too_little

MAIN_SHARE = 0.75  # of the error of a page, for its main claim
_SMALL = 0.005  # a spread of which two digits say nothing
SILENT = "cannot be told from a null model on this much data"
WITH_EXCHANGE = "with group words exchanged"


@dataclass(frozen=True)
class Claim:
    """A sentence that may be said if the evidence holds, and what is said if it does not."""

    p: float | None  # before correction; None: nothing that could be tested
    beyond: bool  # the interval lies beyond the floor, or there is none to ask for
    spoken: str
    silent: str
    main: bool = False  # the question of the page, to which most of the error is given
    doubt: Doubt | None = None  # where p comes from null models: what is said if those are too few


@dataclass(frozen=True)
class Doubt:
    """What a claim is about, and the null models that it is held against."""

    about: str
    value: str
    null: Null

    def too_few(self, level: float) -> str:
        """Why nothing can be told, and how many null models would do; empty where they are not too few."""
        if not says_too_little(self.null) or self.null.p_value < level:
            return ""
        needed = models_needed(self.null, level)
        many = f"at least {self.null.enough}" if needed is None else f"about {needed}"
        return f"{too_few_text(self.null.draws)}; {many} are needed for p < {ALPHA:g} after correction"


def too_few_text(draws: int) -> str:
    """That so many null models allow neither a claim nor its denial."""
    return f"{draws} null models are too few to tell"


def judged(claims: Sequence[Claim]) -> list[bool]:
    """Whether each claim holds on a page of all of them: Holm, with three quarters of the weight on the main
    one."""
    adjusted = holm([math.nan if claim.p is None else claim.p for claim in claims], _weights(claims))
    return [bool(p < ALPHA) and claim.beyond for p, claim in zip(adjusted, claims, strict=True)]


def _weights(claims: Sequence[Claim]) -> list[float]:
    others = max(1, sum(claim.p is not None and not claim.main for claim in claims))
    heavy = others * MAIN_SHARE / (1 - MAIN_SHARE)
    return [heavy if claim.main else 1.0 for claim in claims]


def doubted(claims: Sequence[Claim]) -> list[Claim]:
    """The claims of a page, those silent as too few null models to tell whose null has too few of them."""
    weights = _weights(claims)
    total = sum(weight for weight, claim in zip(weights, claims, strict=True) if claim.p is not None) or 1.0
    return [
        replace(claim, silent=f"{claim.doubt.about}: {why}: {claim.doubt.value}.")
        if claim.doubt is not None and (why := claim.doubt.too_few(ALPHA * weight / total))
        else claim
        for claim, weight in zip(claims, weights, strict=True)
    ]


def sentence(claim: Claim, holds: bool) -> str:
    """What is said of a claim."""
    return claim.spoken if holds else claim.silent


def needing(claim: Claim, association: Measurement | None) -> Claim:
    """A claim about what a list's words are associated with: it holds only if exchanged group words do not
    show as much, so the larger p counts."""
    exchanged = Exchange.of(association)
    if exchanged is None or claim.p is None or exchanged.p_value <= claim.p:
        return claim
    why = f"the association itself: {exchange_text(exchanged)}"
    return replace(claim, p=exchanged.p_value, silent=f"{claim.silent.rstrip('.')}; {why}.")


def exchange_text(exchanged: Exchange) -> str:
    """The p of exchanged group words, and why it can be no smaller where they are too few."""
    few = f"; {exchanged.why_not}" if exchanged.least >= ALPHA else ""
    return f"p {p_text(exchanged.p_value)} {WITH_EXCHANGE}{few}"


def floor_text(null: Null) -> str:
    """What a null model shows, or chance alone where none was asked, in words."""
    where = "in null models" if null.of_models else "by chance"
    digits = 4 if 0 < null.spread < _SMALL else 2
    exchanged = f" {WITH_EXCHANGE}" if null.exchanged else ""
    text = f"{null.floor:z.{digits}f} ± {null.spread:.{digits}f} {where}, p {p_text(null.p_value)}{exchanged}"
    if null.least is None:
        return text
    beyond = f"at least {null.least:.2f}" if null.least > 0 else "perhaps nothing"
    return f"{text}; {beyond} beyond that on other words"


def evidence(measurement: Measurement) -> str:
    """What a value is held against, to stand wherever the value does: floor and p, p alone, or nothing."""
    if measurement.value is None:
        return ""
    if measurement.null is not None:
        return floor_text(measurement.null)
    p = measurement.p_value
    return "" if p is None else f"p {p_text(p)}"


def valued(measurement: Measurement, digits: int = 2) -> str:
    """`0.93 [0.85, 1.01]`, or why there is no number."""
    if measurement.value is None:
        return f"not measured ({measurement.reason})"
    if measurement.interval is None:
        return f"{measurement.value:z.{digits}f}"
    low, high = measurement.interval
    return f"{measurement.value:z.{digits}f} [{low:z.{digits}f}, {high:z.{digits}f}]"


def p_text(value: float | None) -> str:
    """A p-value as it is read."""
    if value is None:
        return "unknown"
    return "< 0.001" if value < 0.001 else f"{value:.2g}"
