"""`levelhead atlas`: a head map for each of several objectives; `heads --objective` is the same for one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json
from levelhead.cli.options import Bias, Limit, ModelName, NullTwins, RunFolder, Seed
from levelhead.cli.preflight import files_by_name, listed
from levelhead.cli.terminal import print_link

if TYPE_CHECKING:
    from levelhead.models.model import Model
    from levelhead.studies.localizing.settings import AtlasSettings


@app.command()
@loads
def atlas(
    name: ModelName,
    out: RunFolder,
    objectives: Annotated[
        str,
        typer.Option(
            help="preference, log-odds, cosine-gap, seat, benchmarks, your own; with commas. Default: ours."
        ),
    ] = "",
    files: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="NAME=FILE", help="A benchmark's published file; repeatable."),
    ] = None,
    bias: Bias = "gender",
    localizer: Annotated[str, typer.Option(help="gradient, ablation, or one of your own.")] = "gradient",
    splits: Annotated[int, typer.Option(min=1, help="How often items are split into halves.")] = 2,
    null: NullTwins = 19,
    limit: Limit = None,
    transfer: Annotated[
        int, typer.Option(min=0, metavar="K", help="Ablate K heads of each objective; measure all; 0: none.")
    ] = 0,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Map which heads carry each of several bias measures, and say whether the maps agree."""
    from levelhead.models.model import load
    from levelhead.studies.localizing.settings import AtlasSettings

    asked = tuple(listed(objectives))
    settings = AtlasSettings(
        asked, files_by_name("--data", files or []), bias, localizer, splits, null, limit, seed, transfer
    )
    map_objectives(load(name, **loading), settings, out, json)


def map_objectives(model: Model, settings: AtlasSettings, out: Path, json: bool) -> None:
    """Run the atlas, write its page, and print it."""
    from levelhead.cli.printed import print_run
    from levelhead.pages.localizing import atlas_sentence
    from levelhead.pages.page import write_report
    from levelhead.pages.transfer import transfer_sentence
    from levelhead.studies.localizing import study

    run = study.atlas(model, settings, out)
    write_report(out)
    if json:
        print_json(
            {
                "run": str(run.folder),
                "model": run.model,
                "sentence": atlas_sentence(run),
                "objectives": run.objectives,
                "agreements": run.agreements,
                "top": run.top,
                "significant_heads": run.significant,
                "heads": run.heads,
                "left_out": run.left_out,
                "transfer_sentence": transfer_sentence(run),
                "transfer": run.transfer,
            }
        )
        return
    print_run(out)
    print_link(run.folder, run.LAYOUT)
