"""`levelhead compare-heads`: the heads of several models side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, app, checked, print_json, print_table
from levelhead.cli.endings import output_folder
from levelhead.cli.terminal import print_link

if TYPE_CHECKING:
    from levelhead.results.records.comparison import ModelPair
    from levelhead.results.runs import HeadComparisonRun


@app.command("compare-heads")
@checked
def compare_heads(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of `levelhead heads`, the base first.")
    ],
    out: Annotated[Path, output_folder("Folder for tables and figures.", "DIR")],
    top: Annotated[int, typer.Option(min=1, help="How many of the base's anti-biased heads to follow.")] = 5,
    json: Json = False,
) -> None:
    """Hold models against a base: whose heads carry the bias, and which anti-biased heads changed sides."""
    from levelhead.pages.figures.comparison import write_figures
    from levelhead.studies.heads.comparison import compare_heads as compare

    run = compare(runs, out, top)
    figures = [str(path) for path in write_figures(out)]
    if json:
        tables = {"models": run.models, "pairs": run.pairs, "flips": run.flips}
        print_json({"run": str(run.folder), **tables, "figures": figures})
    else:
        _print(run)


def _print(run: HeadComparisonRun) -> None:
    columns = ("model", "heads", "SEAT", "biased", "anti-biased", "most biased", "most anti-biased")
    lines = [
        (
            model.model,
            model.layers * model.heads,
            model.seat.value,
            model.biased,
            model.anti_biased,
            model.most_biased,
            model.most_anti_biased,
        )
        for model in run.models
    ]
    print_table("Models side by side", columns, lines)
    for pair in run.pairs:
        print(f"{pair.model} against {pair.base}: {_in_words(pair)}")
        if not pair.same_contexts:
            print("The two runs read other contexts of the same words: a part of the difference is theirs.")
    print(f"Results and figures: {run.folder}")
    print_link(run.folder, run.LAYOUT)


def _in_words(pair: ModelPair) -> str:
    both = pair.agreement
    if both is None:
        return pair.reason
    rho = both.spearman.value
    ranks = "no rank correlation" if rho is None else f"rank correlation of the heads {rho:.2f}"
    followed = f"{both.followed_flips} of the {len(both.followed)} most anti-biased"
    return (
        f"{ranks}; {both.flips} of {both.anti_biased_in_base} anti-biased heads became biased "
        f"({both.clear_flips} of them clear in both; {followed}), {both.flips_back} went the other way"
    )
