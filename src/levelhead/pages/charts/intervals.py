"""The chart of any measurements: dots are values, lines intervals, ticks what an unbiased model has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from levelhead.measures.measurement import Measurement
from levelhead.pages.charts.base import Chart, Point, chart_of, page_spec

_LINE = 26  # pixels of a measurement


@dataclass(frozen=True)
class Labeled:
    """A measurement and what it is called in the chart."""

    label: str
    measurement: Measurement


def intervals(measured: Sequence[Labeled], title: str) -> Chart:
    """Every measurement that has a value, one below the other; each measure has an axis of its own."""
    valued = [each for each in measured if each.measurement.value is not None]
    points = [_point(each) for each in valued]
    names = list(dict.fromkeys(each.measurement.name for each in valued))
    labels = len({each.label for each in valued})
    base = chart_of(points)
    y = alt.Y("label:N", title=None, sort=None)
    x = alt.X("value:Q", title=None, scale=alt.Scale(zero=False))
    lines = base.mark_rule(color="$muted", strokeWidth=2).encode(
        x=alt.X("low:Q", title=None), x2="high:Q", y=y
    )
    ticks = base.mark_tick(color="$biased", thickness=2).encode(x="neutral:Q", y=y)
    dots = base.mark_point(filled=True, size=70, opacity=1, color="$ink").encode(
        x=x, y=y, tooltip=["measure:N", "label:N", "value:Q", "low:Q", "high:Q", "neutral:Q", "n:Q"]
    )
    layers = (lines + ticks + dots).properties(width=260, height=_LINE * max(labels, 1))
    alt_text = f"{len(points)} values with 95 % intervals: {', '.join(names)}."
    if len(names) == 1:
        return Chart("intervals", title, alt_text, page_spec(layers, alt_text, _LINE * max(labels, 1)))
    panels = layers.facet(facet=alt.Facet("measure:N", title=None, sort=names), columns=2)
    spec = panels.resolve_scale(x="independent").properties(description=alt_text).to_dict(validate=False)
    return Chart("intervals", title, alt_text, spec)


def _point(each: Labeled) -> Point:
    measurement = each.measurement
    low, high = measurement.interval or (None, None)
    numbers = {"value": measurement.value, "low": low, "high": high, "neutral": measurement.neutral}
    return {"measure": measurement.name, "label": each.label, **numbers, "n": measurement.n}
