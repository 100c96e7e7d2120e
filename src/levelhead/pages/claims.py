"""Which sentences a page may say: claims that hold after correction for all claims of the page.

A claim needs a p from a null (a model without meaning, sign flips, a permutation) that is below 0.05 after
Holm's correction, and an interval beyond the null's floor. Otherwise its silent form is printed
(docs/method.md, Statistics).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from levelhead.measures.catalog import ALPHA
from levelhead.measures.corrections import holm
from levelhead.measures.measurement import Measurement, Null

MAIN_SHARE = 0.75  # of the error of a page, for its main claim
_TWINS = "null twins"  # how the method of a null begins that was drawn from models without meaning
_SMALL = 0.005  # a spread of which two digits say nothing
SILENT = "cannot be told from a model without meaning on this much data"


@dataclass(frozen=True)
class Claim:
    """A sentence that may be said if the evidence holds, and what is said if it does not."""

    p: float | None  # before correction; None: nothing that could be tested
    beyond: bool  # the interval lies beyond the floor, or there is none to ask for
    spoken: str
    silent: str
    main: bool = False  # the question of the page, to which most of the error is given


def judged(claims: Sequence[Claim]) -> list[bool]:
    """Whether each claim holds on a page of all of them: Holm, with three quarters of the weight on the main
    one."""
    others = max(1, sum(claim.p is not None and not claim.main for claim in claims))
    heavy = others * MAIN_SHARE / (1 - MAIN_SHARE)
    weights = [heavy if claim.main else 1.0 for claim in claims]
    adjusted = holm([math.nan if claim.p is None else claim.p for claim in claims], weights)
    return [bool(p < ALPHA) and claim.beyond for p, claim in zip(adjusted, claims, strict=True)]


def sentence(claim: Claim, holds: bool) -> str:
    """What is said of a claim."""
    return claim.spoken if holds else claim.silent


def tested_p(measurement: Measurement) -> float | None:
    """The p that a verdict rests on: that of the null, else that of the measure's own test."""
    return measurement.details.get("p_value") if measurement.null is None else measurement.null.p_value


def floor_text(null: Null) -> str:
    """What a model without meaning shows, or chance alone where none was asked, in words."""
    where = "in models without meaning" if of_twins(null) else "by chance"
    digits = 4 if 0 < null.spread < _SMALL else 2
    text = f"{null.floor:z.{digits}f} ± {null.spread:.{digits}f} {where}, p {p_text(null.p_value)}"
    if null.least is None:
        return text
    beyond = f"at least {null.least:.2f}" if null.least > 0 else "perhaps nothing"
    return f"{text}; {beyond} beyond that on other words"


def of_twins(null: Null) -> bool:
    """Whether a null was drawn from models without meaning."""
    return null.method.startswith(_TWINS)


def evidence(measurement: Measurement) -> str:
    """What a value is held against, to stand wherever the value does: floor and p, p alone, or nothing."""
    if measurement.value is None:
        return ""
    if measurement.null is not None:
        return floor_text(measurement.null)
    p = tested_p(measurement)
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
