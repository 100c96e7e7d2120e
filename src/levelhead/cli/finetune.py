"""`levelhead finetune`: a classifier trained from a model, as an ordinary folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from levelhead.cli.app import Json, Loading, ModelName, loads, print_json, refuse_workers
from levelhead.cli.endings import output_folder
from levelhead.errors import BadOption
from levelhead.studies.glue.settings import FinetuneSettings


@loads
def finetune(
    name: ModelName,
    out: Annotated[Path, output_folder("New or empty folder.", "DIR")],
    settings: FinetuneSettings,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Train a classifier from a model and write it as an ordinary folder; on SNLI, one that --nli takes."""
    from levelhead.mitigation.recipe import named_recipes
    from levelhead.models.model import load
    from levelhead.studies.glue.finetune import train_classifier
    from levelhead.studies.glue.run import parsed_gates

    refuse_workers(loading, "this is one training, which cannot be shared")
    files = () if settings.recipe is None else (settings.recipe,)
    recipes = named_recipes(parsed_gates(settings.heads), files)
    if len(recipes) > 1:
        raise BadOption("--heads and --recipe exclude each other.")
    trained = train_classifier(load(name, **loading), settings, out, next(iter(recipes.values()), None))
    if json:
        print_json(trained)
        return
    report = trained.export
    print(f"{name}, fine-tuned on {trained.task}, is now in {report.folder}.")
    print(f"  trained on {trained.train} examples of {trained.trained_on}")
    for metric, score in trained.scores.items():
        chance = f"the most frequent class alone {100 * trained.majority[metric]:.1f}"
        print(f"  {metric} {100 * score:.1f} on {trained.dev} examples of {trained.evaluated_on} ({chance})")
    for why in report.obstacles:
        print(f"  not folded: {why}")
    print(f"  max difference after reload  {report.max_difference:.2g}")
    print(f"  load with  {report.load_with}")
