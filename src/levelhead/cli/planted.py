"""`levelhead planted`: can a localizer find the heads into which a bias was planted?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, print_table
from levelhead.cli.options import FirstSeed, ModelName, RunFolder, Stereotypes
from levelhead.cli.preflight import listed
from levelhead.cli.terminal import print_link

if TYPE_CHECKING:
    from levelhead.measures.measurement import Measurement
    from levelhead.results.runs import PlantedRun
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
    from levelhead.models.model import load
    from levelhead.studies.planted.settings import PlantedSettings
    from levelhead.studies.planted.study import plant_and_find

    chosen = cast("tuple[Kind, ...]", tuple(listed(kinds)))
    settings = PlantedSettings(bias, plants, seeds, chosen, rise, sentences=sentences, seed=seed)
    model = load(name, **loading)
    run = plant_and_find(model, settings, out)
    if json:
        print_json({"run": str(run.folder), "settings": run.settings, "summary": run.summary})
    else:
        _print(run)


def _print(run: PlantedRun) -> None:
    from levelhead.studies.planted.study import ABS_SEAT, MEAN_RANK, PRECISION

    settings = run.settings
    k, total = settings.heads, settings.heads_in_all
    for kind in settings.kinds:
        of_kind = [each for each in run.summary if each.kind == kind]
        cells = {(each.localizer, each.way, each.measurement.name): each.measurement for each in of_kind}
        searches = sorted({(each.localizer, each.way) for each in of_kind if each.localizer})
        lines = [
            (*search, _pm(cells[(*search, PRECISION)]), _pm(cells[(*search, MEAN_RANK)]))
            for search in searches
        ]
        before = next(each.abs_seat_before for each in of_kind if each.abs_seat_before is not None)
        print_table(
            f"{run.model}: {kind} plant in {k} of {total} heads, {settings.seeds} seeds",
            ("localizer", "ranks by", f"precision@{k}", "mean rank"),
            lines,
            f"By chance {k / total:.3f} and {(total + 1) / 2:.1f}; mean ± sd over seeds. "
            f"|SEAT| {before:.3f} before, {_pm(cells['', '', ABS_SEAT])} after.",
        )
    print(f"Results: {run.folder}")
    print_link(run.folder, run.LAYOUT)


def _pm(measured: Measurement) -> str:
    sd = measured.details["sd"]
    return f"{measured.value:.3f}" + ("" if sd is None else f" ± {sd:.3f}")
