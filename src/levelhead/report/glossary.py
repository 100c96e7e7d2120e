"""What each measure is called, asks and means, in words for someone who has not read the papers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from levelhead.measures.measurement import Measurement

Side = Literal["bias", "use"]  # a measure of bias, or of what the model is still good for


@dataclass(frozen=True)
class Measure:
    """How a measure is shown and judged."""

    name: str  # as in results.jsonl
    title: str
    asks: str  # one line
    reading: str  # what the number means: its neutral value and its direction
    side: Side = "bias"
    scale: tuple[float, float] | None = None  # what a bar is drawn on
    signed: bool = False  # 0 is neutral and both directions are bias: judged by its absolute value
    above: str = "above the neutral value"
    below: str = "below the neutral value"


_FOLLOWS = "follows the stereotype"
_AGAINST = "runs against the stereotype"

MEASURES: tuple[Measure, ...] = (
    Measure(
        "seat",
        "Word association (SEAT)",
        "Do the words of one target list lie closer to one group's words than those of the other list do?",
        "0: no association. ±2: as strong as it can be.",
        scale=(-2, 2),
        signed=True,
        above=_FOLLOWS,
        below=_AGAINST,
    ),
    Measure(
        "lpbs",
        "Fill-in association (LPBS)",
        "Does naming a word raise the chance that the model fills in she rather than he?",
        "0: no association. ±2: as strong as it can be.",
        scale=(-2, 2),
        signed=True,
        above=_FOLLOWS,
        below=_AGAINST,
    ),
    Measure(
        "ss",
        "Stereotype score (SS)",
        "How often is the stereotyped next sentence likelier than the anti-stereotyped one?",
        "0.5: no preference. 1: always the stereotype. 0: always its opposite.",
        scale=(0, 1),
        above=_FOLLOWS,
        below=_AGAINST,
    ),
    Measure(
        "ss_swapped",
        "Stereotype score, genders swapped",
        "The stereotype score of the same sentences with the genders swapped.",
        "0.5: no preference. 1: always the stereotype. 0: always its opposite.",
        scale=(0, 1),
        above=_FOLLOWS,
        below=_AGAINST,
    ),
    Measure(
        "strength",
        "Strength of stereotype",
        "In the tenth of triples where it matters most: how much likelier is the stereotype, counting both genders?",
        "0: none. 2: as strong as it can be; below 0 the anti-stereotype wins.",
        scale=(-2, 2),
        signed=True,
        above=_FOLLOWS,
        below=_AGAINST,
    ),
    Measure(
        "distance",
        "Distance between genders",
        "In the tenth of triples where it matters most: how far does swapping gender move an unrelated sentence?",
        "0: not at all. 1: from impossible to certain.",
        scale=(0, 1),
        above="gender alone moves the answer",
    ),
    Measure(
        "margin",
        "Fill-in preference (CounterActs)",
        "Asked who works as a nurse, how much more probability goes to the stereotyped group's words?",
        "0: none. 1: all of it; below 0 the other group's words win.",
        scale=(-1, 1),
        signed=True,
        above=_FOLLOWS,
        below=_AGAINST,
    ),
    Measure(
        "fairness",
        "Fairness of inferences",
        "Does a classifier refrain from inferring gender from an occupation, and treat both genders alike? "
        "(accuracy × parity)",
        "1: always. Lower is less fair.",
        scale=(0, 1),
        below="infers gender from occupation",
    ),
    Measure(
        "accuracy",
        "Neutral inferences",
        "How often does the classifier rightly answer that an occupation says nothing about gender?",
        "1: always. Lower: it infers gender.",
        scale=(0, 1),
        below="infers gender from occupation",
    ),
    Measure(
        "parity",
        "Same answer for both genders",
        "For how many occupations is the usual answer the same for a woman and for a man?",
        "1: for all.",
        scale=(0, 1),
        below="treats the genders differently",
    ),
    Measure(
        "strict_parity",
        "Same answer in every context",
        "For how many occupations is the answer the same for both genders in every context?",
        "1: for all.",
        scale=(0, 1),
        below="treats the genders differently",
    ),
    Measure(
        "icat",
        "Idealized score (ICAT)",
        "Language ability and lack of stereotype in one number.",
        "1: always sensible and never partial. Lower is worse.",
        scale=(0, 1),
        below="less than ideal",
    ),
    Measure(
        "lms",
        "Language sense (LMS)",
        "How often is a meaningful next sentence likelier than an unrelated one?",
        "Higher is better; 0.5 is guessing, 1 is always.",
        side="use",
        scale=(0, 1),
    ),
    Measure(
        "ability",
        "Ability on ordinary inferences",
        "How many everyday inference questions are answered rightly?",
        "Higher is better; 1 is all.",
        side="use",
        scale=(0, 1),
    ),
    Measure(
        "fluency",
        "Fluency (perplexity)",
        "How surprised is the model by ordinary English? (pseudo-perplexity of masked models, perplexity of "
        "causal ones)",
        "Lower is better; it depends on the tokenizer, so compare a model with its own variants only.",
        side="use",
    ),
)

_BY_NAME = {measure.name: measure for measure in MEASURES}
_SAME = {"pppl": "fluency", "perplexity": "fluency", "fluency change": "fluency"}


def measure_of(name: str) -> Measure:
    """How a measure is shown; one that is not in the list is shown under its own name."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name in _SAME:
        return replace(_BY_NAME[_SAME[name]], name=name)
    for separator in (" ", "/"):
        first, found, rest = name.partition(separator)
        if found and first in _BY_NAME:
            known = _BY_NAME[first]
            return replace(known, name=name, title=f"{known.title}, {rest}")
    return Measure(name, name, "", "")


def verdict(measurement: Measurement) -> str:
    """What a number says, and no more: an interval that holds the neutral value shows no bias."""
    known, neutral, interval = measure_of(measurement.name), measurement.neutral, measurement.interval
    if measurement.value is None:
        return f"not measured: {measurement.reason}"
    if known.side == "use" or neutral is None:
        return ""
    if interval is None:
        return "no interval: one number alone shows little"
    if interval[0] <= neutral <= interval[1]:
        return "cannot be told from neutral on this much data"
    return known.above if measurement.value > neutral else known.below
