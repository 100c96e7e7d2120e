"""How a run is made again: the command line, or the Python call, of its stored settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from itertools import chain
from typing import Any

from levelhead.edits.sites import Head
from levelhead.options import Declared, groups, options
from levelhead.runs.study import Study

_HIDDEN = "..."  # what only the one who made it has


def command(run: Study[Any]) -> str:
    """A line for the shell, quoted; or lines of Python, with a comment that says what no option can name."""
    stored = run.settings
    unsaid, words = list(stored.in_memory), []
    own, inner = list(_changed(run.settings_type, stored)), groups(run.settings_type).items()
    changed = own + [each for name, kind in inner for each in _changed(kind, getattr(stored, name))]
    for each, value in changed:
        if each.option.argument or each.name in unsaid:
            continue
        needs, _, part = each.option.needs.partition("=")
        needed: Any = getattr(stored, needs) if needs else True
        # what changes nothing without another setting is stored, but the command refuses it
        written = _written(each, value) if (part in needed if part else needed) else []
        words += written
        unsaid += [] if written else [each.name]
    if stored.loading.in_python:
        unsaid.append("a model in memory, or one that is edited")
    if unsaid:
        named = ", ".join(unsaid)
        return f"# in Python, because `{run.command}` has no option for {named}\n{python_call(run)}"
    for name, value in stored.loading.to_json().items():
        if value:
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if value is True else [flag, str(value)]
    arguments = [
        str(getattr(stored, name))
        for name, each in options(run.settings_type).items()
        if each.option.argument
    ]
    arguments += [] if run.takes == "nothing" else stored.models
    options_last = [*words, *_named("-o", str(run.folder), "--output")]
    typed = [*arguments, *options_last]
    if any(each.startswith("-") for each in arguments):  # a name that could be taken for an option
        typed = [*options_last, "--", *arguments]
    return shlex.join([*run.command.split(), *typed])


def python_call(run: Study[Any]) -> str:
    """The call of the study's function; `...` stands for what was made in memory."""
    stored = run.settings
    inside = {each.name: _python(value) for each, value in _changed(run.settings_type, stored)}
    inside |= dict.fromkeys(stored.in_memory, _HIDDEN)
    for name, kind in groups(run.settings_type).items():
        given = [f"{each.name}={_python(value)}" for each, value in _changed(kind, getattr(stored, name))]
        inside |= {name: f"lh.settings.{kind.__name__}({', '.join(given)})"} if given else {}
    loading = "".join(f", {key}={value!r}" for key, value in stored.loading.to_json().items() if value)
    models = [
        _HIDDEN if stored.loading.in_python else f"lh.load({name!r}{loading})" if loading else repr(name)
        for name in stored.models
    ]
    model = f"[{', '.join(models)}]" if run.takes in ("models", "runs") else (*models, "None")[0]
    given = [f"{name}={value}" for name, value in inside.items()]
    made = f"lh.settings.{run.settings_type.__name__}({', '.join(given)})"
    place = repr(str(run.folder))
    if run.takes == "nothing":  # it loads its models itself
        model, place = "None", f"{place}{loading}"
    return f"import levelhead as lh\nlh.{run.name}({model}, {made}, {place})"


def _changed(kind: Any, stored: Any) -> Iterator[tuple[Declared, Any]]:
    """Settings that differ from their defaults, with their values."""
    for name, each in options(kind).items():
        if (value := getattr(stored, name)) != each.default:
            yield each, value


def _written(each: Declared, value: Any) -> list[str]:
    """An option with its value; nothing where the command cannot say it."""
    if each.option.python_only or value is None or value == "":
        return []
    if each.type is bool:
        return [each.flag if value else f"--no-{each.flag[2:]}"]
    if isinstance(value, Mapping):
        plain = all(name and part and "=" not in name for name, part in value.items())
        words = [_named(each.flag, f"{name}={part}") for name, part in value.items()]
        return list(chain(*words)) if plain else []
    if each.fixed:
        return [each.flag, *map(str, value)]
    if each.several:
        parts = [str(part) for part in value]
        if len({*parts}) < len(parts):  # commands take each once
            return []
        if each.option.each:
            return list(chain(*(_named(each.flag, part) for part in parts)))
        plain = all(part and part == part.strip() and "," not in part for part in parts)
        return _named(each.flag, ",".join(parts)) if plain and parts else []
    return _named(each.flag, str(value))


def _named(name: str, value: str, long: str = "") -> list[str]:
    """An option and its value; joined where the value could be taken for an option."""
    return [f"{long or name}={value}"] if value.startswith("-") else [name, value]


def _python(value: Any) -> str:
    """A value as Python writes it."""
    if isinstance(value, Head):
        return f"lh.{value!r}"
    if is_dataclass(value) and not isinstance(value, type):
        usual = {each.name: each.default for each in fields(value) if each.default is not MISSING}
        given = [f"{n}={_python(getattr(value, n))}" for n in usual if getattr(value, n) != usual[n]]
        return f"lh.settings.{type(value).__name__}({', '.join(given)})"
    if isinstance(value, tuple) and any(isinstance(each, Head) for each in value):
        return f"({', '.join(map(_python, value))},)"
    return repr(value)
