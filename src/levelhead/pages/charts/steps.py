"""Bias along a training: one line a run, with 95 % intervals, over the steps of its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from levelhead.pages.charts.base import Chart, Control, Point, data_of, following, page_spec
from levelhead.results.records.survey import SurveyLine

_HEIGHT = 260  # pixels
_CURVE = "curve"  # the signal that says which bias and measure is drawn


def step_curves(lines: Sequence[SurveyLine], controls: Sequence[Control]) -> Chart:
    """Every measure of every checkpoint over the steps; the controls choose which measure."""
    points: list[Point] = [
        {
            _CURVE: curve_name(line),
            "training": line.run,
            "step": line.step,
            "value": line.value,
            "low": line.low,
            "high": line.high,
            "neutral": line.neutral,
        }
        for line in lines
    ]
    runs = list(dict.fromkeys(line.run for line in lines))
    alt_text = f"Bias over the steps of {', '.join(runs)}, with 95 % intervals."
    spec = page_spec(following(_marks(points, runs), controls), alt_text, _HEIGHT)
    return Chart("steps", "Bias along the training", alt_text, spec, [control.signal for control in controls])


def curve_controls(lines: Sequence[SurveyLine]) -> list[Control]:
    """Which bias and measure is drawn."""
    names = list(dict.fromkeys(map(curve_name, lines)))
    return [Control(_CURVE, "Measure", [(name, name) for name in names], names[0])]


def curve_name(line: SurveyLine) -> str:
    """A curve's bias and measure."""
    return f"{line.bias}: {line.measure}"


def _marks(points: Sequence[Point], runs: Sequence[str]) -> Any:
    base = alt.Chart()
    colors = alt.Scale(domain=list(runs), range=[f"$level{i % 8}" for i in range(len(runs))])
    color = alt.Color("training:N", sort=list(runs), scale=colors, title=None)
    x = alt.X("step:Q", title="step")
    y = alt.Y("value:Q", title="value", scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.2).encode(x=x, y=alt.Y("low:Q", title="value"), y2="high:Q", color=color)
    neutral = base.mark_line(strokeDash=[4, 4], color="$muted").encode(
        x=x, y="neutral:Q", detail="training:N"
    )
    line = base.mark_line(point=True).encode(
        x=x,
        y=y,
        color=color,
        tooltip=[
            "training:N",
            "step:Q",
            *(alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")),
        ],
    )
    return alt.layer(band, neutral, line, data=data_of(points))
