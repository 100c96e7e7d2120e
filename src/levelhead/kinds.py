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
    "StudyRun": "a run",
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
                    raise BadOption(_refusal(public, name, each, hints[name]))
        return function(*given, **named)

    called.__doc__ = _explained(function)
    return called


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of a declared kind. Members of sequences are looked at, those of mappings not."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return fits(value, inside[0])
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in inside)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        listed = isinstance(value, Sequence) and isinstance(value, origin) and not isinstance(value, str)
        return listed and all(fits(each, inside[0]) for each in cast("Sequence[object]", value))
    return _is_of(value, kind if origin is None else origin)


def _is_of(value: object, kind: Any) -> bool:
    """Whether a value is of a class, or has what a protocol asks for; True for other types, as literals."""
    if kind is Any:
        return True
    if kind in (int, float) and isinstance(value, bool):
        return False
    if kind is float:
        return isinstance(value, int | float)
    if not isinstance(kind, type):
        return kind is not None or value is None
    if getattr(kind, "_is_protocol", False):
        names = {*vars(kind), *get_annotations(kind)}
        return all(hasattr(value, name) for name in names if not name.startswith("_"))
    return isinstance(value, kind)


def _refusal(function: str, name: str, value: object, kind: Any) -> str:
    """What came, what is allowed, what to do."""
    plain = isinstance(value, str | int | float | Mapping | Sequence) and not is_dataclass(value)
    shown = "None" if value is None else type(value).__name__ + (f" {str(value)[:_MOST]!r}" if plain else "")
    allowed = list(dict.fromkeys(_kinds(kind)))
    line = f"{function}() got {shown} as {name}. "
    line += f"Give {' or '.join(filter(None, [', '.join(allowed[:-1]), allowed[-1]]))}."
    return " ".join(f"{line} {_IN_MEMORY if _MODEL in allowed else ''}".split())


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
    if isinstance(plain, type) and any(base.__name__ == "StudyRun" for base in plain.__mro__):
        return [_WORDS["StudyRun"]]
    name = getattr(plain, "__name__", str(plain))
    return [_WORDS.get(name, "a dict" if plain is Mapping else name)]


# ---- help()


def _explained(function: Callable[..., Any]) -> str | None:
    """The function's docstring, and below it that of the settings which it takes."""
    if not isinstance(function, FunctionType) or _SETTINGS not in signature(function).parameters:
        return function.__doc__
    kinds = get_type_hints(function)[_SETTINGS]
    settings: list[Any] = [kind for kind in get_args(kinds) or (kinds,) if _is_settings(kind)]
    parts = [cleandoc(function.__doc__ or "")]
    parts += [f"settings: {kind.__name__}. {cleandoc(kind.__doc__ or '')}" for kind in settings]
    return "\n\n".join(parts)


def _is_settings(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind) and kind.__name__.endswith("Settings")
