"""Settings as options of a command: each declaration (options.py) as typer is told of it, and what was typed
as settings again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from inspect import Parameter, Signature, signature
from pathlib import Path
from sys import intern
from typing import Annotated, Any, Optional, get_type_hints

import typer
from typer.models import ArgumentInfo

from levelhead.cli.preflight import check_named, listed
from levelhead.edits.sites import Head
from levelhead.errors import BadOption
from levelhead.options import Declared, Settings, groups, inapplicable, options


def with_parameters(called: Callable[..., None], parameters: Sequence[Parameter]) -> Callable[..., None]:
    """A function with the signature that typer reads: these parameters."""
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def made(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    """A parameter of a command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def flattened(command: Callable[..., None]) -> list[Parameter]:
    """The parameters of a command, arguments first; where it takes settings, an option for each of them."""
    hints = get_type_hints(command, include_extras=True)
    shown: list[Parameter] = []
    for each in signature(command).parameters.values():
        if not _is_settings(kind := hints[each.name]):
            shown.append(each.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))
            continue
        for own in (kind, *groups(kind).values()):
            shown += [_parameter(one) for one in options(own).values() if not one.option.python_only]
    told = {each.name: getattr(each.annotation, "__metadata__", ()) for each in shown}
    return sorted(shown, key=lambda each: not any(isinstance(one, ArgumentInfo) for one in told[each.name]))


def regrouped(
    command: Callable[..., None], given: Mapping[str, object], typed: set[str]
) -> dict[str, object]:
    """What was given for options one by one, as the parameters of the command; what changes nothing is
    refused, and so is what names nothing. typed: the names of those that stood on the command line."""
    hints = get_type_hints(command, include_extras=True)
    values: dict[str, object] = {}
    for parameter in signature(command).parameters:
        if not _is_settings(kind := hints[parameter]):
            values[parameter] = given[parameter]
            continue
        inner = {name: group(**_values(group, given)) for name, group in groups(kind).items()}
        settings = values[parameter] = kind(**_values(kind, given), **inner)
        if idle := inapplicable(settings, typed):
            names = " and ".join(options(kind)[name].flag for name in idle)
            needed = " and ".join(dict.fromkeys(idle.values()))
            raise BadOption(f"{names} would change nothing without {needed}. Add that, or leave it out.")
        for name, each in options(kind).items():
            value = getattr(settings, name)
            if each.option.kind and value and name in typed:
                check_named(each.option.kind, value)
    return values


def _is_settings(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Settings)


# ---- as options

_METAVARS = {bool: "", int: "N", float: "X", Path: "FILE"}  # short: the widest one narrows every help text


def _parameter(each: Declared) -> Parameter:
    """A setting as typer is told of it. Lists are repeated options, or have commas between their parts."""
    kind: Any = each.type if each.type in (int, float, bool, Path) else str
    default = None if each.default is MISSING else each.default
    if each.several or each.named:
        kind, default = Optional[list[str]], None  # noqa: UP045 - typer reads it
    elif each.fixed:
        kind = Optional[each.type]  # noqa: UP045
    elif each.default is None:
        kind = Optional[kind]  # noqa: UP045
    help = each.option.help
    needed, _, part = each.option.needs.partition("=")
    if needed:
        help = f"With --{needed.replace('_', '-')}{f' {part}' if part else ''}: {help[0].lower()}{help[1:]}"
    if each.several and each.default and "efault" not in help:  # typer shows no defaults of lists
        help = f"{help} [default: {','.join(map(str, each.default))}]"
    plain = _METAVARS.get(each.type, "LIST" if each.several or each.fixed else "TEXT")
    told: dict[str, Any] = {"help": intern(help), "metavar": each.option.metavar or plain}
    if each.option.argument:
        return made(each.name, Annotated[kind, typer.Argument(**told)], default)
    flag = each.flag
    if kind is bool and default is True:
        flag = f" /--no-{flag[2:]}"
        told["show_default"] = False  # it would be the opposite of what the switch says
    if default is None or default == "":
        told["show_default"] = False
    usual = Parameter.empty if each.default is MISSING else default
    return made(each.name, Annotated[kind, typer.Option(flag, **told)], usual)


# ---- as settings again


def _values(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    readers: dict[Any, Callable[[str], Any]] = {Head: Head.parse, int: int, float: float}
    values: dict[str, Any] = {}
    for name, each in options(kind).items():
        value = given.get(name)
        if value is None or (value == [] and (each.several or each.named)):
            continue
        if each.named:
            named = {text: text.partition("=") for text in value}
            if wrong := [text for text, (key, _, file) in named.items() if not (key and file)]:
                raise BadOption(f"{each.flag} must be NAME=FILE, as crows-pairs=FILE (got {wrong[0]})")
            value = {key: file for key, _, file in named.values()}
        elif each.several:
            read = readers.get(each.type.__args__[0], str)
            typed = []
            for part in value if each.option.each else [part for text in value for part in listed(text)]:
                try:
                    typed.append(read(part))
                except ValueError:
                    line = f"{each.flag} must be numbers, such as {each.default} (got {part!r})"
                    raise BadOption(line) from None
            value = tuple(dict.fromkeys(typed))
        values[name] = value
    return values
