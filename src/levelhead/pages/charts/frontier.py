"""The chart of what less bias costs: every setting as a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from levelhead.measures.measurement import Measurement
from levelhead.pages.charts.base import Chart, Point, absolute_ends, chart_of, data_of, page_spec
from levelhead.pages.names import LONG


@dataclass(frozen=True)
class Axes:
    """What a frontier shows: bias on one axis, use on the other."""

    name: str
    title: str
    bias: str
    use: str
    less_bias: str  # which way is better
    points: str = "settings"
    level: str = "level"  # what points are colored by
    bent: bool = False  # whether the axis of use is bent, so that far points leave the near ones apart


@dataclass(frozen=True)
class FrontierPoint:
    """One setting: what bias it leaves, and what the model is still good for."""

    setting: str
    level: str  # that it acts on
    bias: float
    use: float
    kept: bool  # whether it keeps the model's ability
    chosen: bool = False
    bias_ends: tuple[float, float] | None = None  # 95 % intervals, where they are drawn
    use_ends: tuple[float, float] | None = None


@dataclass(frozen=True)
class Cross:
    """The unmodified model's 95 % intervals, between which settings can hardly be told from it."""

    bias: float
    use: float
    bias_ends: tuple[float, float] | None
    use_ends: tuple[float, float] | None


def cross_of(
    bias: Measurement | None,
    use: float | None,
    use_ends: tuple[float, float] | None = None,
    absolute: bool = False,
) -> Cross | None:
    """The cross of an unmodified model; None where its bias or its use is not known.

    absolute: of a signed bias the size is drawn, whose interval starts at 0 where the sign is not sure.
    """
    if bias is None or bias.value is None or use is None:
        return None
    value, ends = bias.value, bias.interval
    return (
        Cross(abs(value), use, absolute_ends(ends), use_ends)
        if absolute
        else Cross(value, use, ends, use_ends)
    )


def frontier(points: Sequence[FrontierPoint], axes: Axes, cross: Cross | None = None) -> Chart:
    """Bias against use; one point a setting, colored by the level that it acts on; the chosen one has a ring.

    Axes are as long as the intervals of the unmodified model, so that noise is not taken for a difference.
    """
    alt_text = f"{axes.title}: {len(points)} {axes.points}, {axes.bias} against {axes.use}. {axes.less_bias}"
    free = alt.Scale(zero=False, nice=True)  # not from 0: all points must stay apart
    up = alt.Scale(type="symlog", constant=1) if axes.bent else free
    x, y = alt.X("bias:Q", title=axes.bias, scale=free), alt.Y("use:Q", title=axes.use, scale=up)
    base: Any = alt.Chart()
    crosses = [Cross(p.bias, p.use, p.bias_ends, p.use_ends) for p in points]
    thin = [rule for each in crosses for rule in _cross_marks(each, x, y, 1)]
    levels = list(dict.fromkeys(point.level for point in points))
    colors = alt.Scale(domain=levels, range=[f"$level{i % 8}" for i in range(len(levels))])
    shapes = alt.Scale(domain=["kept", "lost"], range=["circle", "triangle-down"])
    dots = base.mark_point(filled=True, size=90, opacity=0.9, cursor="pointer").encode(
        color=alt.Color("level:N", sort=levels, title=axes.level, scale=colors),
        shape=alt.Shape("ability:N", title="ability", scale=shapes),
        tooltip=[
            alt.Tooltip("setting:N"),
            alt.Tooltip(f"{LONG}:N", title="in full"),
            alt.Tooltip("level:N", title=axes.level),
            alt.Tooltip("bias:Q", format=".4f", title=axes.bias),
            alt.Tooltip("use:Q", format=".4f", title=axes.use),
            alt.Tooltip("ability:N", title="ability"),
        ],
    )
    layers = [*_cross_marks(cross, x, y, 7), *thin, dots.encode(x=x, y=y)]
    if any(point.chosen for point in points):  # Vega warns of a layer without a point
        chosen = base.transform_filter("datum.chosen")
        ring = chosen.mark_point(filled=False, size=330, strokeWidth=2, opacity=1, color="$ink")
        name = chosen.mark_text(align="left", dx=14, dy=-10, fontSize=12, fontWeight=600, color="$ink")
        layers += [ring.encode(x=x, y=y), name.encode(x=x, y=y, text="setting:N")]
    data: list[Point] = []
    for point in points:
        drawn = {name: value for name, value in asdict(point).items() if not name.endswith("_ends")}
        data.append({**drawn, "ability": "kept" if point.kept else "lost", LONG: point.setting})
    spec = page_spec(alt.layer(*layers, data=data_of(data)), alt_text, 340)
    return Chart(axes.name, axes.title, alt_text, spec)


def _cross_marks(cross: Cross | None, x: alt.X, y: alt.Y, width: int) -> list[Any]:
    """A rule for each interval that is known."""
    if cross is None:
        return []
    rules = []
    for ends, across in ((cross.bias_ends, True), (cross.use_ends, False)):
        if ends is not None:
            low, high = ends
            place = {"bias": cross.bias, "use": cross.use, "end": high, "bias" if across else "use": low}
            rule = chart_of([place]).mark_rule(color="$faint", strokeWidth=width, strokeCap="round")
            rules.append(rule.encode(x=x, y=y, x2="end:Q") if across else rule.encode(x=x, y=y, y2="end:Q"))
    return rules
