"""`levelhead atlas`: a head map for each of several objectives; `heads --objective` is the same for one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, print_table
from levelhead.cli.options import Bias, Limit, ModelName, NullTwins, RunFolder, Seed
from levelhead.cli.preflight import listed
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.models.model import Model
    from levelhead.results.runs import AtlasRun
    from levelhead.studies.localizing.settings import AtlasSettings


@app.command()
@loads
def atlas(
    name: ModelName,
    out: RunFolder,
    objectives: Annotated[
        str,
        typer.Option(help="preference, log-odds, cosine-gap, seat, benchmarks; with commas. Default: all."),
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
        asked, _by_name(files or []), bias, localizer, splits, null, limit, seed, transfer
    )
    map_objectives(load(name, **loading), settings, out, json)


def _by_name(files: list[str]) -> dict[str, str]:
    """Files by the benchmark that they belong to."""
    named = [text.partition("=") for text in files]
    if wrong := [text for text, (name, sign, file) in zip(files, named, strict=True) if not (name and file)]:
        raise BadOption(f"--data {wrong[0]} came; give a benchmark and its file: --data crows-pairs=FILE.")
    return {name: file for name, _, file in named}


def one_objective(objective: str, file: str | None, bias: str, null: int, seed: int) -> AtlasSettings:
    """The settings of `levelhead heads --objective`."""
    from levelhead.studies.localizing.settings import AtlasSettings

    data = {} if file is None else {objective: file}
    return AtlasSettings((objective,), data, bias, null=null, seed=seed)


def map_objectives(model: Model, settings: AtlasSettings, out: Path, json: bool) -> None:
    """Run the atlas, write its page, and print it."""
    from levelhead.pages.localizing import atlas_sentence
    from levelhead.pages.page import write_report
    from levelhead.pages.transfer import transfer_sentence
    from levelhead.studies.localizing import study

    run = study.atlas(model, settings, out)
    page = write_report(out)
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
    _print(run)
    print("\n".join(filter(None, (atlas_sentence(run), transfer_sentence(run), f"Report: {page}"))))


def _print(run: AtlasRun) -> None:
    lines = []
    for each in run.objectives:
        own = sorted((h for h in run.heads if h.objective == each.objective), key=lambda head: head.rank)
        significant = [str(head.head) for head in run.significant if head.objective == each.objective]
        highest = ", ".join(str(head.head) for head in own[:3])
        lines.append(
            (
                each.objective,
                f"{each.value:.3g} {each.unit}",
                each.items,
                each.halves.value,
                None if each.halves.null is None else each.halves.null.p_value,
                highest,
                ", ".join(significant) or "-",
            )
        )
    columns = ("objective", "value", "items", "halves agree", "p", "highest heads", "significant")
    note = (
        "halves agree: Spearman's rho of the maps of two halves of the items. significant: heads that hold "
        "on other items beyond every head of every null model."
    )
    print_table(f"{run.model}: head maps by {run.settings.localizer}", columns, lines, note)
    pairs = []
    for pair in run.agreements:
        rho, null = pair.measurement, pair.measurement.null
        ends = "-" if rho.interval is None else f"{rho.interval[0]:.2f} to {rho.interval[1]:.2f}"
        pairs.append(
            (f"{pair.one}, {pair.other}", rho.value, ends, None if null is None else null.floor, pair.p)
        )
    if pairs:
        of_pairs = ("maps", "rho", "95 % interval", "null models", "corrected p")
        print_table("Do the maps agree?", of_pairs, pairs, _top(run))
    for left in run.left_out:
        print(f"Not mapped: {left.objective} ({left.reason})")


def _top(run: AtlasRun) -> str:
    if run.top is None:
        return ""
    named = ", ".join(map(str, run.top.heads)) or "none"
    nulls = "" if run.top.in_null_models is None else f"; {run.top.in_null_models:.2g} in null models"
    return f"Among the {run.top.k} highest of every map: {named} (by chance {run.top.by_chance:.2g}{nulls})."
