"""The tables of a recipe file, read value by value (recipe.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from levelhead.errors import BadOption
from levelhead.probes.files import finite, shown

_KEYS: dict[str, tuple[str, ...]] = {
    "the file": ("title", "model", "fit", "gate", "neurons", "projection", "steering", "symmetrize"),
    "[model]": ("name", "fingerprint"),
    "[fit]": ("on", "pairs"),
    "[steering]": ("strength",),
    "[symmetrize]": ("words", "coin"),
    "[[gate]]": ("layer", "head", "value"),
    "[[neurons]]": ("layer", "numbers", "value"),
    "[[projection]]": ("location", "layer", "dimensions", "soft", "method", "strength"),
}


@dataclass(frozen=True)
class Table:
    """A table of a recipe file, read value by value; a fault is said with the file and the place."""

    file: Path
    kind: str  # of table, as in _KEYS
    values: Mapping[str, object]
    place: str  # which one it is

    def __post_init__(self) -> None:
        for key in self.values:
            if key not in _KEYS[self.kind]:
                self.fail(f"unknown key {key!r}; allowed are {', '.join(_KEYS[self.kind])}")

    def fail(self, complaint: str) -> NoReturn:
        raise BadOption(f"{self.file.name}: {self.place}: {complaint}.")

    def table(self, key: str) -> Table:
        """The table under a key; an empty one where there is none."""
        values = self.values.get(key, {})
        if not isinstance(values, dict):
            raise BadOption(f"{self.file.name}: {key}: write it as a table, [{key}].")
        return Table(self.file, f"[{key}]", values, f"[{key}]")

    def tables(self, key: str) -> list[Table]:
        """The tables under a key that may stand there several times."""
        tables = self.values.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(values, dict) for values in tables):
            raise BadOption(f"{self.file.name}: {key}: write each as a table of its own, [[{key}]].")
        kind = f"[[{key}]]"
        return [Table(self.file, kind, each, f"{kind} number {i}") for i, each in enumerate(tables, start=1)]

    def number(self, key: str, default: float) -> float:
        value = finite(self.values.get(key, default))
        if value is None:
            self._wrong(key, "a number is needed")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(key, "a whole number is needed")
        return value

    def numbers(self, key: str) -> list[int]:
        """Distinct whole numbers that count from 1."""
        values = self.values.get(key)
        whole = isinstance(values, list) and all(type(value) is int and value > 0 for value in values)
        if not isinstance(values, list) or not values or not whole or len(set(values)) < len(values):
            self._wrong(key, "a list of distinct whole numbers is needed, counted from 1")
        return values

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self._wrong(key, "true or false")
        return value

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            self._wrong(key, "a text is needed")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or value not in allowed:
            self._wrong(key, f"allowed are {', '.join(allowed)}")
        return value

    def _wrong(self, key: str, allowed: str) -> NoReturn:
        given = shown(self.values[key]) if key in self.values else "missing"
        self.fail(f"{key} is {given}; {allowed}")
