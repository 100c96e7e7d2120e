"""Fig. 5 of 'Bias A-head?': heat maps of several models side by side, from the run folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt

from levelhead.errors import BadRun
from levelhead.files import write_whole
from levelhead.report.charts.base import DIVERGING, INK, SEQUENTIAL, finished, save_svg
from levelhead.results.folder import Row, RunData, read_run

_CELL = 18  # pixels of a heat map's cell
_WIDEST = 4  # models in a row


def write_figures(folder: str | Path) -> list[Path]:
    """side-by-side.svg (scores below 0 shown as 0, as in the paper) and side-by-side-signed.svg under
    figures/."""
    run = read_run(folder)
    if run.settings.get("study") != "compare_heads" or "scores" not in run.results:
        raise BadRun(f"{folder} is not a comparison. Give the folder that `levelhead compare-heads` wrote.")
    return [
        write_whole(run.folder / "figures" / f"{name}.svg", partial(save_svg, side_by_side(run, signed)))
        for name, signed in (("side-by-side", False), ("side-by-side-signed", True))
    ]


def side_by_side(run: RunData, signed: bool = False) -> Any:
    """One heat map a model on one scale; boxes mark the base's most anti-biased heads in models of its
    shape."""
    rows = run.results["scores"]
    values = [{**row, "score": row["score"] if signed else max(0.0, row["score"])} for row in rows]
    most = max(abs(row["score"]) for row in values) or 1.0
    domain, colors = ([-most, most], DIVERGING) if signed else ([0.0, most], SEQUENTIAL)
    scale = alt.Scale(domain=domain, range=colors)
    shapes = [(model["layers"], model["heads"]) for model in run.results["models"]]
    boxes = _most_anti_biased(rows, int(run.settings["top"]))
    panels = []
    for number, (model, shape) in enumerate(zip(run.results["models"], shapes, strict=True), start=1):
        marked = boxes if shape == shapes[0] else []
        some = [row for row in values if row["number"] == number]
        panels.append(
            _panel(some, marked, scale).properties(
                width=_CELL * shape[1], height=_CELL * shape[0], title=_caption(model)
            )
        )
    chart = alt.concat(*panels, columns=_WIDEST).resolve_scale(color="shared")
    what = "red adds to bias, blue counteracts it" if signed else "scores below 0 are shown as 0"
    subtitle = f"Head bias scores b, one scale; {what}; boxes: the base's most anti-biased heads"
    return finished(chart, f"Biased heads ({run.settings['test']}) in {len(shapes)} models", subtitle)


def _panel(rows: Sequence[Row], boxes: Sequence[Row], scale: Any) -> Any:
    x = alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0))
    y = alt.Y("layer:O", title="layer", sort="descending")
    color = alt.Color("score:Q", title="b", scale=scale)
    cells = (
        _chart(rows)
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(x=x, y=y, color=color, tooltip=["layer:O", "head:O", "score:Q"])
    )
    if not boxes:
        return cells
    return cells + _chart(boxes).mark_rect(fill=None, stroke=INK, strokeWidth=2).encode(x=x, y=y)


def _chart(rows: Sequence[Row]) -> Any:
    return alt.Chart(alt.Data(values=list(rows)))  # type: ignore[no-untyped-call]


def _most_anti_biased(rows: Sequence[Row], top: int) -> list[Row]:
    base = sorted((row for row in rows if row["number"] == 1), key=lambda row: float(row["score"]))
    return [{"layer": row["layer"], "head": row["head"]} for row in base[:top] if row["score"] < 0]


def _caption(model: Row) -> str:
    seat = "not measured" if model["value"] is None else f"{model['value']:.2f}"
    return f"{model['model']}: SEAT {seat}, {model['biased']} of {model['layers'] * model['heads']} biased"
