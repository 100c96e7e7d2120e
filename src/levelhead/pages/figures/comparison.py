"""Fig. 5 of 'Bias A-head?': heat maps of several models side by side, from the run folder alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from levelhead.edits.head import Head
from levelhead.errors import BadRun
from levelhead.pages.charts.base import Chart, Point, chart_of, figure
from levelhead.pages.charts.heads import score_scale
from levelhead.pages.figures.files import write_svgs
from levelhead.results.records.comparison import ModelHeadScore, ScoredModelSummary
from levelhead.results.runs import HeadComparisonRun, open_head_comparison

_CELL = 18  # pixels of a heat map's cell
_WIDEST = 4  # models in a row


def write_figures(folder: str | Path) -> list[Path]:
    """side-by-side.svg (scores below 0 shown as 0, as in the paper) and its signed twin under figures/."""
    run = open_head_comparison(folder)
    if not run.scores:
        raise BadRun(f"{folder} has no scores yet. Run the same `levelhead compare-heads` command again.")
    about = "Head bias scores b, one scale; {}; boxes: the base's most anti-biased heads"
    drawings = {
        "side-by-side": figure(side_by_side(run), about.format("scores below 0 are shown as 0")),
        "side-by-side-signed": figure(
            side_by_side(run, signed=True), about.format("red adds to bias, blue counteracts it")
        ),
    }
    return write_svgs(run.folder, drawings)


def side_by_side(run: HeadComparisonRun, signed: bool = False) -> Chart:
    """One heat map a model on one scale; boxes mark the base's most anti-biased heads, where shapes agree."""
    shown = [each.score if signed else max(0.0, each.score) for each in run.scores]
    points = [_point(each.head, score) for each, score in zip(run.scores, shown, strict=True)]
    scale = score_scale(shown, signed)
    base = run.models[0]
    boxes = [_point(head) for head in _most_anti_biased(run.scores, run.settings.top)]
    panels = []
    for number, model in enumerate(run.models, start=1):
        same_shape = (model.layers, model.heads) == (base.layers, base.heads)
        own = [point for point, each in zip(points, run.scores, strict=True) if each.number == number]
        panel = _panel(own, boxes if same_shape else [], scale)
        size = {"width": _CELL * model.heads, "height": _CELL * model.layers}
        panels.append(panel.properties(title=_caption(model), **size))
    chart = alt.concat(*panels, columns=_WIDEST).resolve_scale(color="shared")
    title = f"Biased heads ({run.settings.test}) in {len(panels)} models"
    return Chart(
        "side-by-side", title, f"Bias scores of every head of {len(panels)} models.", chart.to_dict()
    )


def _point(head: Head, score: float = 0.0) -> Point:
    """Layer and head count from 1, as people count them."""
    return {"layer": head.layer + 1, "head": head.head + 1, "score": score}


def _panel(points: Sequence[Point], boxes: Sequence[Point], scale: Any) -> Any:
    x = alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0))
    y = alt.Y("layer:O", title="layer", sort="descending")
    color = alt.Color("score:Q", title="b", scale=scale)
    cells = (
        chart_of(points)
        .mark_rect(stroke="$card", strokeWidth=1)
        .encode(x=x, y=y, color=color, tooltip=["layer:O", "head:O", "score:Q"])
    )
    if not boxes:
        return cells
    return cells + chart_of(boxes).mark_rect(fill=None, stroke="$ink", strokeWidth=2).encode(x=x, y=y)


def _most_anti_biased(scores: Iterable[ModelHeadScore], top: int) -> list[Head]:
    base = sorted((each for each in scores if each.number == 1), key=lambda each: each.score)
    return [each.head for each in base[:top] if each.score < 0]


def _caption(model: ScoredModelSummary) -> str:
    seat = "not measured" if model.seat.value is None else f"{model.seat.value:.2f}"
    return f"{model.model}: SEAT {seat}, {model.biased} of {model.layers * model.heads} biased"
