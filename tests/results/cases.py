"""A small study for tests of the run folder, and ways to make up records of any type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from levelhead.edits.head import Head
from levelhead.measures.measurement import Measurement, Null
from levelhead.results.codec import Record, StoredHead
from levelhead.results.keys import CsvFile, JsonFile, JsonLines, Key, KeyFamily, Layout, TextFile

# ---- a study


@dataclass(frozen=True)
class Answer(Record):
    """One answer of the made-up study."""

    text: str
    value: float | None
    heads: tuple[StoredHead, ...] = ()


@dataclass(frozen=True)
class Line(Record):
    """A line of the made-up study's table."""

    text: str
    value: float | None


@dataclass(frozen=True)
class CaseSettings(Record):
    """What the made-up study is asked."""

    study: str = "case"
    seed: int = 3
    model: str = "lh:bert-mini"
    ks: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class LaterSettings(CaseSettings):
    """The same study, when it will have learned one more option."""

    k: int | None = None


FIRST, SECOND = Key("first", Answer), Key("second", Answer)
PARTS = KeyFamily("part/", Answer)
CASE = Layout("case", "levelhead case", CaseSettings, (FIRST, SECOND), (PARTS,))
LATER = Layout("case", "levelhead case", LaterSettings, (FIRST, SECOND), (PARTS,))
NOTES = TextFile("notes/{}.txt")
SHEET = JsonFile("sheet.json", Answer)
LOG = JsonLines("log/{}.jsonl", Answer)
TABLE = CsvFile("table.csv", Line)


# ---- records of any type

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**53), 2**53)
PLAIN: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | WHOLE | NUMBERS | st.text()
)  # where Any is allowed
_SIMPLE: Mapping[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: WHOLE,
    float: NUMBERS,
    str: st.text(),
    NoneType: st.none(),
    Any: PLAIN,
    Head: st.builds(Head, st.integers(0, 99_999), st.integers(0, 99_999)),
}


def measurements() -> st.SearchStrategy[Measurement]:
    """Measurements: with a value, or with a reason why there is none."""
    bounds = st.none() | st.tuples(NUMBERS, NUMBERS)
    null = st.builds(
        Null,
        method=st.text(),
        draws=st.integers(1, 99_999),
        floor=NUMBERS,
        spread=st.floats(0, 99),
        p_value=st.floats(0, 1, exclude_min=True),
    )
    counts, numbers = st.dictionaries(st.text(), WHOLE), st.dictionaries(st.text(), st.none() | NUMBERS)
    known: dict[str, st.SearchStrategy[Any]] = {
        "n": WHOLE,
        "unscored": counts,
        "neutral": st.none() | NUMBERS,
        "details": numbers,
        "settings": st.dictionaries(st.text(), PLAIN | st.lists(PLAIN)),
        "null": st.none() | null,
    }
    taken = st.builds(Measurement, st.text(), NUMBERS, bounds, **known)
    return taken | st.builds(Measurement.missing, st.text(), st.text(min_size=1), **known)


def records(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type: of a record, or of a type that records have in their fields."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind is Measurement:
        return measurements()
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return st.builds(kind, **{field.name: records(hints[field.name]) for field in fields(kind)})
    arguments = get_args(kind)
    made: dict[Any, Callable[[], st.SearchStrategy[Any]]] = {
        Annotated: lambda: records(arguments[0]),
        Literal: lambda: st.sampled_from(arguments),
        Union: lambda: st.one_of([records(each) for each in arguments]),
        UnionType: lambda: st.one_of([records(each) for each in arguments]),
        tuple: partial(_tuples, arguments),
        Mapping: lambda: st.dictionaries(records(arguments[0]), records(arguments[1]), max_size=3),
    }
    return made[get_origin(kind)]()


def _tuples(arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return st.lists(records(arguments[0]), max_size=3).map(tuple)
    return st.tuples(*map(records, arguments))
