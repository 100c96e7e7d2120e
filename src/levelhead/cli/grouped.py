"""Options that belong together: declared once as a frozen dataclass, given to a command as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


class Options:
    """The parent of groups of options: each field is one option, typed and with its help."""


def flattened(command: Callable[..., None]) -> list[Parameter]:
    """The parameters of a command; where it takes a group, the group's options."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[Parameter] = []
    for each in signature(command).parameters.values():
        if _is_group(hints[each.name]):
            parameters += _options(hints[each.name])
        else:
            parameters.append(each.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[each.name]))
    return parameters


def declared(called: Callable[..., None], parameters: Sequence[Parameter]) -> Callable[..., None]:
    """A function that typer asks for these parameters."""
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def regrouped(command: Callable[..., None], given: Mapping[str, object]) -> dict[str, object]:
    """What was given for options one by one, as the parameters of the command."""
    left = dict(given)
    for name, hint in get_type_hints(command, include_extras=True).items():
        if _is_group(hint):
            left[name] = hint(**{each.name: left.pop(each.name) for each in fields(hint)})
    return left


def _is_group(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Options)


def _options(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]
