"""How far a value lies from neutral toward bias: values, intervals and items mirrored together."""

from __future__ import annotations

import numpy as np
import pytest

from levelhead.measures.catalog import Direction, bias_size
from levelhead.measures.influence import paired_test
from levelhead.measures.measurement import Measurement

ITEMS = {"items": (-0.1, 0.3, -0.2)}


@pytest.mark.parametrize(
    ("biased", "value", "neutral", "size", "interval"),
    [
        ("both", 0.7, 0.5, 0.2, (0.1, 0.4)),
        ("both", 0.3, 0.5, 0.2, (-0.1, 0.4)),
        ("above", 0.3, 0.0, 0.3, (0.1, 0.6)),
        ("below", 0.8, 1.0, 0.2, (0.1, 0.3)),
        ("below", 1.2, 1.0, -0.2, (-0.4, -0.1)),
    ],
)
def test_size_by_hand(
    biased: Direction, value: float, neutral: float, size: float, interval: tuple[float, float]
) -> None:
    down = biased == "below" or (biased == "both" and value < neutral)
    ends = sorted(neutral + (-end if down else end) for end in interval)
    measured = bias_size(Measurement("m", value, (ends[0], ends[1]), influence=ITEMS), neutral, biased)
    assert measured.value == pytest.approx(size)
    assert measured.interval == pytest.approx(interval)
    assert measured.neutral == 0.0
    sign = -1 if down else 1
    assert measured.influence == {"items": tuple(sign * each for each in ITEMS["items"])}


def test_what_was_not_measured_has_no_size() -> None:
    missing = Measurement.missing("m", "no such head")
    assert bias_size(missing, 0.5) is missing


def test_a_mirror_image_is_as_biased_and_only_sizes_say_so() -> None:
    items = tuple(np.random.default_rng(0).normal(0, 0.01, 30).tolist())
    follows = Measurement("m", 0.4, (0.2, 0.6), influence={"items": items})
    against = Measurement("m", -0.4, (-0.6, -0.2), influence={"items": tuple(-x for x in items)})
    plain, sizes = (
        paired_test(follows, against),
        paired_test(*(bias_size(m, 0.0) for m in (follows, against))),
    )
    assert plain is not None
    assert plain.interval[1] < 0
    assert sizes == ((0.0, 0.0), 1.0)
