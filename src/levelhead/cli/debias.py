"""`levelhead debias`: a mitigated model as a folder that anyone can load."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json
from levelhead.errors import BadProbe

if TYPE_CHECKING:
    from levelhead.edits.head import Head
    from levelhead.mitigation.export import ExportReport

_HEAD = re.compile(r"\s*(\d+)-(\d+)\s*(?:=\s*(\S+))?\s*")


@app.command()
@loads
def debias(
    model: Annotated[str, typer.Argument(help="Shipped model, folder, .gguf file or hub name.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write; new or empty.")],
    recipe: Annotated[
        Path | None, typer.Option(help="A recipe file (TOML); a sweep writes one for each setting.")
    ] = None,
    heads: Annotated[
        str, typer.Option(help="Heads to remove or to scale, LAYER-HEAD[=GATE]: 3-5,7-2=0.5")
    ] = "",
    from_heads: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Remove the heads that a heads run found.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="With --from-heads: how many, the most biased first.")] = 3,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Write a mitigated model: plain weights where the edits fold, else an adapter with self-contained
    code."""
    if recipe is None and not heads and from_heads is None:
        raise BadProbe("Nothing to change: give --recipe FILE, --heads 3-5,7-2 or --from-heads RUN.")
    given = parse_heads(heads)
    from levelhead.mitigation.recipe import Recipe, read_recipe

    asked = Recipe() if recipe is None else read_recipe(recipe)

    from levelhead.mitigation.mitigate import biased_heads, mitigate
    from levelhead.models.model import load

    loaded = load(model, **loading)
    found = {} if from_heads is None else dict.fromkeys(biased_heads(from_heads, top, loaded), 0.0)
    report = mitigate(loaded, replace(asked, gates={**asked.gates, **found, **given}), output)
    print_json(report) if json else _print(model, report)


def parse_heads(text: str) -> dict[Head, float]:
    """`3-5,7-2=0.5` -> {(2, 4): 0.0, (6, 1): 0.5}; layers and heads are counted from 1."""
    found: dict[Head, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _HEAD.fullmatch(part)
        try:
            layer, head, gate = match.groups() if match else ("0", "0", None)
            place, value = (int(layer) - 1, int(head) - 1), float(gate or 0.0)
        except ValueError:
            place, value = (-1, -1), 0.0
        if min(place) < 0 or value != value or abs(value) == float("inf"):
            raise BadProbe(
                f"--heads has {part!r}; write LAYER-HEAD or LAYER-HEAD=GATE, counted from 1: 3-5,7-2=0.5"
            )
        if place in found:
            raise BadProbe(f"--heads names head {place[0] + 1}-{place[1] + 1} twice.")
        found[place] = value
    return found


def _print(name: str, report: ExportReport) -> None:
    kind = (
        "plain weights, nothing of levelhead needed"
        if report.folded
        else "an adapter with self-contained code"
    )
    print(f"{name}, edited, is now in {report.folder}: {kind}.")
    for why in report.obstacles:
        print(f"  not folded: {why}")
    print(f"  max difference after reload  {report.max_difference:.2g}")
    print(f"  the edits change outputs by up to  {report.effect:.3g}")
    print(f"  load with  {report.load_with}")
    if not report.folded:
        print(f"         or  levelhead.load({str(report.folder)!r})   (runs no remote code)")
    if report.note:
        print(f"  note: {report.note}")
