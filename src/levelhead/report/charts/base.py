"""What all charts share: colors that survive color blindness and print, the page's theme, SVG without a
browser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert as vlc

FEMALE, MALE = "#7b3294", "#e08214"  # purple and orange: distinct for every common color blindness
BIASED, REGULAR = "#b2182b", "#2166ac"
INK, MUTED = "#222222", "#666666"
DIVERGING = ["#2166ac", "#f7f7f7", "#b2182b"]  # anti-biased, none, biased
SEQUENTIAL = ["#f7f7f7", "#b2182b"]

LINES = alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=400)
_WIDTH = 520  # of a figure, in pixels
_TEXTS = ("data", "datasets", "domain", "sort", "title")  # where a string is no color, whatever it looks like

alt.data_transformers.disable_max_rows()


# ---- charts of the page: colors are names such as $biased, which its theme fills in


@dataclass(frozen=True)
class Control:
    """A choice that charts follow: a signal of theirs and its values, each with a label."""

    signal: str
    label: str
    options: Sequence[tuple[Any, str]]
    chosen: Any


@dataclass(frozen=True)
class Chart:
    """A drawn chart: its name (also that of its files), title, and what it shows in words for who cannot see
    it."""

    name: str
    title: str
    told: str
    spec: Mapping[str, Any]
    follows: Sequence[str] = field(default=())  # signals


def of_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A chart of these rows, with nothing drawn yet."""
    typed: Any = alt
    return typed.Chart(typed.Data(values=list(rows)))


def page_spec(chart: Any, told: str, height: int) -> dict[str, Any]:
    """As wide as the page; heights are given in pixels, since Vega-Lite warns when they follow the rows."""
    size = alt.AutoSizeParams(type="fit-x", contains="padding")
    return dict(chart.properties(width="container", height=height, autosize=size, description=told).to_dict())


def figure(chart: Chart, subtitle: str = "") -> str:
    """A chart of the page as SVG on white, in the page's light theme."""
    spec = _themed(chart.spec)
    spec |= {"width": _WIDTH, "autosize": {"type": "pad"}}
    spec["title"] = {"text": chart.title, "subtitle": subtitle, "anchor": "start", "fontSize": 15}
    spec["config"] = {
        "view": {"stroke": None},
        "axis": {"labelFontSize": 11, "titleFontSize": 12, "gridColor": "#e5e5e5"},
    }
    return str(vlc.vegalite_to_svg(spec, vl_version=_VL))


def _themed(node: Any) -> Any:
    """Color names become colors, as in page.js."""
    if isinstance(node, str):
        return _theme().get(node, node)
    if isinstance(node, list):
        return [_themed(each) for each in node]
    if isinstance(node, Mapping):
        return {name: value if name in _TEXTS else _themed(value) for name, value in node.items()}
    return node


@lru_cache(maxsize=1)
def _theme() -> dict[str, str]:
    css = (Path(__file__).parents[1] / "template" / "page.css").read_text(encoding="utf-8")
    return {f"${name}": value for name, value in re.findall(r"--(\w+): (#\w+)", css.partition("}")[0])}


# ---- figures that are drawn for SVG alone


def finished(chart: Any, title: str, subtitle: str = "") -> Any:
    """The chart with its title and the house style: titles say what is seen, subtitles what was measured."""
    return (
        chart.properties(title=alt.TitleParams(title, subtitle=subtitle, anchor="start", fontSize=15))
        .configure_view(strokeWidth=0)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e5e5e5", domainColor=MUTED)
        .configure_legend(labelFontSize=11, titleFontSize=12)
    )


def save_svg(chart: Any, path: Path) -> None:
    """Write a chart as SVG, offline."""
    path.write_text(vlc.vegalite_to_svg(chart.to_dict(), vl_version=_VL), encoding="utf-8")


_VL = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
