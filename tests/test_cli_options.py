"""Every option of every command, as the commands themselves declare them: sizes and texts beyond bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter, signature
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from typer.models import ArgumentInfo

from levelhead.cli.commands import built, function_of, listed
from levelhead.cli.terminal import one_line
from levelhead.errors import BadProbe
from tests.test_cli import refusal

MOST = 500  # characters of an error
LONG = ("a" * 10_000, "a/" * 5_000, "two words " * 1_000, "lh:" + "é" * 10_000, "1" * 10_000, "=" * 10_000)


@dataclass(frozen=True)
class Option:
    """An option or an argument of a command, as its function declares it."""

    command: str
    flag: str  # "" for an argument
    kind: type  # of one value
    values: int = 1  # that it takes at once
    needed: bool = False  # an argument, or an option without a default

    def __str__(self) -> str:
        return f"{self.command} {self.flag or self.kind.__name__}"

    def given(self, value: str) -> list[str]:
        """The option with a value, as it is typed."""
        return [*([self.flag] if self.flag else []), *[value] * self.values]


def options() -> Iterator[Option]:
    for name in listed():
        hints = get_type_hints(function_of(name), include_extras=True)
        for parameter in signature(function_of(name)).parameters.values():
            if parameter.name != "context":
                yield declared(name, parameter, hints[parameter.name])


def declared(command: str, parameter: Parameter, hint: Any) -> Option:
    assert get_origin(hint) is Annotated
    kind, info = get_args(hint)
    if type(None) in get_args(kind):
        kind = get_args(kind)[0]
    values = len(get_args(kind)) if get_origin(kind) is tuple else 1
    flags = [flag for flag in info.param_decls or () if flag.startswith("-")]
    argument = isinstance(info, ArgumentInfo)
    flag = "" if argument else next(iter(flags), f"--{parameter.name.replace('_', '-')}")
    needed = argument or parameter.default is Parameter.empty
    return Option(command, flag, (get_args(kind) or (kind,))[-1], values, needed)


def typed(option: Option, value: str) -> list[str]:
    """The command with this option, and with all that it needs beside it."""
    others = [each for each in OPTIONS if each.command == option.command and each.needed and each != option]
    return [option.command, *option.given(value), *(word for each in others for word in valid(each))]


def valid(option: Option) -> list[str]:
    """A value that nothing is wrong with."""
    if issubclass(option.kind, Enum):
        return option.given(next(iter(option.kind)).value)
    return option.given("lh:bert-mini" if option.kind is str else "new")


OPTIONS = list(options())
SIZES = [option for option in OPTIONS if option.kind is int]
TEXTS = [option for option in OPTIONS if option.kind is not bool]


def short(value: object) -> str:
    return str(value)[:20]


def test_the_commands_tell_all_their_options() -> None:
    assert {*listed()} == {option.command for option in OPTIONS}
    flags = {str(option) for option in SIZES}
    assert {
        "heads --top",
        "nli --limit",
        "counteracts --null",
        "compare-heads --top",
        "glue --epochs",
    } <= flags
    assert next(option.values for option in SIZES if str(option) == "nli --limit") == 2
    assert {str(option) for option in OPTIONS if option.needed} >= {
        "heads str",
        "card Path",
    }


def test_no_help_text_of_an_option_is_written_twice() -> None:
    texts: dict[str, set[int]] = {}
    for name in listed():
        for hint in get_type_hints(function_of(name), include_extras=True).values():
            if get_origin(hint) is Annotated and (text := get_args(hint)[1].help):
                texts.setdefault(text, set()).add(id(text))
    assert [text for text, places in texts.items() if len(places) > 1] == []


def test_a_switch_that_turns_something_off_shows_no_default() -> None:
    for name in listed():
        for option in built(name).params:
            flags = (*option.opts, *option.secondary_opts)
            if option.default is True and any(flag.startswith("--no-") for flag in flags):
                assert not option.show_default, f"{name} {option.name}"


def test_one_null_model_is_refused_as_it_is_typed_and_help_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = [option for option in OPTIONS if option.flag == "--null"]
    assert {option.command for option in own} >= {
        "audit",
        "heads",
        "benchmark",
        "atlas",
        "counteracts",
        "mitigate",
    }
    for option in own:
        none = option.command != "mitigate"  # which certifies nothing without null models
        code, line = refused(typed(option, "1"), monkeypatch, capsys)
        assert (code, line) == (2, f"levelhead: null must be {'0 or ' * none}at least 2 (got 1)\n")
        params = built(option.command).params
        assert "at least 2" in next(each.help for each in params if each.name == "null")


LOADERS = ("studies.audit.run", "studies.survey.run", "studies.reproduce.run", "api.studies", "models.model")


def refused(
    args: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """The exit code and the one line of a command that may go no further than to a model's loading."""

    def reached(*names: object, **_: object) -> None:
        raise BadProbe(f"reached {names} in {args}")

    for module in LOADERS:  # the last one last: what is first imported after it would keep it
        monkeypatch.setattr(f"levelhead.{module}.load", reached)
    return refusal(monkeypatch, capsys, *args)


@pytest.mark.parametrize("option", SIZES, ids=str)
def test_a_size_beyond_64_bits_is_refused_by_its_name_before_anything_runs(
    option: Option, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for size in (2**63, 10**30, -(2**63) - 1)[: 3 if option == SIZES[0] else 1]:
        code, line = refused(typed(option, str(size)), monkeypatch, capsys)
        assert code == 2, line
        assert option.flag in line
        assert "reached" not in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("option", "text"), list(zip(TEXTS, cycle(LONG), strict=False)), ids=short)
def test_an_error_about_10000_characters_is_one_short_line(
    option: Option,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, line = refused(typed(option, text), monkeypatch, capsys)
    assert code in (2, 3, 4), line
    assert len(line) <= MOST, line
    assert "an unexpected" not in line
    assert list(tmp_path.iterdir()) == []


def test_what_is_too_long_is_cut_in_its_middle_so_that_the_end_still_says_what_to_do() -> None:
    end = " is no model. Give a folder."
    word = one_line("a" * 10_000 + end)
    assert word.endswith(f"aaa{end}")
    assert len(word) < MOST
    text = one_line("a b " * 5_000 + end)
    assert text.endswith(f"a b{end}")
    assert len(text) < MOST
    assert one_line("short \x1b[31m\n line") == "short [31m line"
