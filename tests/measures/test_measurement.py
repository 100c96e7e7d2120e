"""Measurements go to JSON and back without loss, and what is wrong in a file is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelhead.measures.measurement import Measurement, Null

NUMBER = st.floats(allow_nan=False)
SETTING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NULL = st.builds(
    Null,
    method=st.text(),
    draws=st.integers(min_value=1),
    floor=NUMBER,
    spread=st.floats(min_value=0),
    p_value=st.floats(min_value=0, max_value=1, exclude_min=True),
)
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.text(),
    "interval": st.none() | st.tuples(NUMBER, NUMBER),
    "n": st.integers(min_value=0),
    "unscored": st.dictionaries(st.text(), st.integers(min_value=0), max_size=3),
    "neutral": st.none() | NUMBER,
    "details": st.dictionaries(st.text(), st.none() | NUMBER, max_size=3),
    "settings": st.dictionaries(st.text(), SETTING, max_size=3),
    "null": st.none() | NULL,
}
MEASURED = st.builds(Measurement, value=NUMBER, **PARTS)
MISSING = st.builds(Measurement, value=st.none(), reason=st.text(min_size=1), **PARTS)
FLIPS = {"method": "sign flips", "draws": 999, "floor": 0.2, "spread": 0.05, "p_value": 0.18}
GOOD = Measurement("seat", 1.35, (1.2, 1.5), 12, {"no context": 1}, 0.0, {"p_value": None}, {"seed": 0})


@given(MEASURED | MISSING)
def test_a_measurement_survives_json_in_memory_and_as_text(measurement: Measurement) -> None:
    assert Measurement.from_json(measurement.to_json()) == measurement
    assert Measurement.from_json(json.loads(json.dumps(measurement.to_json()))) == measurement


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": None}, "name"),
        ({"value": "1.35"}, "value"),
        ({"value": True}, "value"),
        ({"interval": [1.0]}, "interval"),
        ({"interval": [1.0, None]}, "interval"),
        ({"interval": 1.0}, "interval"),
        ({"n": 12.0}, "n"),
        ({"n": True}, "n"),
        ({"unscored": []}, "unscored"),
        ({"unscored": {"no context": 0.5}}, r"unscored\['no context'\]"),
        ({"neutral": "0"}, "neutral"),
        ({"details": {"t": [1.0]}}, r"details\['t'\]"),
        ({"settings": None}, "settings"),
        ({"settings": {1: "one"}}, "settings"),
        ({"reason": None}, "reason"),
        ({"null": 0.2}, "null"),
        ({"null": {**FLIPS, "draws": 999.0}}, r"null\.draws"),
        ({"null": {**FLIPS, "floor": "0.2"}}, r"null\.floor"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=f"^Field {field} of a measurement is ") as caught:
        Measurement.from_json({**GOOD.to_json(), **wrong})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", list(GOOD.to_json()))
def test_an_absent_field_is_named(field: str) -> None:
    data = GOOD.to_json()
    del data[field]
    with pytest.raises(ValueError, match=f"needs the field '{field}'"):
        Measurement.from_json(data)


def test_labels_beside_the_number_are_ignored() -> None:
    assert Measurement.from_json({"variant": "base", **GOOD.to_json(), "k": 3}) == GOOD


def test_a_whole_number_is_a_number() -> None:
    assert Measurement.from_json({**GOOD.to_json(), "value": 1}).value == 1.0


def test_a_measurement_has_either_a_value_or_a_reason() -> None:
    with pytest.raises(ValueError, match="either a value or a reason"):
        Measurement("seat", None)
    with pytest.raises(ValueError, match="either a value or a reason"):
        Measurement.from_json({**GOOD.to_json(), "reason": "no words"})
    assert str(Measurement.missing("seat", "no words")) == "seat: not measured (no words)"
    assert str(GOOD) == "seat 1.350 [1.200, 1.500] n=12"


def test_excess_is_the_value_less_its_noise_floor() -> None:
    measured = Measurement.from_json({**GOOD.to_json(), "null": FLIPS})
    assert measured.null == Null("sign flips", 999, 0.2, 0.05, 0.18)
    assert measured.excess == pytest.approx(1.35 - 0.2)
    assert GOOD.excess is None
    assert Measurement.missing("seat", "no words", null=measured.null).excess is None


@pytest.mark.parametrize("wrong", [{"draws": 0}, {"spread": -0.1}, {"p_value": 0.0}, {"p_value": 1.1}])
def test_a_null_without_draws_or_with_an_impossible_p_value_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a null needs a draw"):
        Measurement.from_json({**GOOD.to_json(), "null": {**FLIPS, **wrong}})
