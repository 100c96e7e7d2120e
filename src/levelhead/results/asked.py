"""How what a run was asked is asked again: the command line, or the Python call, of its stored settings.

Each stored setting says, beside its type, how it is asked for: as an argument or an option of the study's
command, in Python alone, or not at all because it follows from the others. Nothing else knows the names of
options: a setting without such a word is refused by the tests, and so is an option that no setting has.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

Form = Literal["value", "list", "each", "named", "several", "switch"]
LAST_SEED = 2**32 - 1  # the largest that every generator of random numbers takes
REQUIRED = object()  # the default of an option that is always written


@dataclass(frozen=True)
class Argument:
    """A setting that stands in the command without a name: a model, or several."""


@dataclass(frozen=True)
class Option:
    """A setting with an option of its own, which is left out where it has its default.

    form: one value; a list with commas; the option repeated for each value, or for each NAME=VALUE of a
    mapping; several values behind it; or a switch, which is written where the setting equals `on`. needs:
    another setting, and what it must contain, because the command refuses an option that would change
    nothing.
    """

    name: str
    default: object = field(default=None, hash=False)  # a mapping has no hash
    form: Form = "value"
    on: object = True
    needs: tuple[str, str] | None = None
    most: int | None = None  # the largest number that the command takes


@dataclass(frozen=True)
class InPython:
    """A setting that no option has: any other value than this needs a Python call."""

    default: object


@dataclass(frozen=True)
class Follows:
    """A setting that follows from the others, from the model or from the data."""


Asking = Argument | Option | InPython | Follows


@dataclass(frozen=True)
class Command:
    """A command that makes runs of a study. implied: settings that it has without an option for them."""

    words: tuple[str, ...]
    implied: Mapping[str, object] = field(default_factory=dict)
    model: str = ""  # the option that names a model, where that is no argument
    only: frozenset[str] | None = None  # the options that it has, where those are not all


@dataclass(frozen=True)
class Asked:
    """One stored setting: its value, and how it is asked for."""

    field: str
    value: Any
    how: Asking


def asked(settings: Any, prefix: str = "") -> Iterator[Asked]:
    """The settings of a run one by one, those of records inside it too."""
    hints = get_type_hints(type(settings), include_extras=True)
    for each in fields(settings):
        value = getattr(settings, each.name)
        how = how_asked(hints[each.name])
        if how is not None:
            yield Asked(prefix + each.name, value, how)
        elif hasattr(value, "to_json"):
            yield from asked(value, f"{prefix}{each.name}.")


def how_asked(hint: Any) -> Asking | None:
    """What a field's type says about how it is asked for; None where it says nothing."""
    return next((word for word in getattr(hint, "__metadata__", ()) if isinstance(word, Asking)), None)


@dataclass(frozen=True)
class Line:
    """A command as words of a shell, and the settings that it cannot ask for."""

    words: tuple[str, ...]
    unsaid: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words)


def command_line(command: Command, settings: Any, folder: str | Path) -> Line:
    """The command with every option that the settings need. Their order is that of the settings."""
    everything = {each.field: each for each in settings.asked()}
    options: list[str] = []
    arguments: list[str] = []
    unsaid: list[str] = []
    for each in everything.values():
        if isinstance(each.how, Argument):
            given = [each.value] if isinstance(each.value, str) else list(each.value)
            names = [name for name in given if name]
            if command.model:
                options += [word for name in names for word in _named(command.model, name)]
            else:
                arguments += names
        elif not isinstance(each.how, Follows) and not _is_default(command, each):
            words = _option_words(command, each.how, each.value, everything)
            options += words
            unsaid += [] if words else [each.field]
    guarded = ["--", *arguments] if any(name.startswith("-") for name in arguments) else arguments
    place = _named("-o", str(folder), "--output")
    before = [] if guarded != arguments else arguments
    after = guarded if guarded != arguments else []
    return Line(("levelhead", *command.words, *before, *options, *place, *after), tuple(unsaid))


def _is_default(command: Command, each: Asked) -> bool:
    if each.field in command.implied:
        return bool(each.value == command.implied[each.field])
    how = each.how
    return isinstance(how, Option | InPython) and how.default is not REQUIRED and each.value == how.default


def _option_words(command: Command, how: Asking, value: Any, settings: Mapping[str, Asked]) -> list[str]:
    """An option with its value; nothing where the command cannot say it."""
    if not isinstance(how, Option) or (command.only is not None and how.name not in command.only):
        return []
    if how.needs is not None and how.needs[1] not in settings[how.needs[0]].value:
        return []
    return _FORMS[how.form](how, value)


def _named(name: str, value: str, long: str = "") -> list[str]:
    """An option and its value; joined where the value could be taken for an option."""
    return [f"{long or name}={value}"] if value.startswith("-") else [name, value]


def _one(how: Option, value: Any) -> list[str]:
    too_large = how.most is not None and not 0 <= value <= how.most
    return [] if value is None or too_large else _named(how.name, str(value))


def _listed(how: Option, value: Any) -> list[str]:
    """A list with commas; nothing where a comma or a space at an end would be lost."""
    parts = [str(part) for part in value]
    plain = all(part and part == part.strip() and "," not in part for part in parts)
    return _named(how.name, ",".join(parts)) if plain and parts else []


def _each(how: Option, value: Any) -> list[str]:
    return [word for part in value for word in _named(how.name, str(part))]


def _name_by_name(how: Option, value: Any) -> list[str]:
    return [word for name, part in value.items() for word in _named(how.name, f"{name}={part}")]


def _several(how: Option, value: Any) -> list[str]:
    return [how.name, *map(str, value)]


def _switch(how: Option, value: Any) -> list[str]:
    return [how.name] if value == how.on else []


_FORMS: Mapping[Form, Callable[[Option, Any], list[str]]] = {
    "value": _one,
    "list": _listed,
    "each": _each,
    "named": _name_by_name,
    "several": _several,
    "switch": _switch,
}
