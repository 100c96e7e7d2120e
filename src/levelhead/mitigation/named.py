"""Recipes as the command line names them: by the heads that were typed, or by a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from levelhead.edits.head import Head
from levelhead.errors import BadOption
from levelhead.mitigation.recipe import Recipe, load_recipe


def named_recipes(gates: Mapping[Head, float], files: Iterable[str | Path] = ()) -> dict[str, Recipe]:
    """Recipes by name: one of gates, and those of files by their title or file name."""
    recipes = {_gates_name(gates): Recipe(gates=gates)} if gates else {}
    for file in files:
        recipe = load_recipe(file)
        name = _file_name(recipe, file)
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
        if recipe.file is not None and name == _file_name(recipe, recipe.file):
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


def _file_name(recipe: Recipe, file: str | Path) -> str:
    return recipe.title or Path(file).stem
