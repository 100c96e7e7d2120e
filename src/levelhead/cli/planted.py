"""`levelhead planted`: can a localizer find the heads into which a bias was planted?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json
from levelhead.cli.options import FirstSeed, ModelName, RunFolder, Stereotypes
from levelhead.cli.preflight import listed
from levelhead.cli.terminal import print_link

if TYPE_CHECKING:
    from levelhead.studies.planted.planting import Kind


@app.command()
@loads
def planted(
    name: ModelName,
    out: RunFolder,
    plants: Annotated[int, typer.Option(help="How many heads to plant into.")] = 3,
    seeds: Annotated[int, typer.Option(help="Repetitions, each with other heads.")] = 5,
    rise: Annotated[float, typer.Option(help="By how much each value plant alone raises |SEAT|.")] = 0.1,
    kinds: Annotated[str, typer.Option(help="Of value, attention; separated by commas.")] = "value,attention",
    bias: Annotated[str, typer.Option(help="gender, or a word list with --sentences.")] = "gender",
    sentences: Stereotypes = None,
    seed: FirstSeed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Plant a bias into known heads of a copy of the model, and see which localizer finds them."""
    from levelhead.cli.printed import print_run
    from levelhead.models.model import load
    from levelhead.studies.planted.settings import PlantedSettings
    from levelhead.studies.planted.study import plant_and_find

    chosen = cast("tuple[Kind, ...]", tuple(listed(kinds)))
    settings = PlantedSettings(bias, plants, seeds, chosen, rise, sentences=sentences, seed=seed)
    model = load(name, **loading)
    run = plant_and_find(model, settings, out)
    if json:
        print_json({"run": str(run.folder), "settings": run.settings, "summary": run.summary})
        return
    print_run(run.folder)
    print(f"Results: {run.folder}")
    print_link(run.folder, run.LAYOUT)
