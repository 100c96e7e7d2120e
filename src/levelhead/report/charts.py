"""What all charts share: colors that survive color blindness and print, sizes, and SVG without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import vl_convert as vlc

FEMALE, MALE = "#7b3294", "#e08214"  # purple and orange: distinct for every common color blindness
BIASED, REGULAR = "#b2182b", "#2166ac"
INK, MUTED = "#222222", "#666666"
DIVERGING = ["#2166ac", "#f7f7f7", "#b2182b"]  # anti-biased, none, biased
SEQUENTIAL = ["#f7f7f7", "#b2182b"]

alt.data_transformers.disable_max_rows()


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
