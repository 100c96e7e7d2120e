"""What can be taken along from a page: the change as a recipe, as Python, and as a command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from levelhead.exploring.presets import changes_nothing
from levelhead.exploring.sentences import Question
from levelhead.mitigation.named import typed_gates
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model
from levelhead.results.codec import Record

_FILE, _FOLDER = "recipe.toml", "changed"


@dataclass(frozen=True)
class Taken(Record):
    """One change in three forms that give the same numbers; without a change, how to ask the model."""

    recipe: str
    python: str
    command: str


def taken(model: Model, recipe: Recipe, asked: Question, pair: tuple[str, str]) -> Taken:
    """The change of a page, and the question that its odds are the answer to."""
    if changes_nothing(recipe):
        return Taken("", _python(model, recipe, asked, pair), f"levelhead explore {shlex.quote(model.name)}")
    stated = replace(recipe, model=model.name, fingerprint=model.fingerprint)
    way = f"--recipe {_FILE}" if _needs_file(recipe) else f"--heads {typed_gates(recipe.gates)}"
    does = "prompts" if recipe.symmetrize else "debias"  # prompts takes any recipe
    command = f"levelhead {does} {shlex.quote(model.name)} {way} -o {_FOLDER}"
    return Taken(recipe_text(stated), _python(model, recipe, asked, pair), command)


def _needs_file(recipe: Recipe) -> bool:
    return bool(recipe.neurons or recipe.projections or recipe.steering or recipe.symmetrize)


def _python(model: Model, recipe: Recipe, asked: Question, pair: tuple[str, str]) -> str:
    """Python that prints the log-odds of the page, before and after the change."""
    lines = ["import levelhead as lh", ""]
    edits = []
    if _needs_file(recipe):
        lines = [
            "import levelhead as lh",
            "from levelhead.mitigation.mitigate import edits_of",
            "from levelhead.mitigation.recipe import parse_recipe",
            "",
        ]
        edits = [f"changed = edits_of(model, parse_recipe({recipe_text(recipe)!r}, {_FILE!r}))"]
    elif recipe.gates:
        named = {str(head): value for head, value in recipe.gates.items()}
        edits = [f"changed = lh.gates(model, {named!r})"]
    variants = "[(), changed]" if edits else "[()]"
    return "\n".join(
        [
            *lines,
            f"model = lh.load({model.name!r})",
            *edits,
            f"tokens = {list(asked.tokens)}  # {' '.join(map(repr, pair))}",
            f"reading = lh.readings.TokenLogProbs([{asked.text!r}], tokens)",
            f"answers = lh.read_one(model, reading, {variants})  # [variant, text, word]",
            "print(answers[:, 0, 0] - answers[:, 0, 1])  # log-odds",
            "",
        ]
    )
