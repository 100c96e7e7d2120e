"""Records as JSON, in both directions: what is read back is what was written, type by type.

A record is a frozen dataclass whose fields have types. Reading is strict: an unknown field, a missing one
that has no default, a text where a number belongs, NaN or infinity are refused, with the place of the fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter, ValidationError
from typing_extensions import TypeAliasType

from levelhead.edits.sites import Head, Neuron
from levelhead.errors import LevelheadError

R = TypeVar("R")
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
Json = dict[str, Any]  # a JSON object: the border of the typed house


def _read_head(written: object) -> Head:
    """A head from its written form; a head that is one already stays."""
    if isinstance(written, Head):
        return written
    if not isinstance(written, str):
        raise ValueError("a head is written layer-head, such as 8-6")
    try:
        return Head.parse(written)
    except LevelheadError as error:
        raise ValueError(str(error)) from None


StoredHead = Annotated[Head, BeforeValidator(_read_head), PlainSerializer(str, return_type=str)]
StoredNeuron = Annotated[  # written like a head
    Neuron,
    BeforeValidator(lambda given: given if isinstance(given, Neuron) else Neuron(*_read_head(given))),
    PlainSerializer(str, return_type=str),
]


class Record:
    """The parent of all records: a frozen dataclass with a JSON form."""

    __pydantic_config__ = _STRICT

    def to_json(self) -> Json:
        """The record as plain data."""
        return dict(as_json(type(self), self))

    @classmethod
    def from_json(cls: type[R], data: Json) -> R:
        """The record that `to_json` wrote. ValueError, in one line, for anything else."""
        return record_from_json(cls, data)


def as_json(kind: type[Any], record: object) -> Any:
    """Plain data of a record: dicts, lists, texts, numbers."""
    return _adapter(kind).dump_python(record, mode="json", warnings="error")


def record_from_json(kind: type[R], data: object) -> R:
    """A record from plain data. ValueError, in one line, where the data are not such a record."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    try:
        record: R = _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError(_first_fault(error)) from None
    return record


_TEXT_FIELDS: dict[type[Any], frozenset[str]] = {}  # of a record, that hold nothing but texts


def record_from_cells(kind: type[R], cells: Mapping[str, str | None]) -> R:
    """A record from the cells of a CSV line: numbers are read from text; an empty cell is None, or the empty
    text in a field that holds nothing but texts."""
    if kind not in _TEXT_FIELDS:
        hints = get_type_hints(kind).items()
        _TEXT_FIELDS[kind] = frozenset(name for name, hint in hints if hint is str)
    texts = _TEXT_FIELDS[kind]
    values = {name: cell if name in texts else cell or None for name, cell in cells.items()}
    try:
        record: R = _adapter(kind).validate_python(values, strict=False)
    except ValidationError as error:
        raise ValueError(_first_fault(error)) from None
    return record


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """How a type is read and written. Dataclasses of other rooms, which know no pydantic, get its config
    through an alias, so that they take no unknown field either."""
    if kind not in _ADAPTERS:
        own = hasattr(kind, "__pydantic_config__")
        alias: Any = kind if own else TypeAliasType(kind.__name__, kind)
        _ADAPTERS[kind] = TypeAdapter(alias, config=None if own else _STRICT)
    return _ADAPTERS[kind]


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"])) or "the whole"
    return f"{place}: {first['msg']}"
