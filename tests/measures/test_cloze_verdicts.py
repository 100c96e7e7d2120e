"""The word of a verdict, case by case."""

from __future__ import annotations

import pytest

from levelhead.measures.cloze import Verdict
from levelhead.measures.measurement import Measurement, Null

Ends = tuple[float, float]


def verdict_word(base: float, margin: float, interval: Ends | None, reached: Ends | None = None) -> str:
    """The word for a change that null models do not show."""
    low, high = reached or (None, None)
    details = {"base": base, "reached": margin, "reached_low": low, "reached_high": high}
    settings = {"kind": "counter", "group": "", "k": 3}
    null = Null("null models", 19, 0.0, 0.01, 0.01)
    change = Measurement(
        "margin change", margin - base, interval, details=details, settings=settings, null=null
    )
    return Verdict.of(change).word


@pytest.mark.parametrize(
    ("base", "margin", "interval", "word"),
    [
        (0.2, 0.3, (0.05, 0.15), "strengthens"),
        (0.2, 0.1, (-0.15, -0.05), "weakens"),
        (0.2, 0.0, (-0.3, -0.1), "weakens"),  # gone, but not turned
        (0.2, -0.1, (-0.4, -0.2), "overturns"),
        (-0.1, 0.2, (0.2, 0.4), "overturns"),
        (0.01, -0.01, (-0.1, 0.05), "no change"),  # the sign flips, the interval does not exclude 0
        (0.2, 0.3, (0.0, 0.2), "no change"),  # 0 at the edge is included
        (-0.1, -0.2, (-0.2, -0.05), "weakens"),  # the stereotype, not the preference
        (0.2, 0.3, None, "not measured"),
    ],
)
def test_the_word_of_a_verdict(
    base: float, margin: float, interval: tuple[float, float] | None, word: str
) -> None:
    assert verdict_word(base, margin, interval) == word


def test_a_margin_that_may_still_be_zero_is_weakened_not_overturned() -> None:
    assert verdict_word(0.010, -0.002, (-0.02, -0.005), (-0.009, 0.004)) == "weakens"
    assert verdict_word(0.010, -0.020, (-0.04, -0.02), (-0.03, -0.01)) == "overturns"
