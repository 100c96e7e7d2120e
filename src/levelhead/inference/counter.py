"""What the counter-stereotype experiment shows: one claim, and the two parts that it is made of, as numbers.

Tests count templates, attribute words and targets as the items (docs/method.md, Counter-stereotypes).
"""

from __future__ import annotations

from levelhead.inference.claims import Claim, p_text, valued
from levelhead.measures.attention import ContrastPart
from levelhead.measures.measurement import Measurement
from levelhead.results.runs import HeadsRun

DIGITS = 4  # of attention, which lies between 0 and 1
_TURNED = "When a stereotype is turned around, attention to the group word"


def contrast(heads: HeadsRun | None, part: ContrastPart) -> Measurement | None:
    """Biased less regular heads: the whole of it, or a part; None where it was not measured."""
    for each in () if heads is None else heads.contrasts:
        if (each.heads, each.part) == ("biased - regular", part):
            return None if each.measurement.value is None else each.measurement
    return None


def contrast_claim(heads: HeadsRun | None) -> Claim | None:
    """Whether attention falls more in biased heads than in regular ones; the largest p of all clusterings."""
    whole = contrast(heads, "whole")
    if whole is None or whole.value is None or whole.null is None:
        return None
    more = "more" if whole.value > 0 else "less"
    value = f"{valued(whole, DIGITS)} (0 is none; N = {whole.n}, largest p of all clusterings"
    value += f" {p_text(whole.null.p_value)})"
    return Claim(
        whole.null.p_value,
        whole.beyond(0.0),
        f"{_TURNED} falls {more} in biased heads than in regular ones: {value}.",
        f"{_TURNED} is not shown to fall more in biased heads than in regular ones: {value}.",
    )


def contrast_parts(heads: HeadsRun | None) -> list[str]:
    """What the stereotype does, and what looking at one group's words does, as numbers that claim nothing."""
    stereotype, looking = contrast(heads, "stereotype"), contrast(heads, "group words")
    if stereotype is None or looking is None:
        return []
    words = None if heads is None else heads.words
    group = "the first group's" if words is None else words.labels[0]
    return [
        f"Of that contrast, {valued(stereotype, DIGITS)} is what the stereotype does; apart from it, biased "
        f"heads look {valued(looking, DIGITS)} more than regular ones at {group} words, whatever is said."
    ]
