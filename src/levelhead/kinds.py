"""What the front door takes: a value of another kind than a function's types allow is one line.

The types are those that the functions declare, so nothing is said twice. Only what people call is checked
like this, where they call it; calls inside the package are checked by mypy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, wraps
from inspect import Parameter, cleandoc, get_annotations, signature
from types import FunctionType, UnionType
from typing import Annotated, Any, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from levelhead.errors import BadOption
from levelhead.options import options

P = ParamSpec("P")
R = TypeVar("R")
_MODEL = "a model that levelhead.load gave"
_WORDS = {  # how kinds are called where their name alone does not help
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "NoneType": "None",
    "Path": "a path",
    "Mapping": "a dict",
    "Model": _MODEL,
    "HasHeads": _MODEL,
    "HasNeurons": _MODEL,
    "Study": "a run",
}
_MOST = 60  # characters of a value that is shown
_IN_MEMORY = "For a transformers model in memory: levelhead.load(hf_model, tokenizer)."
_SETTINGS = "settings"  # the argument whose class help() explains


@cache
def checked_kinds(function: Callable[P, R], public: str) -> Callable[P, R]:
    """The function, which refuses arguments of wrong kinds in one line; its help() explains its settings."""
    declared = signature(function).parameters

    @wraps(function)
    def called(*given: P.args, **named: P.kwargs) -> R:
        try:
            bound = signature(function).bind(*given, **named)
        except TypeError:  # Python itself says which argument is missing, or one too many
            return function(*given, **named)
        hints = get_type_hints(function)
        for name, value in bound.arguments.items():
            if declared[name].kind is Parameter.VAR_KEYWORD:
                continue
            several = declared[name].kind is Parameter.VAR_POSITIONAL
            for each in value if several else (value,):
                if name in hints and not fits(each, hints[name]):
                    allowed = list(dict.fromkeys(_kinds(hints[name])))
                    plain = isinstance(each, str | int | float | Mapping | Sequence)
                    shown = "None" if each is None else type(each).__name__
                    if plain and not is_dataclass(each):
                        shown += f" {str(each)[:_MOST]!r}"
                    line = f"{public}() got {shown} as {name}. "
                    line += f"Give {' or '.join(filter(None, [', '.join(allowed[:-1]), allowed[-1]]))}."
                    raise BadOption(" ".join(f"{line} {_IN_MEMORY if _MODEL in allowed else ''}".split()))
        return function(*given, **named)

    if isinstance(function, FunctionType) and _SETTINGS in declared:
        kinds = get_type_hints(function)[_SETTINGS]
        parts = [cleandoc(function.__doc__ or "")]
        for kind in get_args(kinds) or (kinds,):
            if isinstance(kind, type) and is_dataclass(kind) and kind.__name__.endswith("Settings"):
                told = [f"{name}: {each.option.help}" for name, each in options(kind).items()]
                about = f"settings: {kind.__name__}. {cleandoc(kind.__doc__ or '')}"
                parts.append("\n".join([about, *told]))
        called.__doc__ = "\n\n".join(parts)
    return called


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of a declared kind. Members of sequences are looked at, those of mappings not; any
    value fits other types, as literals."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return fits(value, inside[0])
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in inside)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        listed = isinstance(value, Sequence) and isinstance(value, origin) and not isinstance(value, str)
        return listed and all(fits(each, inside[0]) for each in cast("Sequence[object]", value))
    kind = kind if origin is None else origin
    if kind is Any:
        return True
    if kind in (int, float) and isinstance(value, bool):
        return False  # Python's True is an int; nobody means 1 by it
    if kind is float:
        return isinstance(value, int | float)
    if not isinstance(kind, type):
        return kind is not None or value is None
    if getattr(kind, "_is_protocol", False):
        names = {*vars(kind), *get_annotations(kind)}
        return all(hasattr(value, name) for name in names if not name.startswith("_"))
    return isinstance(value, kind)


def _kinds(kind: Any) -> list[str]:
    """The kinds that a type allows, in words."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _kinds(inside[0])
    if origin in (Union, UnionType):
        return [word for each in inside for word in _kinds(each)]
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence) and inside:
        return [f"a list of these: {', '.join(dict.fromkeys(_kinds(inside[0])))}"]
    plain = origin if isinstance(origin, type) else kind
    if isinstance(plain, type) and any(base.__name__ == "Study" for base in plain.__mro__):
        return [_WORDS["Study"]]
    name = getattr(plain, "__name__", str(plain))
    return [_WORDS.get(name, "a dict" if plain is Mapping else name)]
