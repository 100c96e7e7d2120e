"""Which sentences a page may say: claims that hold after correction for all claims of the page.

A claim needs a p from a null (a null model, sign flips, a permutation) that is below 0.05 after
Holm's correction, and an interval beyond the null's floor. Otherwise its silent form is printed, and where
null models are too few for either, that (docs/method/statistics.md, Statistics). How often claims were wrong
in null models is cited only at the setting of that trial (`Calibration`).
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from levelhead.measures.catalog import ALPHA
from levelhead.measures.exchange import Exchange
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.null import models_needed, says_too_little
from levelhead.measures.statistics import holm
from levelhead.runs.study import WORDS_HASH
from levelhead.studies.audit import Audit

MAIN_SHARE = 0.75  # of the error of a page, for its main claim
SILENT = "not significantly different from null models on this much data"
_SMALL = 0.005  # a spread of which two digits after the point say nothing
_LARGE = 0.995  # from which on two digits are one after the point
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

    def said(self, holds: bool) -> str:
        return self.spoken if holds else self.silent


@dataclass(frozen=True)
class Doubt:
    """What a claim is about, and the null models that it is held against."""

    about: str
    value: str
    null: Null


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


def least_level(others: int, main: bool) -> float:
    """What p of a claim must be below if no other one holds, on a page of so many beside the main one."""
    return ALPHA * (1 - MAIN_SHARE if main else 1.0) / max(1, others)


def doubted(claims: Sequence[Claim]) -> list[Claim]:
    """The claims of a page, those silent as too few null models to tell whose null has too few of them."""
    weights = _weights(claims)
    total = sum(weight for weight, claim in zip(weights, claims, strict=True) if claim.p is not None) or 1.0
    said = []
    for claim, weight in zip(claims, weights, strict=True):
        doubt, level = claim.doubt, ALPHA * weight / total
        if doubt is not None and says_too_little(doubt.null) and doubt.null.p_value >= level:
            needed = models_needed(doubt.null, level)
            many = f"at least {doubt.null.enough}" if needed is None else f"about {needed}"
            why = f"{too_few_text(doubt.null.draws)}; {many} are needed for p < {ALPHA:g} after correction"
            claim = replace(claim, silent=f"{doubt.about}: {why}: {doubt.value}.")
        said.append(claim)
    return said


def exchange_text(exchanged: Exchange) -> str:
    """The p of exchanged group words, and why it can be no smaller where they are too few."""
    few = f"; {exchanged.why_not}" if exchanged.least >= ALPHA else ""
    return f"p {p_text(exchanged.p_value)} {WITH_EXCHANGE}{few}"


def floor_text(null: Null) -> str:
    """What a null model shows, or chance alone where none was evaluated, in words."""
    where = "in null models" if null.of_models else "by chance"
    exchanged = f" {WITH_EXCHANGE}" if null.exchanged else ""
    text = f"{spread_text(null)} {where}, p {p_text(null.p_value)}{exchanged}"
    if null.least is None:
        return text
    beyond = f"at least {null.least:.2g}" if null.least > 0 else "perhaps nothing"
    return f"{text}; {beyond} beyond that on other words"


def spread_text(null: Null) -> str:
    """`0.14 ± 0.03`, `1.2 ± 1.2`, and more digits only where the spread has none otherwise."""
    large = max(abs(null.floor), null.spread) >= _LARGE
    digits = 4 if 0 < null.spread < _SMALL else 1 if large else 2
    return f"{null.floor:z.{digits}f} ± {null.spread:.{digits}f}"


def evidence(measurement: Measurement) -> str:
    """What a value is held against, to stand wherever the value does: floor and p, p alone, or nothing."""
    if measurement.value is None:
        return ""
    if measurement.null is not None:
        return floor_text(measurement.null)
    p = measurement.p_value
    return "" if p is None else f"p {p_text(p)}"


def valued(measurement: Measurement) -> str:
    """`0.93 [0.85, 0.99]` or `1.4 [0.7, 2.0]`, or why there is no number."""
    if measurement.value is None:
        return f"not measured ({measurement.reason})"
    value, *ends = in_words(measurement.value, *(measurement.interval or ()))
    return f"{value} [{', '.join(ends)}]" if ends else value


def in_words(*numbers: float) -> list[str]:
    """Numbers as sentences have them: the largest with two significant digits, the others as fine as it."""
    largest = max(map(abs, numbers), default=0.0)
    digits = 2 if not largest or not math.isfinite(largest) else 1 - math.floor(math.log10(largest))
    return [f"{round(number, digits):z.{max(0, digits)}f}" for number in numbers]


def p_text(value: float | None) -> str:
    """A p-value as it is read."""
    if value is None:
        return "unknown"
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


# ---- how often claims were wrong in null models


@dataclass(frozen=True)
class Calibration:
    """How many null models were audited, how many got a claim, and what they were evaluated on."""

    version: str  # of levelhead that was tried
    models: int
    false_alarms: int
    bias: str
    words: str  # the hash of the word list
    null_models: int  # of each model, and so on: an audit that asks less was not tried
    null_models_of_heads: int
    null_models_of_triples: int
    null_models_of_prompts: int
    templates: int  # that words were evaluated in
    splits: int
    counter_sentences: int
    triples: int  # one of so many was evaluated

    def cited(self, run: Audit) -> str:
        """What is known about the error of a page: the figures, or what was not tried."""
        if run.data.hashes.get(WORDS_HASH) != self.words:
            return "how often they are wrong was not tried with this list"
        sizes = run.settings.all_sizes
        if (
            (sizes.contexts is not None and sizes.contexts < self.templates)
            or sizes.null < self.null_models
            or 0 < sizes.scored_heads < self.null_models_of_heads
            or min(sizes.triple_nulls, sizes.null) < self.null_models_of_triples
            or min(sizes.prompt_nulls, sizes.null) < self.null_models_of_prompts
            or sizes.splits < self.splits
            or sizes.counter_sentences < self.counter_sentences
            or sizes.triples > self.triples
        ):
            return "how often they are wrong was not tried with so few null models or items"
        if run.settings.questions:
            return "how often they are wrong was not tried with measures of your own"
        got = f"{self.false_alarms} of {self.models} null models got one"
        got += "" if sizes.scored_heads else ", on pages with claims about heads too"
        return f"in a trial on {self.bias} with levelhead {self.version}, {got}"


@cache
def calibration() -> Calibration:
    text = Path(__file__).with_name("calibration.toml").read_text(encoding="utf-8")
    figures: dict[str, Any] = tomllib.loads(text)
    return Calibration(**figures)
