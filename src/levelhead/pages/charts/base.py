"""What all charts share: a name, a title, words for who cannot see them, the page's colors, SVG files.

Colors are names such as $biased. The page's theme fills them in, light or dark; in SVG files it is the light
one, on white. They stand once, in template/page.css, and survive common color blindness and print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert as vlc

from levelhead.escaping import escaped
from levelhead.measures.measurement import Measurement
from levelhead.runs.study import FIGURES
from levelhead.safe_files import write_inside, write_text_inside

LINES = alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=400)
_CSS = Path(__file__).parents[1] / "template" / "page.css"
_WIDTH = 520  # in pixels, of a figure whose chart is as wide as its page
_TEXTS = ("data", "datasets", "domain", "sort", "title")  # where a string is no color, whatever it looks like
_CONFIG = {
    "view": {"stroke": None},
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "gridColor": "$line", "domainColor": "$muted"},
    "legend": {"labelFontSize": 11, "titleFontSize": 12},
}
_LINE = 26  # pixels of a measurement
_NOT_DRAWN = re.compile(r"[\ud800-\udfff\ufffe\uffff]")
_VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])

alt.data_transformers.disable_max_rows()

Point = Mapping[str, str | float | None]  # what one mark of a chart shows


@dataclass(frozen=True)
class Control:
    """A choice that charts follow: a signal of theirs and its values, each with a label."""

    signal: str
    label: str
    options: Sequence[tuple[str | int, str]]
    chosen: str | int


@dataclass(frozen=True)
class Chart:
    name: str  # also that of its files
    title: str
    alt_text: str  # what it shows, for who cannot see it
    spec: Mapping[str, Any]  # of Vega-Lite
    follows: Sequence[str] = field(default=())  # signals


def data_of(points: Sequence[Point]) -> Any:
    typed: Any = alt
    return typed.Data(values=list(points))


def chart_of(points: Sequence[Point]) -> Any:
    """A chart of these points, with nothing drawn yet."""
    typed: Any = alt
    return typed.Chart(data_of(points))


def absolute_ends(ends: tuple[float, float] | None) -> tuple[float, float] | None:
    """The interval of a size, from that of a signed value: it starts at 0 where the sign is not sure."""
    if ends is None:
        return None
    sizes = (abs(ends[0]), abs(ends[1]))
    return (0.0 if ends[0] <= 0 <= ends[1] else min(sizes)), max(sizes)


def page_spec(chart: Any, alt_text: str, height: int) -> dict[str, Any]:
    """As wide as the page; heights are given in pixels, since Vega-Lite warns when they follow the rows."""
    size = alt.AutoSizeParams(type="fit-x", contains="padding")
    whole = chart.properties(width="container", height=height, autosize=size, description=alt_text)
    return dict(whole.to_dict(validate=False))


def following(marks: Any, controls: Iterable[Control]) -> Any:
    """Marks of which only those are drawn that the controls choose."""
    for control in controls:
        parameter = alt.param(name=control.signal, value=control.chosen)
        marks = marks.add_params(parameter).transform_filter(f"datum.{control.signal} == {control.signal}")
    return marks


def figure(chart: Chart, subtitle: str = "") -> str:
    """A chart as SVG on white, in the page's light theme, with its title and what was measured below it."""
    spec = _sized(chart)
    spec["title"] = {"text": chart.title, "subtitle": subtitle, "anchor": "start", "fontSize": 15}
    return str(vlc.vegalite_to_svg(_drawable(_themed(spec)), vl_version=_VEGA_LITE))


def write_svgs(folder: Path, drawings: Mapping[str, str]) -> list[Path]:
    """Write SVG texts by name into RUN/figures, and each as PDF beside it, for papers; a file appears whole
    or not at all."""
    paths = []
    for name, svg in drawings.items():
        paths.append(write_text_inside(folder, f"{FIGURES}/{name}.svg", svg))
        write = partial(Path.write_bytes, data=vlc.svg_to_pdf(svg))
        write_inside(folder, f"{FIGURES}/{name}.pdf", write)
    return paths


