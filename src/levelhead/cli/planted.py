"""`levelhead planted`: can a localizer find the heads into which a bias was planted?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, print_table


@app.command()
@loads
def planted(
    name: Annotated[
        str, typer.Argument(metavar="MODEL", help="Shipped (lh:bert-mini), hub name, folder or .gguf.")
    ],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="RUN", help="Folder for the results.")],
    heads: Annotated[int, typer.Option(help="Heads to plant into.")] = 3,
    seeds: Annotated[int, typer.Option(help="Repetitions, each with other heads.")] = 5,
    rise: Annotated[float, typer.Option(help="By how much each value plant alone raises |SEAT|.")] = 0.1,
    kinds: Annotated[str, typer.Option(help="Of value, attention; separated by commas.")] = "value,attention",
    bias: Annotated[str, typer.Option(help="gender, or a word list with --sentences.")] = "gender",
    sentences: Annotated[
        str | None,
        typer.Option(help="Stereotype sentences: shipped, a .txt or .jsonl file, a folder, hub:NAME."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Plant a bias into known heads of a copy of the model, and see which localizer finds them."""
    from levelhead.models.model import load
    from levelhead.studies.planted.study import PlantedSettings, plant_and_find

    chosen = tuple(part.strip() for part in kinds.split(",") if part.strip())
    settings = PlantedSettings(bias, heads, seeds, chosen, rise, sentences=sentences, seed=seed)
    model = load(name, **loading)
    run = plant_and_find(model, settings, out)
    told = {"run": str(run.folder), "settings": run.settings, "summary": run.results["summary"]}
    print_json(told) if json else _print(told)


def _print(told: dict[str, Any]) -> None:
    asked, rows = told["settings"], told["summary"]
    k, total = asked["heads"], asked["heads_in_all"]
    found = {(r["kind"], r.get("localizer"), r.get("way"), r["name"]): r for r in rows}
    for kind in asked["kinds"]:
        seat = found[kind, None, None, "abs seat"]
        cells = sorted({(r["localizer"], r["way"]) for r in rows if r["kind"] == kind and "localizer" in r})
        shown = [
            (*cell, _pm(found[(kind, *cell, "precision")]), _pm(found[(kind, *cell, "mean rank")]))
            for cell in cells
        ]
        print_table(
            f"{asked['model']}: {kind} plant in {k} of {total} heads, {asked['seeds']} seeds",
            ("localizer", "ranks by", f"precision@{k}", "mean rank"),
            shown,
            f"By chance {k / total:.3f} and {(total + 1) / 2:.1f}; mean ± sd over seeds. "
            f"|SEAT| {seat['abs_seat_before']:.3f} before, {_pm(seat)} after.",
        )
    print(f"Results: {told['run']}")


def _pm(row: dict[str, Any]) -> str:
    sd = row["details"]["sd"]
    return f"{row['value']:.3f}" + ("" if sd is None else f" ± {sd:.3f}")
