"""Figures of a heads run: one chart serves the page and the SVG file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from levelhead.edits.sites import Head
from levelhead.errors import BadRun
from levelhead.escaping import escaped
from levelhead.pages.charts.base import color, figure
from levelhead.pages.charts.heads import distribution, heat_map, tradeoff, write_figures
from levelhead.runs.folder import Run
from levelhead.studies.heads import Heads, open_heads
from levelhead.studies.heads.records import HeadScore, StrategyMeasured
from tests.report.synthetic import HOSTILE, heads_settings, measured, write_heads

CSS = Path(__file__).parents[2] / "src" / "levelhead" / "pages" / "template" / "page.css"


def test_a_heads_run_with_all_experiments_has_all_figures(tmp_path: Path) -> None:
    paths = write_figures(write_heads(tmp_path / "run"))
    figures = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    assert set(figures) == {
        "distribution",
        "heatmap",
        "heatmap-signed",
        "ablation",
        "counter",
        "debias",
        "example",
    }
    assert all(ElementTree.fromstring(text).tag.endswith("svg") for text in figures.values())
    assert not any(HOSTILE in text for text in figures.values())
    assert "rho 0.93 over 20 heads" in figures["ablation"]
    assert "attention to the attribute word 0.2500" in figures["example"]


def test_a_run_without_scores_is_one_clear_line(tmp_path: Path) -> None:
    Run.open(tmp_path / "run", Heads, heads_settings()).close()
    with pytest.raises(BadRun, match="no head scores yet"):
        write_figures(tmp_path / "run")


def test_a_figure_has_the_colors_of_the_pages_light_theme() -> None:
    scores = [
        HeadScore(Head(0, head), score, None, None, None, head + 1, 1.0)
        for head, score in enumerate((0.3, -0.2))
    ]
    text = figure(distribution(scores))
    light = CSS.read_text(encoding="utf-8").partition("}")[0]
    for name in ("biased", "regular", "faint"):
        assert color(name) == re.findall(rf"--{name}: (#\w+)", light)[0]
        assert color(name) in text, name
    assert "$" not in text


def test_the_heat_map_shows_scores_below_0_as_0_unless_it_is_signed(tmp_path: Path) -> None:
    run = open_heads(write_heads(tmp_path / "run"))
    plain, signed = (heat_map(run, signed=signed).spec["data"]["values"] for signed in (False, True))
    by_head = {each.head: each.score for each in run.scores}
    for shown, score in zip(plain, signed, strict=True):
        assert score["score"] == by_head[Head(score["layer"] - 1, score["head"] - 1)]
        assert shown["score"] == max(0.0, score["score"])
    assert min(point["score"] for point in signed) < 0


def test_the_trade_shows_each_strategy_once_on_all_contexts(tmp_path: Path) -> None:
    chart = tradeoff(open_heads(write_heads(tmp_path / "run")))
    assert chart is not None
    points = {point["strategy"]: point for point in chart.spec["data"]["values"]}
    assert set(points) == {"top-0", "top-1", "top-2", "bottom-2", "random-2", "learned, at most 1.05"}
    assert len(points) == len(chart.spec["data"]["values"])
    assert points["learned, at most 1.05"]["seat"] == 1.02  # |SEAT|, and not that of contexts not learned on
    assert points["random-2"]["seat"] == 1.25  # the mean of |SEAT|, not |mean SEAT|
    assert points["bottom-2"]["ratio"] == 2.0


def test_a_model_that_predicts_no_tokens_has_no_trade_to_show(tmp_path: Path) -> None:
    seats = [StrategyMeasured(name, (), measured("seat", 1.2)) for name in ("base", "top-2")]
    missing = [StrategyMeasured(name, (), measured("fluency change", None)) for name in ("base", "top-2")]
    with Run.open(tmp_path / "run", Heads, heads_settings()) as run:
        run.results(Heads.top_sweep, lambda: [*seats, *missing])
        assert tradeoff(Heads(run.data())) is None


@pytest.mark.parametrize("sign", ["\x1b", "\0", "\u2028", "\ud800", "\uffff"])
def test_a_character_that_no_svg_can_hold_is_drawn_by_number_or_as_a_replacement(
    sign: str, tmp_path: Path
) -> None:
    """vl-convert would end the process for some of them."""
    chart = heat_map(open_heads(write_heads(tmp_path / "run")))
    text = figure(replace(chart, title=f"red{sign}model"), subtitle=f"of{sign}old")
    ElementTree.fromstring(text)
    drawn = escaped(sign) if escaped(sign) != sign else "\ufffd"
    assert f"red{drawn}model" in text
    assert f"of{drawn}old" in text
