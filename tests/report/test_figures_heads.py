"""Figures of a heads run: one chart serves the page and the SVG file."""

from __future__ import annotations

import re
from pathlib import Path

from levelhead.report.charts.base import figure
from levelhead.report.charts.heads import distribution, tradeoff
from levelhead.report.figures.heads import write_figures
from tests.report.synthetic import HOSTILE, debias_rows, write_heads


def test_a_heads_run_with_all_experiments_has_all_figures(tmp_path: Path) -> None:
    found = {
        path.stem: path.read_text(encoding="utf-8") for path in write_figures(write_heads(tmp_path / "run"))
    }
    assert set(found) == {"distribution", "heatmap", "heatmap-signed", "ablation", "counter", "debias"}
    assert all(text.startswith("<svg") for text in found.values())
    assert not any(HOSTILE in text for text in found.values())
    assert "rho 0.93 over 20 heads" in found["ablation"]


def test_a_figure_has_the_colors_of_the_pages_light_theme() -> None:
    text = figure(
        distribution([{"layer": 1, "head": 1, "score": 0.3}, {"layer": 1, "head": 2, "score": -0.2}])
    )
    css = Path("src/levelhead/report/template/page.css").read_text(encoding="utf-8")
    for name in ("biased", "regular", "faint"):
        color = re.findall(rf"--{name}: (#\w+)", css)[0]
        assert color in text, name
    assert "$" not in text


def test_the_trade_shows_each_strategy_once_on_all_contexts() -> None:
    chart = tradeoff(debias_rows())
    assert chart is not None
    points = {p["strategy"]: p for p in chart.spec["data"]["values"]}
    assert set(points) == {"top-0", "top-1", "top-2", "bottom-2", "random-2", "learned, at most 1.05"}
    assert len(points) == len(chart.spec["data"]["values"])
    assert points["learned, at most 1.05"]["seat"] == 1.02  # |SEAT|, and not that of contexts not learned on
    assert points["random-2"]["seat"] == 1.25  # the mean of |SEAT|, not |mean SEAT|
    assert points["bottom-2"]["ratio"] == 2.0


def test_a_model_that_predicts_no_tokens_has_no_trade_to_show() -> None:
    rows = {
        key: [row for row in found if row.get("measure") == "seat"] for key, found in debias_rows().items()
    }
    assert tradeoff(rows) is None
