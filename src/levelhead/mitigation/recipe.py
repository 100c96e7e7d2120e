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

    [symmetrize]                 # answers averaged over the exchange of groups
    words = "gender"             # or another word list with pairs, by its name or file

Only what is needed has to be there: gates alone need no [fit].
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NoReturn, cast, get_args

from levelhead.edits.head import Head
from levelhead.edits.sites import Part, Site
from levelhead.errors import BadOption
from levelhead.models.model import Model
from levelhead.probes.files import finite, parse_toml, read_text, shown
from levelhead.probes.words import shipped_words

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
    "the file": ("title", "model", "fit", "gate", "projection", "symmetrize"),
    "[model]": ("name", "fingerprint"),
    "[fit]": ("on", "pairs"),
    "[symmetrize]": ("words",),
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
    """Which edits make a model: gates by head, projections in the order given, and symmetrization."""

    gates: Mapping[Head, float] = field(default_factory=dict)
    projections: tuple[Step, ...] = ()
    fit: Fit = "base"
    pairs: str = "auto"
    title: str = ""
    model: str | None = None
    fingerprint: str | None = None
    file: str | None = field(default=None, compare=False)  # that it was read from
    symmetrize: str = ""  # a word list by its name or path, whose groups are exchanged; "": none

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
    text = read_text(file, "Give a recipe file; docs/export.md shows one.", BadOption)
    return replace(parse_recipe(text, file), file=str(path))


def parse_recipe(text: str, source: str | Path) -> Recipe:
    """The recipe in a text; source: what it is called when something is wrong in it."""
    file = Path(source)
    data = parse_toml(file, text, "docs/export.md shows a recipe.", BadOption)
    return _recipe(_Table(file, "the file", data, "the file"))


def recipe_text(recipe: Recipe) -> str:
    """The recipe as TOML, which `read_recipe` reads back as the same."""
    lines = [f"title = {_toml(recipe.title)}"] if recipe.title else []
    made_for = {"name": recipe.model or "", "fingerprint": recipe.fingerprint or ""}
    if any(made_for.values()):
        lines += _lines("[model]", {key: value for key, value in made_for.items() if value})
    if recipe.projections:
        lines += _lines("[fit]", {"on": recipe.fit, "pairs": recipe.pairs})
    for (layer, head), value in sorted(recipe.gates.items()):
        lines += _lines("[[gate]]", {"layer": layer + 1, "head": head + 1, "value": float(value)})
    for projection in recipe.projections:
        place = {} if projection.location == "sent" else {"layer": projection.counted_layer}
        manner = {
            "dimensions": projection.dimensions,
            "soft": projection.soft,
            "method": projection.method,
        }
        lines += _lines("[[projection]]", {"location": projection.location, **place, **manner})
    if recipe.symmetrize:
        lines += _lines("[symmetrize]", {"words": recipe.symmetrize})
    return "\n".join(lines).lstrip("\n") + "\n"


def recipe_file(number: int, title: str) -> str:
    """The name of a recipe's file in a folder of several: its number, and the words of its title."""
    kept = "".join(c if c.isalnum() else " " for c in title)
    return f"{number:02d}-{'-'.join(kept.split())}.toml"


def _lines(header: str, values: Mapping[str, str | float | bool]) -> list[str]:
    return ["", header, *(f"{key} = {_toml(value)}" for key, value in values.items())]


def _toml(value: str | float | bool) -> str:
    """A value as JSON: texts, finite numbers and booleans are the same in TOML, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# ---- reading


def _recipe(root: _Table) -> Recipe:
    made_for, fit = root.table("model"), root.table("fit")
    gates: dict[Head, float] = {}
    for table in root.tables("gate"):
        head = Head(table.whole("layer") - 1, table.whole("head") - 1)
        if min(head) < 0:
            table.fail("layer and head are counted from 1")
        if head in gates:
            table.fail(f"head {head} stands there twice")
        gates[head] = table.number("value", 0.0)
    steps = tuple(_step(table) for table in root.tables("projection"))
    symmetrize = _words(root.table("symmetrize"))
    if not gates and not steps and not symmetrize:
        raise BadOption(
            f"{root.file.name}: no [[gate]], no [[projection]] and no [symmetrize]: nothing would change."
        )
    return Recipe(
        gates=gates,
        projections=steps,
        fit=cast(Fit, fit.choice("on", get_args(Fit), "base")),
        pairs=_pairs(fit),
        title=root.text("title") or "",
        model=made_for.text("name"),
        fingerprint=made_for.text("fingerprint"),
        symmetrize=symmetrize,
    )


def _words(table: _Table) -> str:
    """The word list whose groups are exchanged; a file is meant relative to the recipe."""
    named = table.text("words") or ""
    return (
        named if not named or named in shipped_words() else str(table.file.parent / Path(named).expanduser())
    )


def _step(table: _Table) -> Step:
    location = cast(Location, table.choice("location", get_args(Location)))
    layer = table.whole("layer", _LAYERS[location] or 1)
    if layer == 0:
        table.fail("layer is 0; the first is 1, the last is -1")
    dimensions = table.whole("dimensions", 1)
    if dimensions < 1:
        table.fail(f"dimensions is {dimensions}; at least 1")
    soft = table.flag("soft")
    method = cast(Method, table.choice("method", get_args(Method), "pca"))
    if soft and method != "pca":
        table.fail(f"soft belongs to method 'pca'; {method} is always hard")
    return Step(location, layer - 1 if layer > 0 else layer, dimensions, soft, method)


def _pairs(fit: _Table) -> str:
    """What to fit on; a file of pairs is meant relative to the recipe."""
    named = fit.text("pairs") or "auto"
    shipped = ("auto", "single", "pairs", "frames")
    return named if named in shipped else str(fit.file.parent / Path(named).expanduser())


@dataclass(frozen=True)
class _Table:
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

    def table(self, key: str) -> _Table:
        """The table under a key; an empty one where there is none."""
        values = self.values.get(key, {})
        if not isinstance(values, dict):
            raise BadOption(f"{self.file.name}: {key}: write it as a table, [{key}].")
        return _Table(self.file, f"[{key}]", values, f"[{key}]")

    def tables(self, key: str) -> list[_Table]:
        """The tables under a key that may stand there several times."""
        tables = self.values.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(values, dict) for values in tables):
            raise BadOption(f"{self.file.name}: {key}: write each as a table of its own, [[{key}]].")
        kind = f"[[{key}]]"
        return [_Table(self.file, kind, each, f"{kind} number {i}") for i, each in enumerate(tables, start=1)]

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
