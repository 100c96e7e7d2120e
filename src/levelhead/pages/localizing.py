"""What an atlas says: one sentence, the maps side by side, the agreement of every two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from levelhead.measures.measurement import Null
from levelhead.pages.charts.base import Chart, Point, chart_of
from levelhead.pages.charts.heads import score_scale
from levelhead.pages.tables import probability
from levelhead.results.records.localizing import MapAgreement, MappedHead, MappedObjective
from levelhead.results.runs import AtlasRun

_CELL = 20  # pixels of a head
_WIDEST = 3  # maps in a row
ENOUGH = 19  # null models from which on a head can have p 0.05


def atlas_sentence(run: AtlasRun) -> str:
    """What came out: whether maps agree beyond null models, or, of one map, whether a head stands out."""
    if not run.objectives:
        return "Not finished: run the same command again; it goes on."
    if run.doubts:
        return f"Nothing is claimed of {run.model}."
    if _null_models(run) < 3:
        return f"{run.model} was held against too few null models for a claim: --null {ENOUGH} asks enough."
    return _agreement_sentence(run) if run.agreements else heads_sentence(run, run.objectives[0])


def _agreement_sentence(run: AtlasRun) -> str:
    agreeing = [each for each in run.agreements if each.agree]
    pairs = len(run.agreements)
    counted = f"{len(agreeing)} of {pairs} pairs of maps agree" if pairs > 1 else "the two maps agree"
    if agreeing:
        said = "; ".join(_said(each) for each in sorted(agreeing, key=lambda each: each.p or 0.0))
        return f"{run.model}: {counted} in their heads beyond its {_null_models(run)} null models: {said}."
    tested = [each for each in run.agreements if each.measurement.value is not None]
    if not tested:
        return f"{run.model}: no two maps can be compared."
    best = max(tested, key=lambda each: each.measurement.excess or 0.0)
    return (
        f"{run.model}: no two maps are shown to agree in their heads more than those of its "
        f"{_null_models(run)} null models do; nearest to it {_said(best)}."
    )


def _said(each: MapAgreement) -> str:
    rho, null = each.measurement.value or 0.0, each.measurement.null
    beside = "" if null is None else f"; {null_text(null)}"
    p = "" if each.p is None else f", corrected p {probability(each.p).text}"
    return f"{each.one} and {each.other} (rho {rho:.2f}{beside}{p})"


def heads_sentence(run: AtlasRun, objective: MappedObjective) -> str:
    """Whether heads of one map hold on other items, beyond null models."""
    own = [each for each in run.heads if each.objective == objective.objective]
    found = sorted((each for each in own if each.significant), key=lambda each: -abs(each.held))
    nulls = _null_models(run)
    value = f"{objective.objective} {objective.value:.3g} {objective.unit}"
    if found and not run.doubts:
        named = ", ".join(str(each.head) for each in found)
        which = "a head holds" if len(found) == 1 else f"{len(found)} heads hold"
        return (
            f"{run.model}, {value}: {which} on other items beyond every head of its {nulls} null models: "
            f"{named} (p {probability(found[0].p).text}, corrected for {len(own)} heads)."
        )
    least = f", whose smallest possible p is {1 / (1 + nulls):.2f}" if nulls < ENOUGH else ""
    return f"{run.model}, {value}: no head stands out from those of its {nulls} null models{least}."


def null_text(null: Null) -> str:
    """What null models show."""
    return f"{null.floor:.2f} ± {null.spread:.2f} in null models"


def _null_models(run: AtlasRun) -> int:
    """How many null models were mapped, for every objective."""
    return max((each.null_model + 1 for each in run.maps if each.null_model is not None), default=0)


# ---- pictures


def map_chart(run: AtlasRun, objective: MappedObjective) -> Chart:
    """The map of one objective."""
    panel, heads = _panel(run, objective)
    title = f"{objective.objective}: {objective.value:.3g} {objective.unit}"
    text = f"Scores of {len(heads)} heads for {objective.objective}, by layer."
    return Chart(f"map-{objective.objective}", title, text, panel.to_dict())


def maps_chart(run: AtlasRun) -> Chart:
    """All maps side by side, each on a scale of its own."""
    panels = [
        _panel(run, each)[0].properties(title=f"{each.objective} ({each.value:.3g} {each.unit})")
        for each in run.objectives
    ]
    chart = alt.concat(*panels, columns=_WIDEST).resolve_scale(color="independent")
    title = f"Heads behind {len(panels)} objectives in {run.model}"
    return Chart("atlas", title, f"Head maps of {len(panels)} objectives side by side.", chart.to_dict())


def _panel(run: AtlasRun, objective: MappedObjective) -> tuple[Any, Sequence[MappedHead]]:
    """The heat map of one objective; a frame marks significant heads."""
    heads = [each for each in run.heads if each.objective == objective.objective]
    layers, width = (1 + max(place) for place in zip(*(each.head for each in heads), strict=True))
    x = alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0))
    y = alt.Y("layer:O", title="layer", sort="descending")
    scale = score_scale([each.score for each in heads], signed=True)
    cells = (
        chart_of([_point(each) for each in heads])
        .mark_rect(stroke="$card", strokeWidth=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color("b:Q", title="b", scale=scale),
            tooltip=["layer:O", "head:O", "b:Q", "holds:Q", "p:Q"],
        )
    )
    framed = [_point(each) for each in run.significant if each.objective == objective.objective]
    frames = chart_of(framed).mark_rect(fill=None, stroke="$ink", strokeWidth=2).encode(x=x, y=y)
    drawn = alt.layer(cells, frames) if framed else alt.layer(cells)
    return drawn.properties(width=_CELL * width, height=_CELL * layers), heads


def _point(each: MappedHead) -> Point:
    """Layer and head count from 1, as people count them."""
    place = {"layer": each.head.layer + 1, "head": each.head.head + 1}
    return {**place, "b": each.score, "holds": each.held, "p": each.p}
