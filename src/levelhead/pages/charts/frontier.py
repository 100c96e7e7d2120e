"""The chart of what less bias costs: every setting as a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import altair as alt

from levelhead.pages.charts.base import Chart, chart_of, page_spec


@dataclass(frozen=True)
class Axes:
    """What a frontier shows: bias on one axis, use on the other."""

    name: str
    title: str
    bias: str
    use: str
    less_bias: str  # which way is better


@dataclass(frozen=True)
class FrontierPoint:
    """One setting: what bias it leaves, and what the model is still good for."""

    setting: str
    level: str  # that it acts on
    bias: float
    use: float
    kept: bool  # whether it keeps the model's ability


def frontier(points: Sequence[FrontierPoint], axes: Axes) -> Chart:
    """Bias against use; one point a setting, colored by the level that it acts on."""
    alt_text = f"{axes.title}: {len(points)} settings, {axes.bias} against {axes.use}. {axes.less_bias}"
    levels = list(dict.fromkeys(point.level for point in points))
    colors = alt.Scale(domain=levels, range=[f"$level{i % 8}" for i in range(len(levels))])
    shapes = alt.Scale(domain=["kept", "lost"], range=["circle", "triangle-down"])
    # axes may start anywhere: the trade is in the differences, and all points must stay apart
    free = alt.Scale(zero=False, nice=True)
    dots = (
        chart_of([{**asdict(point), "ability": "kept" if point.kept else "lost"} for point in points])
        .mark_point(filled=True, size=90, opacity=0.9, cursor="pointer")
        .encode(
            x=alt.X("bias:Q", title=axes.bias, scale=free),
            y=alt.Y("use:Q", title=axes.use, scale=free),
            color=alt.Color("level:N", sort=levels, title="level", scale=colors),
            shape=alt.Shape("ability:N", title="ability", scale=shapes),
            tooltip=[
                alt.Tooltip("setting:N"),
                alt.Tooltip("level:N"),
                alt.Tooltip("bias:Q", format=".4f", title=axes.bias),
                alt.Tooltip("use:Q", format=".4f", title=axes.use),
                alt.Tooltip("ability:N", title="ability"),
            ],
        )
    )
    return Chart(axes.name, axes.title, alt_text, page_spec(dots, alt_text, 340))
