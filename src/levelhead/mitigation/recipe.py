"""Recipes: small TOML files that say which edits make a mitigated model (docs/export.md, and docs/method.md,
Projection, Export).

    [model]                      # for which model; optional
    name = "lh:bert-mini"
    fingerprint = "5b1c..."

    [fit]                        # where the directions of projections come from
    on = "base"                  # the untouched model, or "sequential": with the earlier interventions on
    pairs = "auto"               # shipped pairs that suit the model; or "single", "pairs", "frames", a file

    [[gate]]                     # layers and heads are counted from 1
    layer = 3
    head = 5
    value = 0.0

    [[projection]]
    location = "tokens"          # sent, cls, tokens, query, key, value
    layer = -2                   # counted from the last: -1; or from the first: 1
    dimensions = 2
    soft = true
    method = "pca"               # or "leace", "inlp"

Only what is needed has to be there: gates alone need no [fit].
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, cast, get_args

from levelhead.edits.head import Head
from levelhead.edits.sites import Part, Site
from levelhead.errors import BadOption
from levelhead.models.model import Model

Location = Literal["sent", "cls", "tokens", "query", "key", "value"]
Method = Literal["pca", "leace", "inlp"]
Fit = Literal["base", "sequential"]

_PARTS: dict[Location, Part] = {
    "sent": "pooled",
    "cls": "cls",
    "tokens": "block",
    "query": "query",
    "key": "key",
    "value": "value",
}
_LAYERS: dict[Location, int] = {"sent": 0, "cls": -1, "tokens": -2, "query": -2, "key": -2, "value": -2}
_KEYS: dict[str, tuple[str, ...]] = {
    "the file": ("title", "model", "fit", "gate", "projection"),
    "[model]": ("name", "fingerprint"),
    "[fit]": ("on", "pairs"),
    "[[gate]]": ("layer", "head", "value"),
    "[[projection]]": ("location", "layer", "dimensions", "soft", "method"),
}


@dataclass(frozen=True)
class Step:
    """One projection of a recipe. layer: an index from 0, or a negative one from the last (-1); at sent it
    does not matter."""

    location: Location
    layer: int
    dimensions: int = 1
    soft: bool = False
    method: Method = "pca"

    def site(self, model: Model) -> Site:
        """Where that is in this model."""
        layer = self.layer + model.layers if self.layer < 0 else self.layer
        if not 0 <= layer < model.layers:
            layers = f"1 to {model.layers} (or -{model.layers} to -1)"
            raise BadOption(f"{model.name} has layers {layers}; the recipe asks for {self.counted_layer}.")
        return Site(layer, _PARTS[self.location])

    @property
    def counted_layer(self) -> int:
        """The layer as people count it: from 1, or from the last, -1."""
        return self.layer if self.layer < 0 else self.layer + 1


@dataclass(frozen=True)
class Recipe:
    """Which edits make a model: gates by head, and projections in the order given."""

    gates: Mapping[Head, float] = field(default_factory=dict)
    projections: tuple[Step, ...] = ()
    fit: Fit = "base"
    pairs: str = "auto"
    title: str = ""
    model: str | None = None
    fingerprint: str | None = None

    def check_model(self, model: Model) -> None:
        """Refuse a recipe that was made for other weights: heads and directions mean nothing there."""
        if self.fingerprint is not None and self.fingerprint != model.fingerprint:
            raise BadOption(
                f"The recipe was made for {self.model or 'a model'} with weights {self.fingerprint[:12]}; "
                f"{model.name} has {model.fingerprint[:12]}. Give that model, or drop `fingerprint`."
            )


def step(
    location: Location,
    layer: int | None = None,
    dimensions: int = 1,
    soft: bool = False,
    method: Method = "pca",
) -> Step:
    """A projection at a location, at its usual layer: cls at the last, tokens, query, key and value at the
    one before (docs/method.md, Projection)."""
    return Step(location, _LAYERS[location] if layer is None else layer, dimensions, soft, method)


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a file; what is wrong in it is said with the file and the key."""
    file = Path(path).expanduser()
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise BadOption(
            f"{file} cannot be read ({why}). Give a recipe file; docs/export.md shows one."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise BadOption(f"{file.name} is not TOML: {error}. docs/export.md shows a recipe.") from error
    return _Reader(file).recipe(data)


def recipe_text(recipe: Recipe) -> str:
    """The recipe as TOML, which `read_recipe` reads back as the same."""
    lines = [f"title = {_toml(recipe.title)}"] if recipe.title else []
    made_for = {"name": recipe.model or "", "fingerprint": recipe.fingerprint or ""}
    if any(made_for.values()):
        lines += _table("[model]", {key: value for key, value in made_for.items() if value})
    if recipe.projections:
        lines += _table("[fit]", {"on": recipe.fit, "pairs": recipe.pairs})
    for (layer, head), value in sorted(recipe.gates.items()):
        lines += _table("[[gate]]", {"layer": layer + 1, "head": head + 1, "value": float(value)})
    for projection in recipe.projections:
        place = {} if projection.location == "sent" else {"layer": projection.counted_layer}
        manner = {
            "dimensions": projection.dimensions,
            "soft": projection.soft,
            "method": projection.method,
        }
        lines += _table("[[projection]]", {"location": projection.location, **place, **manner})
    return "\n".join(lines).lstrip("\n") + "\n"


def _table(header: str, values: Mapping[str, str | float | bool]) -> list[str]:
    return ["", header, *(f"{key} = {_toml(value)}" for key, value in values.items())]


def _toml(value: str | float | bool) -> str:
    """A value as JSON: texts, finite numbers and booleans are the same in TOML, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class _Reader:
    """Reads a recipe's tables value by value, and names the file and the place of a fault."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def recipe(self, data: dict[str, Any]) -> Recipe:
        self.keys(data, "the file")
        made_for, fit = self.table(data, "model"), self.table(data, "fit")
        gates: dict[Head, float] = {}
        for where, table in self.tables(data, "gate"):
            head = Head(*(self.whole(table, key, where) - 1 for key in ("layer", "head")))
            if min(head) < 0:
                self.fail(where, "layer and head are counted from 1")
            if head in gates:
                self.fail(where, f"head {head} stands there twice")
            gates[head] = self.number(table, "value", where, 0.0)
        steps = tuple(self.step(table, where) for where, table in self.tables(data, "projection"))
        if not gates and not steps:
            self.fail("", "no [[gate]] and no [[projection]]: nothing would change")
        return Recipe(
            gates=gates,
            projections=steps,
            fit=cast(Fit, self.choice(fit, "on", "[fit]", get_args(Fit), "base")),
            pairs=self.pairs(fit),
            title=self.text(data, "title", "the file") or "",
            model=self.text(made_for, "name", "[model]"),
            fingerprint=self.text(made_for, "fingerprint", "[model]"),
        )

    def step(self, table: dict[str, Any], where: str) -> Step:
        location = cast(Location, self.choice(table, "location", where, get_args(Location), None))
        layer = self.whole(table, "layer", where, _LAYERS[location] or 1)
        if layer == 0:
            self.fail(where, "layer is 0; the first is 1, the last is -1")
        dimensions = self.whole(table, "dimensions", where, 1)
        if dimensions < 1:
            self.fail(where, f"dimensions is {dimensions}; at least 1")
        soft = table.get("soft", False)
        if not isinstance(soft, bool):
            self.fail(where, f"soft is {soft!r}; true or false")
        method = cast(Method, self.choice(table, "method", where, get_args(Method), "pca"))
        if soft and method != "pca":
            self.fail(where, f"soft belongs to method 'pca'; {method} is always hard")
        return Step(location, layer - 1 if layer > 0 else layer, dimensions, soft, method)

    def pairs(self, fit: dict[str, Any]) -> str:
        """A file of pairs is meant relative to the recipe."""
        named = self.text(fit, "pairs", "[fit]") or "auto"
        shipped = ("auto", "single", "pairs", "frames")
        return named if named in shipped else str(self.file.parent / Path(named).expanduser())

    # ---- single values

    def fail(self, where: str, complaint: str) -> NoReturn:
        raise BadOption(f"{self.file.name}{': ' + where if where else ''}: {complaint}.")

    def keys(self, table: dict[str, Any], where: str) -> None:
        allowed = _KEYS[where.split(" number")[0]]
        for key in table:
            if key not in allowed:
                self.fail(where, f"unknown key {key!r}; allowed are {', '.join(allowed)}")

    def table(self, data: dict[str, Any], key: str) -> dict[str, Any]:
        table = data.get(key, {})
        if not isinstance(table, dict):
            self.fail(key, f"write it as a table, [{key}]")
        self.keys(table, f"[{key}]")
        return table

    def tables(self, data: dict[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
        tables = data.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self.fail(key, f"write each as a table of its own, [[{key}]]")
        named = [(f"[[{key}]] number {i}", table) for i, table in enumerate(tables, start=1)]
        for where, table in named:
            self.keys(table, where)
        return named

    def number(self, table: dict[str, Any], key: str, where: str, default: float | None = None) -> float:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.fail(where, f"{key} is {'missing' if value is None else repr(value)}; a number is needed")
        return float(value)

    def whole(self, table: dict[str, Any], key: str, where: str, default: int | None = None) -> int:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(
                where, f"{key} is {'missing' if value is None else repr(value)}; a whole number is needed"
            )
        return value

    def text(self, table: dict[str, Any], key: str, where: str) -> str | None:
        value = table.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            self.fail(where, f"{key} is {value!r}; a text is needed")
        return value

    def choice(
        self, table: dict[str, Any], key: str, where: str, allowed: tuple[str, ...], default: str | None
    ) -> str:
        value = table.get(key, default)
        if value not in allowed:
            given = "missing" if value is None else repr(value)
            self.fail(where, f"{key} is {given}; allowed are {', '.join(allowed)}")
        return str(value)
