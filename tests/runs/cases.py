"""A small study for tests of the run folder, and ways to make up records of any type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from levelhead.edits.sites import Head
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.measures.measurement import Measurement, Null
from levelhead.options import Settings, hints_of, option
from levelhead.runs import study as declared
from levelhead.runs.files import CsvFile, JsonFile, JsonLines, TextFile
from levelhead.runs.records import Record, StoredHead
from levelhead.runs.study import Many, Parts, Stored, Study, studies

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
class CaseAsked(Settings):
    """What can be asked of the made-up study."""

    seed: int = option(3, "Seed of every draw.", least=0)
    ks: tuple[int, ...] = option((1, 2), "Numbers.")


@dataclass(frozen=True, kw_only=True)
class CaseSettings(Stored, CaseAsked):
    """What the made-up study is asked."""

    study: str = "case"
    models: tuple[str, ...] = ("lh:bert-mini",)


@dataclass(frozen=True, kw_only=True)
class LaterSettings(CaseSettings):
    """The same study, when it will have learned one more option."""

    k: int | None = None


class Case(Study[CaseSettings]):
    """A study with two results and parts of a third."""

    name = "case"
    settings_type = CaseAsked
    stored = CaseSettings

    first = Many(Answer)
    second = Many(Answer)
    part = Parts(Answer)  # type: ignore[assignment]


class Later(Case):
    """The same study later."""

    stored = LaterSettings


NOTES = TextFile("notes/{}.txt")
SHEET = JsonFile("sheet.json", Answer)
LOG = JsonLines("log/{}.jsonl", Answer)
TABLE = CsvFile("table.csv", Line)


# ---- settings of any study


def sample(kind: type[Stored], **more: Any) -> Any:
    """Stored settings with their defaults, and something of the right type where there is none."""
    needed = {
        each.name: _something(each)
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    }
    return kind(**{**needed, "models": ("m",), **more})


def _something(needed: Field[Any]) -> Any:
    """A value of a field's type: of a tuple of any length the empty one."""
    values: dict[str, Any] = {"int": 2, "str": "x", "float": 0.5, "bool": False}
    inside = str(needed.type).removeprefix("tuple[").removesuffix("]").split(", ")
    if str(needed.type) in values:
        return values[str(needed.type)]
    return () if inside[-1] == "..." else tuple(values[each] for each in inside)


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
    Hyperparameters: st.just(Hyperparameters()),  # it refuses numbers out of its bounds
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
        hints = hints_of(kind)
        return st.builds(kind, **{field.name: records(hints[field.name]) for field in fields(kind)})
    arguments = get_args(kind)
    made: dict[Any, Callable[[], st.SearchStrategy[Any]]] = {
        Annotated: lambda: records(arguments[0]),
        Literal: lambda: st.sampled_from(arguments),
        Union: lambda: st.one_of([records(each) for each in arguments if each is not Path]),
        UnionType: lambda: st.one_of([records(each) for each in arguments if each is not Path]),
        tuple: partial(_tuples, arguments),
        Mapping: lambda: st.dictionaries(records(arguments[0]), records(arguments[1]), max_size=3),
    }
    return made[get_origin(kind)]()


def _tuples(arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return st.lists(records(arguments[0]), max_size=3).map(tuple)
    return st.tuples(*map(records, arguments))


# ---- files of every study


AnyFile = TextFile | JsonFile[Any] | JsonLines[Any] | CsvFile[Any]


def files() -> list[AnyFile]:
    """Files that studies declare beside their results."""
    modules = [import_module(study.__module__) for study in studies().values()]
    kinds: Any = (TextFile, JsonFile, JsonLines, CsvFile)
    values = [value for module in (declared, *modules) for value in vars(module).values()]
    return list({id(value): value for value in values if isinstance(value, kinds)}.values())
