"""Recipes: small TOML files that say which edits make a mitigated model (docs/recipes.md, and
docs/method/projections.md, Projection, Export).

    [model]         for which model; optional
    [fit]           where the directions of projections come from
    [[gate]]        of a head; layers and heads are counted from 1
    [[neurons]]     of one layer, counted from 1
    [[projection]]  at a location, of a layer that is counted from the first, 1, or from the last, -1
    [steering]      states moved away from stereotyped sentences (fitting.py)
    [symmetrize]    answers averaged over the exchange of groups, or one orientation by a coin

Only what is needed has to be there: gates alone need no [fit].
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NoReturn, cast, get_args

from levelhead.edits.sites import Head, Neuron, Part, Site
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
class Step:
    """One projection of a recipe. layer: an index from 0, or a negative one from the last (-1); at sent it
    does not matter."""

    location: Location
    layer: int
    dimensions: int = 1
    soft: bool = False
    method: Method = "pca"
    strength: float = 1.0  # times what the method takes out

    def site(self, model: Model) -> Site:
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
    """Which edits make a model: gates by head and by neuron, projections in the order given, steering, and
    symmetrization."""

    gates: Mapping[Head, float] = field(default_factory=dict)
    projections: tuple[Step, ...] = ()
    fit: Fit = "base"
    pairs: str = "auto"
    title: str = ""
    model: str | None = None
    fingerprint: str | None = None
    file: str | None = field(default=None, compare=False)  # that it was read from
    neurons: Mapping[Neuron, float] = field(default_factory=dict)
    symmetrize: str = ""  # a word list by its name or path, whose groups are exchanged; "": none
    steering: float = 0.0  # times the difference of means; 0: none
    coin: int | None = (
        None  # the seed of a coin that decides at which orientation a text is run; None: at all
    )

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
    one before (docs/method/projections.md, Projection)."""
    return Step(location, _LAYERS[location] if layer is None else layer, dimensions, soft, method)


# ---- writing


