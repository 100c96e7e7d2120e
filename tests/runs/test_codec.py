"""Records come back from JSON as they went, and nothing else comes in."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import MISSING, fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelhead.edits.sites import Head
from levelhead.measures.measurement import Measurement
from levelhead.runs.common import MeasuredVariant
from levelhead.runs.files import TextFile
from levelhead.runs.records import Json, as_json, record_from_json
from levelhead.runs.study import studies
from levelhead.studies.heads.records import HeadScore
from tests.runs.cases import NUMBERS, Answer, files, records

KINDS = sorted(
    {slot.record for study in studies().values() for slot in study.slots.values()}
    | {study.stored for study in studies().values()}
    | {file.record for file in files() if not isinstance(file, TextFile)},
    key=lambda kind: str(kind.__name__),
)
SCORE = HeadScore(Head(7, 5), 0.25, 0.1, None, None, 1, 1.2)
SEAT = MeasuredVariant("base", "lh:bert-mini", Measurement("seat", 0.4, (0.1, 0.7), 80, neutral=0.0))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_every_record_of_every_study_comes_back_as_it_went(kind: type[Any], data: st.DataObject) -> None:
    record = data.draw(records(kind))
    written = json.dumps(as_json(kind, record), allow_nan=False)
    assert record_from_json(kind, json.loads(written)) == record


@given(NUMBERS)
def test_a_number_comes_back_to_the_bit(value: float) -> None:
    back = Answer.from_json(json.loads(json.dumps(Answer("", value).to_json()))).value
    assert back is not None
    assert struct.pack("d", back) == struct.pack("d", value)


def test_the_json_of_a_record_has_its_fields_and_writes_heads_from_one() -> None:
    assert list(SCORE.to_json()) == [field.name for field in fields(SCORE)]
    assert (SCORE.to_json()["head"], HeadScore.from_json(SCORE.to_json())) == ("8-6", SCORE)


def fault(kind: type[Any], data: Json) -> str:
    with pytest.raises(ValueError, match=r"\S") as caught:
        record_from_json(kind, data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=5)
@given(data=st.data())
def test_no_record_takes_an_unknown_field_or_does_without_one_that_it_needs(
    kind: type[Any], data: st.DataObject
) -> None:
    written = as_json(kind, data.draw(records(kind)))
    assert "strange" in fault(kind, {**written, "strange": 1})
    for needed in [each.name for each in fields(kind) if each.default is each.default_factory is MISSING][:1]:
        assert needed in fault(kind, {name: value for name, value in written.items() if name != needed})


def test_a_measurement_inside_a_record_takes_no_unknown_field() -> None:
    written = SEAT.to_json()
    written["measurement"]["strange"] = 1
    assert fault(MeasuredVariant, written).startswith("measurement.strange: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("head", "8/6"),
        ("head", "0-6"),
        ("head", [7, 5]),
        ("score", None),
        ("score", "0.25"),
        ("score", True),
        ("rank", 1.5),
        ("rank", "1"),
        ("q", "none"),
        ("stderr", [0.1]),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(field: str, value: object) -> None:
    assert fault(HeadScore, {**SCORE.to_json(), field: value}).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("interval", [0.1]),
        ("interval", [0.1, "high"]),
        ("n", "80"),
        ("unscored", {"reason": 0.5}),
        ("details", {"p_value": "small"}),
        ("value", None),  # and no reason
        ("reason", "a value and a reason"),
    ],
)
def test_a_measurement_that_is_none_is_refused(field: str, value: object) -> None:
    written = SEAT.to_json()
    written["measurement"][field] = value
    assert fault(MeasuredVariant, written).startswith("measurement")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_refused(value: float) -> None:
    assert "Out of range" in fault(HeadScore, {**SCORE.to_json(), "score": value})


def test_data_that_are_no_object_are_refused() -> None:
    others: tuple[object, ...] = ([], "text", 1, None)
    for data in others:
        with pytest.raises(ValueError, match=r"^the whole: "):
            record_from_json(HeadScore, data)
