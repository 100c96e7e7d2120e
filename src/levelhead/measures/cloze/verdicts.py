"""What a kind of knowledge did to the stereotype, in a word."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.rounds import says_too_little
from levelhead.measures.statistics import Interval

ALPHA = 0.05  # a change's p must be below it
PLANNED = 9  # null models of runs that did not store how many were planned
VerdictWord = Literal[
    "strengthens",
    "weakens",
    "overturns",
    "no change",
    "not more than in null models",
    "too few null models",
    "untested",
    "not measured",
]
SPEAKING = ("strengthens", "weakens", "overturns")  # words that claim something


@dataclass(frozen=True)
class Verdict:
    """What a kind of knowledge did to the stereotype, in a word, and the change it rests on."""

    kind: str
    group: str  # "" is all occupations
    k: int
    word: VerdictWord
    change: Measurement

    @classmethod
    def of(cls, change: Measurement) -> Verdict:
        """The verdict on a change, whose details hold what it began with and what it reached.

        A word that claims something needs p < 0.05 against null models; without such a null the
        change is untested.
        """
        settings = change.settings
        return cls(settings["kind"], settings["group"], settings["k"], _word(change), change)


def verdict_word(
    base: float,
    margin: float,
    interval: Interval | None,
    margin_interval: Interval | None = None,
    p_value: float | None = None,
) -> VerdictWord:
    """The change in a word. It speaks of the stereotype (pro − anti), not of the size of a preference.

    no change: the change's interval includes 0. not more than in null models: it does not, and its p, where
    one is given, is 0.05 or more. overturns: neither, and the margin has clearly changed its sign: its own
    interval, where one is given, lies beyond 0. strengthens, weakens: it rises or falls on its side.
    """
    if interval is None:
        return "not measured"
    if interval[0] <= 0 <= interval[1]:
        return "no change"
    if p_value is not None and p_value >= ALPHA:
        return "not more than in null models"
    if base * margin < 0 and not (margin_interval and margin_interval[0] <= 0 <= margin_interval[1]):
        return "overturns"
    return "strengthens" if margin > base else "weakens"


def quiet_word(change: Measurement) -> VerdictWord:
    """The word for a change of which nothing is claimed: none, one as in null models, or too few of those."""
    if change.interval is None or change.interval[0] <= 0 <= change.interval[1]:
        return "no change"
    few = says_too_little(None if change.null is None else with_plan(change.null))
    return "too few null models" if few else "not more than in null models"


def with_plan(null: Null) -> Null:
    """A null of a change with the number of null models that were planned."""
    return null if null.planned is not None else replace(null, planned=PLANNED)


def _word(change: Measurement) -> VerdictWord:
    if change.value is None:
        return "not measured"
    known = change.details
    low, high = known["reached_low"], known["reached_high"]
    word = verdict_word(
        float(known["base"] or 0),
        float(known["reached"] or 0),
        change.interval,
        None if low is None or high is None else (low, high),
        None if change.null is None else change.null.p_value,
    )
    if word == "not more than in null models":
        return quiet_word(change)
    return "untested" if change.null is None and word in SPEAKING else word
