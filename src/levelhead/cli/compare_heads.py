"""`levelhead compare-heads`: the heads of several models side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from levelhead.cli.app import Json, app, print_json, print_table


@app.command("compare-heads")
def compare_heads(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of `levelhead heads`, the base first.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for tables and figures.")
    ],
    top: Annotated[int, typer.Option(min=1, help="How many of the base's anti-biased heads to follow.")] = 5,
    json: Json = False,
) -> None:
    """Hold models against a base: whose heads carry the bias, and which anti-biased heads changed sides."""
    from levelhead.report.figures.comparison import write_figures
    from levelhead.studies.heads.comparison import compare_heads as compare

    run = compare(runs, out, top)
    told = {"run": str(run.folder), **{key: run.results[key] for key in ("models", "pairs", "flips")}}
    told["figures"] = [str(path) for path in write_figures(out)]
    print_json(told) if json else _print(told)


def _print(told: dict[str, Any]) -> None:
    columns = ("model", "heads", "SEAT", "biased", "anti-biased", "most biased", "most anti-biased")
    rows = [
        (
            m["model"],
            m["layers"] * m["heads"],
            m["value"],
            m["biased"],
            m["anti_biased"],
            m["most_biased"],
            m["most_anti_biased"],
        )
        for m in told["models"]
    ]
    print_table("Models side by side", columns, rows)
    for pair in told["pairs"]:
        print(f"{pair['model']} against {pair['base']}: {_in_words(pair)}")
        if not pair["same_contexts"]:
            print("The two runs read other contexts of the same words: a part of the difference is theirs.")
    print(f"Results and figures: {told['run']}")


def _in_words(pair: dict[str, Any]) -> str:
    if pair["flips"] is None:
        return str(pair["reason"])
    rho = pair["spearman"]["value"]
    said = "no rank correlation" if rho is None else f"rank correlation of the heads {rho:.2f}"
    followed = f"{pair['followed_flips']} of the {len(pair['followed'])} most anti-biased"
    return (
        f"{said}; {pair['flips']} of {pair['anti_biased_in_base']} anti-biased heads became biased "
        f"({pair['certain_flips']} with q < 0.05 in both; {followed}), {pair['flips_back']} went the other way"
    )
