"""What all charts share: a name, a title, words for who cannot see them, the page's colors, SVG files.

Colors are names such as $biased. The page's theme fills them in, light or dark; in SVG files it is the light
one, on white. They stand once, in template/page.css, and survive common color blindness and print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert as vlc

from levelhead.escaping import escaped

LINES = alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=400)
_CSS = Path(__file__).parents[1] / "template" / "page.css"
_WIDTH = 520  # in pixels, of a figure whose chart is as wide as its page
_TEXTS = ("data", "datasets", "domain", "sort", "title")  # where a string is no color, whatever it looks like
_CONFIG = {
    "view": {"stroke": None},
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "gridColor": "$line", "domainColor": "$muted"},
    "legend": {"labelFontSize": 11, "titleFontSize": 12},
}
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
    """A drawn chart."""

    name: str  # also that of its files
    title: str
    alt_text: str  # what it shows, for who cannot see it
    spec: Mapping[str, Any]  # of Vega-Lite
    follows: Sequence[str] = field(default=())  # signals


def data_of(points: Sequence[Point]) -> Any:
    """The data of a chart."""
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


def drawn(chart: Chart) -> alt.TopLevelMixin:
    """A chart as an altair object in the page's light theme, for notebooks: it can be changed and saved."""
    spec = _themed(_sized(chart))
    whole: alt.TopLevelMixin = alt.Chart.from_dict(
        {**spec, "title": {"text": chart.title, "anchor": "start"}}
    )
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
