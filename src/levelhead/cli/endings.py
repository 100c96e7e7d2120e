"""The ending of a file decides what is written into it, in every command; it is checked as it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from levelhead.errors import BadOption

OUTPUT = ("-o", "--output")
NUMBERS = (".csv", ".tex", ".json")  # what measurements are written as
_FILES = (".html", ".htm", ".md", ".tex", ".csv", ".tsv", ".json", ".jsonl", ".pdf", ".xml", ".txt", ".toml")


def output_file(about: str, *endings: str, names: tuple[str, ...] = OUTPUT, folder: bool = False) -> Any:
    """An option for a file that is written, with one of these endings. folder: or a folder, without one."""

    def checked(param: typer.CallbackParam, value: Path | None) -> Path | None:
        if value is None or ending(value) in endings or (folder and not _named_as_file(value)):
            return value
        allowed = ", ".join(endings) + (", or a folder" if folder else "")
        raise BadOption(f"{param.opts[0]} {value}: allowed are {allowed}. Give a name that ends so.")

    metavar = "RUN|FILE" if folder else "FILE"
    listed = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
    return typer.Option(*names, metavar=metavar, help=f"{about} {listed}.", callback=checked)


def output_folder(about: str, metavar: str) -> Any:
    """An option for a folder that is written; a name that ends like a file's is a mistake."""

    def checked(param: typer.CallbackParam, value: Path | None) -> Path | None:
        if value is not None and _named_as_file(value):
            name = value.with_suffix("")
            raise BadOption(f"{param.opts[0]} {value}: this command writes a folder. Name one, e.g. {name}.")
        return value

    return typer.Option(*OUTPUT, metavar=metavar, help=about, callback=checked)


def ending(path: Path) -> str:
    """The ending of a file's name, in small letters."""
    return path.suffix.lower()


def _named_as_file(path: Path) -> bool:
    return ending(path) in _FILES and not path.expanduser().is_dir()
