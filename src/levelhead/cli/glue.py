"""`levelhead glue` and `levelhead finetune`: what a model can still learn, untouched and debiased."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, refuse_workers
from levelhead.cli.debias import parse_heads
from levelhead.cli.endings import output_folder
from levelhead.cli.grouped import Options
from levelhead.cli.options import FirstSeed, HeadGates, ModelName, RecipeFile, RunFolder
from levelhead.cli.preflight import listed
from levelhead.cli.terminal import print_link
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.engine.finetuning import Hyperparameters
    from levelhead.studies.finetuning import TrainedClassifier

TrainRows = Annotated[
    int | None, typer.Option(help="Train on so many examples, evenly spread: a quick look.")
]


Epochs = Annotated[int, typer.Option(help="Times that all examples are trained on.")]
BatchSize = Annotated[int, typer.Option(help="Examples in a step, on all GPUs together.")]
LearningRate = Annotated[
    float | None, typer.Option(help="Default: 2e-5; 3e-4 below 50 M parameters; 5e-4 with --lora.")
]
Warmup = Annotated[float, typer.Option(help="Share of steps in which the learning rate rises.")]
WeightDecay = Annotated[float, typer.Option(help="Of all weights but those of closed heads.")]
MaxLength = Annotated[int, typer.Option(help="Tokens; longer texts are cut.")]
Lora = Annotated[
    bool, typer.Option("--lora", help="Train low-rank adapters instead of all weights (needs peft).")
]
Bf16 = Annotated[
    bool,
    typer.Option("--bf16", help="Compute in bfloat16: faster where the chip has it; weights stay float32."),
]


@dataclass(frozen=True)
class Training(Options):
    """How a model is trained."""

    epochs: Epochs = 3
    batch_size: BatchSize = 32
    learning_rate: LearningRate = None
    warmup: Warmup = 0.1
    weight_decay: WeightDecay = 0.01
    max_length: MaxLength = 128
    lora: Lora = False
    bf16: Bf16 = False

    def hyperparameters(self) -> Hyperparameters:
        """The same for the engine."""
        from levelhead.engine.finetuning import Hyperparameters

        return Hyperparameters(**asdict(self))


@app.command()
@loads
def glue(
    name: ModelName,
    data: Annotated[str, typer.Option(metavar="DIR", help="Folder with RTE/train.tsv ..., or hub:glue.")],
    out: RunFolder,
    training: Training,
    tasks: Annotated[
        str, typer.Option(help="rte,sst2,cola,mrpc,stsb,qnli,wnli,qqp,mnli. Default: those in the folder.")
    ] = "",
    heads: HeadGates = "",
    recipe: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A recipe file (TOML); repeatable.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Trainings of each task and recipe.")] = 3,
    train_rows: TrainRows = None,
    margin: Annotated[float, typer.Option(help="Points that a change may cost: not inferior.")] = 1.0,
    seed: FirstSeed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Fine-tune a model on GLUE, untouched and with heads removed or other edits on: what do they cost?"""
    from levelhead.cli.printed import print_run
    from levelhead.mitigation.named import named_recipes
    from levelhead.models.model import load
    from levelhead.studies.glue import GlueSettings
    from levelhead.studies.glue import glue as run_glue

    settings = GlueSettings(
        data, tuple(listed(tasks)), seeds, train_rows, margin, training.hyperparameters(), seed
    )
    recipes = named_recipes(parse_heads(heads), recipe or ())
    run = run_glue(load(name, **loading), settings, out, recipes)
    if json:
        print_json({"run": str(run.folder), "settings": run.settings, "cells": run.cells, "costs": run.costs})
        return
    print_run(run.folder)
    print(f"Results: {run.folder}")
    print_link(run.folder, run.LAYOUT)


@app.command()
@loads
def finetune(
    name: ModelName,
    task: Annotated[str, typer.Option(help="snli, or a task of GLUE.")],
    data: Annotated[str, typer.Option(metavar="DIR", help="Folder as published, hub:snli or hub:glue.")],
    out: Annotated[Path, output_folder("New or empty folder.", "DIR")],
    training: Training,
    heads: HeadGates = "",
    recipe: RecipeFile = None,
    train_rows: TrainRows = None,
    seed: FirstSeed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Train a classifier from a model and write it as an ordinary folder; on SNLI, one that --nli takes."""
    from levelhead.mitigation.named import named_recipes
    from levelhead.models.model import load
    from levelhead.studies.finetuning import FinetuneSettings, train_classifier

    refuse_workers(loading, "this is one training, which cannot be shared")
    settings = FinetuneSettings(task, data, train_rows, training.hyperparameters(), seed)
    recipes = named_recipes(parse_heads(heads), () if recipe is None else (recipe,))
    if len(recipes) > 1:
        raise BadOption("--heads and --recipe came; give one of them.")
    trained = train_classifier(load(name, **loading), settings, out, next(iter(recipes.values()), None))
    print_json(trained) if json else _print_trained(name, trained)


def _print_trained(name: str, trained: TrainedClassifier) -> None:
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