def recipe_text(recipe: Recipe) -> str:
    """The recipe as TOML, which `load_recipe` reads back as the same."""

    def toml(value: object) -> str:
        # texts, numbers, booleans and lists are the same in JSON and TOML, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

    made_for = {"name": recipe.model or "", "fingerprint": recipe.fingerprint or ""}
    tables: list[tuple[str, dict[str, object]]] = []
    if any(made_for.values()):
        tables.append(("[model]", {key: value for key, value in made_for.items() if value}))
    if recipe.projections:
        tables.append(("[fit]", {"on": recipe.fit, "pairs": recipe.pairs}))
    for (layer, head), value in sorted(recipe.gates.items()):
        tables.append(("[[gate]]", {"layer": layer + 1, "head": head + 1, "value": float(value)}))
    for layer, value in sorted({(neuron.layer, value) for neuron, value in recipe.neurons.items()}):
        own = [n for n, gate in sorted(recipe.neurons.items()) if (n.layer, gate) == (layer, value)]
        numbers = [neuron.neuron + 1 for neuron in own]
        tables.append(("[[neurons]]", {"layer": layer + 1, "numbers": numbers, "value": float(value)}))
    for each in recipe.projections:
        place = {} if each.location == "sent" else {"layer": each.counted_layer}
        manner = {"dimensions": each.dimensions, "soft": each.soft, "method": each.method}
        strength = {} if each.strength == 1 else {"strength": float(each.strength)}
        tables.append(("[[projection]]", {"location": each.location, **place, **manner, **strength}))
    if recipe.steering:
        tables.append(("[steering]", {"strength": float(recipe.steering)}))
    if recipe.symmetrize:
        seed = {} if recipe.coin is None else {"coin": recipe.coin}
        tables.append(("[symmetrize]", {"words": recipe.symmetrize, **seed}))
    lines = [f"title = {toml(recipe.title)}"] if recipe.title else []
    for header, values in tables:
        lines += ["", header, *(f"{key} = {toml(value)}" for key, value in values.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def recipe_file(number: int, title: str) -> str:
    """The name of a recipe's file in a folder of several: its number, and the words of its title."""
    kept = "".join(c if c.isalnum() else " " for c in title)
    return f"{number:02d}-{'-'.join(kept.split())}.toml"


# ---- reading


def load_recipe(path: str | Path) -> Recipe:
    """The recipe in a file; what is wrong in it is said with the file and the key."""
    file = Path(path).expanduser()
    text = read_text(file, "Give a recipe file; docs/export.md shows one.", BadOption)
    return replace(parse_recipe(text, file), file=str(path))


def parse_recipe(text: str, source: str | Path) -> Recipe:
    """The recipe in a text; source: what it is called when something is wrong in it."""
    file = Path(source)
    root = _Table(file, "the file", parse_toml(file, text, "docs/export.md shows a recipe.", BadOption))
    made_for, fit = root.table("model"), root.table("fit")
    gates: dict[Head, float] = {}
    for table in root.tables("gate"):
        head = Head(table.whole("layer") - 1, table.whole("head") - 1)
        if min(head) < 0:
            table.fail("layer and head are counted from 1")
        if head in gates:
            table.fail(f"head {head} stands there twice")
        gates[head] = table.number("value", 0.0)
    steps = tuple(map(_step, root.tables("projection")))
    exchange = root.table("symmetrize")
    symmetrize = exchange.text("words") or ""
    neurons: dict[Neuron, float] = {}
    for table in root.tables("neurons"):
        layer, value = table.whole("layer"), table.number("value", 0.0)
        if layer < 1:
            table.fail("layer is counted from 1")
        for number in table.numbers("numbers"):
            neuron = Neuron(layer - 1, number - 1)
            if neuron in neurons:
                table.fail(f"neuron {neuron} stands there twice")
            neurons[neuron] = value
    steering = root.table("steering").number("strength", 0.0)
    if not gates and not neurons and not steps and not symmetrize and not steering:
        raise BadOption(
            f"{file.name}: no [[gate]], no [[neurons]], no [[projection]], no [steering] and no "
            "[symmetrize]: nothing would change."
        )
    chosen = cast(Fit, fit.choice("on", get_args(Fit), "base"))
    pairs = fit.text("pairs") or "auto"
    # files of words and of pairs are meant relative to the recipe
    if symmetrize and symmetrize not in shipped_words():
        symmetrize = str(file.parent / Path(symmetrize).expanduser())
    if pairs not in ("auto", "single", "pairs", "frames"):
        pairs = str(file.parent / Path(pairs).expanduser())
    return Recipe(
        gates=gates,
        neurons=neurons,
        projections=steps,
        fit=chosen,
        pairs=pairs,
        title=root.text("title") or "",
        model=made_for.text("name"),
        fingerprint=made_for.text("fingerprint"),
        symmetrize=symmetrize,
        steering=steering,
        coin=exchange.whole("coin") if "coin" in exchange.values else None,
    )


def _step(table: _Table) -> Step:
    location = cast(Location, table.choice("location", get_args(Location)))
    layer = table.whole("layer", _LAYERS[location] or 1)
    if layer == 0:
        table.fail("layer must be 1 or more, or counted from the last, -1 (got 0)")
    dimensions = table.whole("dimensions", 1)
    if dimensions < 1:
        table.fail(f"dimensions must be at least 1 (got {dimensions})")
    soft = table.values.get("soft", False)
    if not isinstance(soft, bool):
        table.wrong("soft", "true or false")
    method = cast(Method, table.choice("method", get_args(Method), "pca"))
    if soft and method != "pca":
        table.fail(f"soft belongs to method 'pca'; {method} is always hard")
    strength = table.number("strength", 1.0)
    return Step(location, layer - 1 if layer > 0 else layer, dimensions, soft, method, strength)


@dataclass(frozen=True)
class _Table:
    """A table of a recipe file, read value by value; a fault is said with the file and the place."""

    file: Path
    place: str  # which table it is: "the file", "[fit]", "[[gate]] number 2"
    values: Mapping[str, object]

    def __post_init__(self) -> None:
        allowed = _KEYS[self.place.partition(" number")[0]]
        if unknown := [key for key in self.values if key not in allowed]:
            self.fail(f"unknown key {unknown[0]!r}; the keys are {', '.join(allowed)}")

    def fail(self, complaint: str) -> NoReturn:
        raise BadOption(f"{self.file.name}: {self.place}: {complaint}.")

    def wrong(self, key: str, needed: str) -> NoReturn:
        given = f"got {shown(self.values[key])}" if key in self.values else "missing"
        self.fail(f"{key} must be {needed} ({given})")

    def table(self, key: str) -> _Table:
        """The table under a key; an empty one where there is none."""
        values = self.values.get(key, {})
        if not isinstance(values, dict):
            raise BadOption(f"{self.file.name}: {key}: write it as a table, [{key}].")
        return _Table(self.file, f"[{key}]", values)

    def tables(self, key: str) -> list[_Table]:
        """The tables under a key that may stand there several times."""
        tables = self.values.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(values, dict) for values in tables):
            raise BadOption(f"{self.file.name}: {key}: write each as a table of its own, [[{key}]].")
        return [_Table(self.file, f"[[{key}]] number {i}", each) for i, each in enumerate(tables, start=1)]

    def number(self, key: str, default: float) -> float:
        value = finite(self.values.get(key, default))
        if value is None:
            self.wrong(key, "a number")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(key, "a whole number")
        return value

    def numbers(self, key: str) -> list[int]:
        """Distinct whole numbers that count from 1."""
        values = self.values.get(key)
        whole = isinstance(values, list) and all(type(value) is int and value > 0 for value in values)
        if not isinstance(values, list) or not values or not whole or len(set(values)) < len(values):
            self.wrong(key, "a list of distinct whole numbers, counted from 1")
        return values

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not (isinstance(value, str) and value.strip()):
            self.wrong(key, "a text")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or value not in allowed:
            self.wrong(key, f"one of {', '.join(allowed)}")
        return value


# ---- naming, as the command line does it: by the heads that were typed, or by a file


def named_recipes(gates: Mapping[Head, float], files: Iterable[str | Path] = ()) -> dict[str, Recipe]:
    """Recipes by name: one of gates, and those of files by their title or file name."""
    recipes = {_gates_name(gates): Recipe(gates=gates)} if gates else {}
    for file in files:
        recipe = load_recipe(file)
        name = recipe.title or Path(file).stem
        if name in recipes:
            raise BadOption(f"Two recipes are called {name!r}. Give them different titles.")
        recipes[name] = recipe
    return recipes


@dataclass(frozen=True)
class TypedRecipes:
    """Which options name recipes again. in_memory: whether there are some that no option names."""

    heads: str
    files: tuple[str, ...]
    in_memory: bool


def typed_recipes(recipes: Mapping[str, Recipe]) -> TypedRecipes:
    """The options --heads and --recipe that give these recipes these names, in this order."""
    heads, files = "", []
    for number, (name, recipe) in enumerate(recipes.items()):
        if recipe.file is not None and name == (recipe.title or Path(recipe.file).stem):
            files.append(recipe.file)
        elif number == 0 and recipe == Recipe(gates=recipe.gates) and name == _gates_name(recipe.gates):
            heads = typed_gates(recipe.gates)
    return TypedRecipes(heads, tuple(files), len(files) + bool(heads) < len(recipes))


def typed_gates(gates: Mapping[Head, float]) -> str:
    """Gates as --heads takes them: 3-5,7-2=0.5."""
    return ",".join(f"{head}" if value == 0 else f"{head}={value!r}" for head, value in gates.items())


def _gates_name(gates: Mapping[Head, float]) -> str:
    written = ", ".join(f"{head}" if value == 0 else f"{head}={value:g}" for head, value in gates.items())
    return f"gates {written}" if any(gates.values()) else f"without heads {written}"
