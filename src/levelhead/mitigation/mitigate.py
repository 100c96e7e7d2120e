"""From a recipe to a mitigated model: fit what is to be fitted, fold what can be folded, write, reload,
compare."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from levelhead.edits.gates import gates
from levelhead.edits.head import Head
from levelhead.edits.sites import Variant
from levelhead.errors import BadRun
from levelhead.mitigation.export import ExportReport, export
from levelhead.mitigation.fitting import Form, default_pairs, fit_steps
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.probes.pairs import InputPair, load_pairs
from levelhead.results.folder import read_run

SCORES = "head_scores.csv"


def mitigate(model: Model, recipe: Recipe, folder: str | Path) -> ExportReport:
    """Write the model that a recipe describes; the recipe in the folder names the model it was applied to."""
    recipe.check_model(model)
    made = replace(recipe, model=model.name, fingerprint=model.fingerprint)
    return export(model, edits_of(model, recipe), folder, made)


def edits_of(model: Model, recipe: Recipe) -> Variant:
    """A recipe's edits for this model. Projections are fitted anew, on the same pairs always with the same
    result."""
    closed = gates(model, recipe.gates)
    if not recipe.projections:
        return closed
    pairs = _pairs(model, recipe.pairs)
    with model.edited(*(closed if recipe.fit == "sequential" else ())):
        (projections,) = fit_steps(model, pairs, [recipe.projections], recipe.fit)
    return (*closed, *projections)


def biased_heads(run: str | Path, top: int, model: Model) -> list[Head]:
    """The heads with the highest bias scores of a heads run, most biased first: at most `top`, and only above
    0."""
    found = read_run(run)
    if found.hashes.get("weights", model.fingerprint) != model.fingerprint:
        raise BadRun(f"{run} is about {found.settings.get('model')}, with other weights than {model.name}'s.")
    path = found.folder / SCORES
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                (float(row["score"]), int(row["layer"]) - 1, int(row["head"]) - 1)
                for row in csv.DictReader(file)
            ]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise BadRun(
            f"{path} is missing or no table of head scores. Give a folder that `levelhead heads` wrote."
        ) from error
    ranked = sorted((row for row in rows if row[0] > 0), key=lambda row: (-row[0], *row[1:]))
    if not ranked:
        raise BadRun(f"{path} has no head with a score above 0: nothing to remove.")
    return [(layer, head) for _, layer, head in ranked[:top]]


def _pairs(model: Model, named: str) -> tuple[InputPair, ...]:
    forms: dict[str, Form | None] = {"auto": None, "single": "single", "pairs": "pairs", "frames": "frames"}
    return default_pairs(model, forms[named]) if named in forms else load_pairs(named)
