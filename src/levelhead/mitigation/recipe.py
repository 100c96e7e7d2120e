"""Recipes: small TOML files that say which edits make a mitigated model (docs/export.md, and docs/method.md,
Projection, Export).

    [model]                      # for which model; optional
    name = "lh:bert-mini"
    fingerprint = "5b1c..."

    [fit]                        # where the directions of projections come from
    on = "base"                  # the unmodified model, or "sequential": with the earlier interventions on
    pairs = "auto"               # shipped pairs that suit the model; or "single", "pairs", "frames", a file

    [[gate]]                     # layers and heads are counted from 1
    layer = 3
    head = 5
    value = 0.0

    [[neurons]]                  # of one layer, counted from 1
    layer = 3
    numbers = [17, 402]
    value = 0.0

    [[projection]]
    location = "tokens"          # sent, cls, tokens, query, key, value
    layer = -2                   # counted from the last: -1; or from the first: 1
    dimensions = 2
    soft = true
    method = "pca"               # or "leace", "inlp"
    strength = 1.0               # 0.5 takes out half of what 1 takes out

    [steering]                   # states moved away from stereotyped sentences (mitigation/steering.py)
    strength = 20.0              # times the difference of means

    [symmetrize]                 # answers averaged over the exchange of groups
    words = "gender"             # or another word list with pairs, by its name or file
    coin = 0                     # optional: one pass, at a turn that a coin of this seed decides

Only what is needed has to be there: gates alone need no [fit].
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast, get_args

from levelhead.edits.head import Head
from levelhead.edits.neuron import Neuron
from levelhead.edits.sites import Part, Site
from levelhead.errors import BadOption
from levelhead.mitigation.recipe_table import Table
from levelhead.models.model import Model
from levelhead.probes.files import parse_toml, read_text
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
    coin: int | None = None  # the seed of a coin that decides at which turn a text is asked; None: at all

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


def load_recipe(path: str | Path) -> Recipe:
    """The recipe in a file; what is wrong in it is said with the file and the key."""
    file = Path(path).expanduser()
    text = read_text(file, "Give a recipe file; docs/export.md shows one.", BadOption)
    return replace(parse_recipe(text, file), file=str(path))


def parse_recipe(text: str, source: str | Path) -> Recipe:
    """The recipe in a text; source: what it is called when something is wrong in it."""
    file = Path(source)
    data = parse_toml(file, text, "docs/export.md shows a recipe.", BadOption)
    return _recipe(Table(file, "the file", data, "the file"))


def recipe_text(recipe: Recipe) -> str:
    """The recipe as TOML, which `load_recipe` reads back as the same."""
    lines = [f"title = {_toml(recipe.title)}"] if recipe.title else []
    made_for = {"name": recipe.model or "", "fingerprint": recipe.fingerprint or ""}
    if any(made_for.values()):
        lines += _lines("[model]", {key: value for key, value in made_for.items() if value})
    if recipe.projections:
        lines += _lines("[fit]", {"on": recipe.fit, "pairs": recipe.pairs})
    for (layer, head), value in sorted(recipe.gates.items()):
        lines += _lines("[[gate]]", {"layer": layer + 1, "head": head + 1, "value": float(value)})
    for layer, value in sorted({(neuron.layer, value) for neuron, value in recipe.neurons.items()}):
        own = [n for n, gate in sorted(recipe.neurons.items()) if (n.layer, gate) == (layer, value)]
        numbers = [neuron.neuron + 1 for neuron in own]
        lines += _lines("[[neurons]]", {"layer": layer + 1, "numbers": numbers, "value": float(value)})
    for projection in recipe.projections:
        place = {} if projection.location == "sent" else {"layer": projection.counted_layer}
        manner = {
            "dimensions": projection.dimensions,
            "soft": projection.soft,
            "method": projection.method,
            **({} if projection.strength == 1 else {"strength": float(projection.strength)}),
        }
        lines += _lines("[[projection]]", {"location": projection.location, **place, **manner})
    if recipe.steering:
        lines += _lines("[steering]", {"strength": float(recipe.steering)})
    if recipe.symmetrize:
        seed: dict[str, int] = {} if recipe.coin is None else {"coin": recipe.coin}
        lines += _lines("[symmetrize]", {"words": recipe.symmetrize, **seed})
    return "\n".join(lines).lstrip("\n") + "\n"


def recipe_file(number: int, title: str) -> str:
    """The name of a recipe's file in a folder of several: its number, and the words of its title."""
    kept = "".join(c if c.isalnum() else " " for c in title)
    return f"{number:02d}-{'-'.join(kept.split())}.toml"


def _lines(header: str, values: Mapping[str, str | float | bool | list[int]]) -> list[str]:
    return ["", header, *(f"{key} = {_toml(value)}" for key, value in values.items())]


def _toml(value: str | float | bool | list[int]) -> str:
    """A value as JSON: texts, numbers, booleans and lists are the same in TOML, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# ---- reading


def _recipe(root: Table) -> Recipe:
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
    exchange = root.table("symmetrize")
    symmetrize = _words(exchange)
    neurons, steering = _neurons(root), root.table("steering").number("strength", 0.0)
    if not gates and not neurons and not steps and not symmetrize and not steering:
        raise BadOption(
            f"{root.file.name}: no [[gate]], no [[neurons]], no [[projection]], no [steering] and no "
            "[symmetrize]: nothing would change."
        )
    return Recipe(
        gates=gates,
        neurons=neurons,
        projections=steps,
        fit=cast(Fit, fit.choice("on", get_args(Fit), "base")),
        pairs=_pairs(fit),
        title=root.text("title") or "",
        model=made_for.text("name"),
        fingerprint=made_for.text("fingerprint"),
        symmetrize=symmetrize,
        steering=steering,
        coin=exchange.whole("coin") if "coin" in exchange.values else None,
    )


def _neurons(root: Table) -> dict[Neuron, float]:
    gates: dict[Neuron, float] = {}
    for table in root.tables("neurons"):
        layer, value = table.whole("layer"), table.number("value", 0.0)
        if layer < 1:
            table.fail("layer is counted from 1")
        for number in table.numbers("numbers"):
            neuron = Neuron(layer - 1, number - 1)
            if neuron in gates:
                table.fail(f"neuron {neuron} stands there twice")
            gates[neuron] = value
    return gates


def _words(table: Table) -> str:
    """The word list whose groups are exchanged; a file is meant relative to the recipe."""
    named = table.text("words") or ""
    return (
        named if not named or named in shipped_words() else str(table.file.parent / Path(named).expanduser())
    )


def _step(table: Table) -> Step:
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
    strength = table.number("strength", 1.0)
    return Step(location, layer - 1 if layer > 0 else layer, dimensions, soft, method, strength)


def _pairs(fit: Table) -> str:
    """What to fit on; a file of pairs is meant relative to the recipe."""
    named = fit.text("pairs") or "auto"
    shipped = ("auto", "single", "pairs", "frames")
    return named if named in shipped else str(fit.file.parent / Path(named).expanduser())