def drawn(chart: Chart) -> alt.TopLevelMixin:
    """A chart as an altair object in the page's light theme, for notebooks: it can be changed and saved."""
    spec = {**_themed(_sized(chart)), "title": {"text": chart.title, "anchor": "start"}}
    whole: alt.TopLevelMixin = alt.Chart.from_dict(spec)
    return whole


def _sized(chart: Chart) -> dict[str, object]:
    """A chart's specification, of a fixed width where it would be as wide as its page."""
    sized: dict[str, object] = {**chart.spec, "config": _CONFIG}
    if sized.get("width") == "container":
        sized |= {"width": _WIDTH, "autosize": {"type": "pad"}}
    return sized


def color(name: str) -> str:
    """A color of the page's light theme: color("biased")."""
    return _theme()[f"${name}"]


def _themed(node: Any) -> Any:
    """Color names become colors, as in page.js."""
    if isinstance(node, str):
        return _theme().get(node, node)
    if isinstance(node, list):
        return [_themed(each) for each in node]
    if isinstance(node, Mapping):
        return {name: value if name in _TEXTS else _themed(value) for name, value in node.items()}
    return node


def _drawable(node: Any) -> Any:
    """The same with escapes, or a replacement character, for what XML cannot hold: vl-convert would end the
    process."""
    if isinstance(node, str):
        return _NOT_DRAWN.sub("\ufffd", escaped(node))
    if isinstance(node, list):
        return [_drawable(each) for each in node]
    if isinstance(node, Mapping):
        return {_drawable(name): _drawable(value) for name, value in node.items()}
    return node


@lru_cache(maxsize=1)
def _theme() -> dict[str, str]:
    light = _CSS.read_text(encoding="utf-8").partition("}")[0]
    return {f"${name}": value for name, value in re.findall(r"--(\w+): (#\w+)", light)}


# ---- any measurements


@dataclass(frozen=True)
class Labeled:
    """A measurement and what it is called in the chart."""

    label: str
    measurement: Measurement


def intervals(measured: Sequence[Labeled], title: str) -> Chart:
    """Every measurement that has a value, one below the other; each measure has an axis of its own.

    Dots are values, lines intervals, ticks what an unbiased model has.
    """
    points: list[Point] = []
    named: dict[str, None] = {}  # the measures, in the order of their first value
    for each in measured:
        own = each.measurement
        if own.value is not None:
            named[own.name] = None
            low, high = own.interval or (None, None)
            place: Point = {"measure": own.name, "label": each.label, "value": own.value, "low": low}
            points.append({**place, "high": high, "neutral": own.neutral, "n": own.n})
    names = list(named)
    height = _LINE * max(len({point["label"] for point in points}), 1)
    base = chart_of(points)
    y, x = alt.Y("label:N", title=None, sort=None), alt.X("value:Q", title=None, scale=alt.Scale(zero=False))
    low_end = alt.X("low:Q", title=None)
    lines = base.mark_rule(color="$muted", strokeWidth=2).encode(x=low_end, x2="high:Q", y=y)
    ticks = base.mark_tick(color="$biased", thickness=2).encode(x="neutral:Q", y=y)
    shows = ["measure:N", "label:N", "value:Q", "low:Q", "high:Q", "neutral:Q", "n:Q"]
    dots = base.mark_point(filled=True, size=70, opacity=1, color="$ink").encode(x=x, y=y, tooltip=shows)
    layers = (lines + ticks + dots).properties(width=260, height=height)
    alt_text = f"{len(points)} values with 95 % intervals: {', '.join(names)}."
    if len(names) == 1:
        return Chart("intervals", title, alt_text, page_spec(layers, alt_text, height))
    panels = layers.facet(facet=alt.Facet("measure:N", title=None, sort=names), columns=2)
    spec = panels.resolve_scale(x="independent").properties(description=alt_text).to_dict(validate=False)
    return Chart("intervals", title, alt_text, spec)
