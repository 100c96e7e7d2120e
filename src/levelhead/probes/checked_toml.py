"""TOML files of the user's that are checked against a model, every mistake named by its key and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from levelhead.errors import BadProbe
from levelhead.probes.files import parse_toml, read_text, shown

Key = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*\[(\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]+"|'[^']+'|[\w-]+)\s*=""")
_MESSAGES = {
    "missing": "this key is needed and not there",
    "extra_forbidden": "this key is unknown; remove it or correct its spelling",
}


class Checked(BaseModel):
    """A part of a file: it may have no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_M = TypeVar("_M", bound=Checked)


@dataclass(frozen=True)
class Source:
    """The file and where its keys stand, so that an error can name the line."""

    path: Path
    lines: dict[Key, int]

    def fail(self, key: Key, message: str) -> BadProbe:
        """The error to raise: `age.toml, line 45: knowledge.6.text: …`."""
        known = next((key[:end] for end in range(len(key), 0, -1) if key[:end] in self.lines), None)
        where = f", line {self.lines[known]}" if known else ""
        name = ".".join(str(part + 1) if isinstance(part, int) else part for part in key)
        return BadProbe(f"{self.path.name}{where}: {name}: {message}")


def read_checked(path: Path, model: type[_M], what: str, page: str) -> tuple[_M, Source]:
    """The content of a TOML file as this model has it; page is where its form is explained."""
    text = read_text(path, f"Give {what}, a .toml file in UTF-8.")
    table = parse_toml(path, text, f"See {page}.")
    source = Source(path, dict(_key_lines(text)))
    try:
        return model.model_validate(table), source
    except ValidationError as error:
        mistake: Any = error.errors()[0]
    message = _MESSAGES.get(mistake["type"], f"{mistake['msg']}, not {shown(mistake['input'])}")
    raise source.fail(mistake["loc"], f"{message}. See {page}.")


def _key_lines(text: str) -> Iterator[tuple[Key, int]]:
    """Every key with its line: tomllib keeps no positions; a line scan does for the forms we document."""
    table: Key = ()
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            name = header[2]
            table = tuple(part.strip().strip("\"'") for part in name.split("."))
            if header[1]:
                table = (*table, seen.get(name, 0))
                seen[name] = seen.get(name, 0) + 1
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, key[1].strip("\"'")), number
