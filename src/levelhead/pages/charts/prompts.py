"""Charts of CounterActs: one model at a time for the page, models side by side for SVG files.

The side-by-side figure of masses is that of Figures 2-4 of 'Counteracts'; log-odds and margins with
intervals are ours.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from levelhead.measures.cloze.log_odds import CHANGE as LOG_ODDS_CHANGE
from levelhead.measures.cloze.log_odds import NAME as LOG_ODDS
from levelhead.measures.measurement import Measurement
from levelhead.pages.charts.base import Chart, Control, Point, chart_of, data_of, following, page_spec
from levelhead.results.records.cloze import ClozeCell
from levelhead.results.records.common import BASE
from levelhead.results.runs import PromptsRun

_BARE = "no knowledge"  # the base prompt, which has none before it
_VERDICTS = {  # colors of what knowledge does to the stereotype
    "strengthens": "$biased",
    "weakens": "$regular",
    "overturns": "$good",
    "no change": "$muted",
    "not more than in null models": "$muted",
    "too few null models": "$faint",
    "untested": "$faint",
    "not measured": "$faint",
    "without knowledge": "$ink",
}


@dataclass(frozen=True)
class _Level:
    """A number that knowledge moves, and the name of its change."""

    name: str
    change: str
    title: str  # of the axis


_LOG_ODDS = _Level(LOG_ODDS, LOG_ODDS_CHANGE, "stereotype log-odds")
_MARGIN = _Level("margin", "margin change", "margin")
_PANEL = 190  # pixels: the width of one model among several
_LINE = 18  # letters in a line of a kind's name


def asked_model(cell: ClozeCell) -> str:
    """The model that was asked, and what was changed in it."""
    return cell.model if cell.variant == BASE else f"{cell.model}, {cell.variant}"


# ---- for the page


def prompt_controls(run: PromptsRun) -> list[Control]:
    """Which k, and which model or variant, the charts show."""
    settings, models = run.settings, _models(run)
    ks = [(k, f"k = {k}") for k in settings.ks]
    controls = [Control("k", "Likeliest tokens that count (k)", ks, settings.shown_k)]
    if len(models) > 1:
        controls.append(Control("who", "Model", [(model, model) for model in models], models[0]))
    return controls


def log_odds(run: PromptsRun, cells: Sequence[ClozeCell], controls: Sequence[Control]) -> Chart:
    """The log-odds of each kind with their interval and verdict; cells hold the verdicts to be shown."""
    alt_text = (
        "How much the odds of the two groups' words follow the stereotype after each kind of knowledge, "
        "with intervals."
    )
    of_all_words = [control for control in controls if control.signal != "k"]
    marks = following(
        _level_marks(_level_points(cells, _LOG_ODDS), _kinds_in_lines(run), _LOG_ODDS), of_all_words
    )
    spec = page_spec(marks, alt_text, 36 * len(run.settings.kinds))
    return Chart("log-odds", "Does knowledge change the odds?", alt_text, spec, _signals(of_all_words))


def margins(run: PromptsRun, controls: Sequence[Control]) -> Chart:
    """The margin of each kind with its interval and verdict, beside the margin without knowledge."""
    alt_text = (
        "Margin between the stereotyped group's words and the other's after each kind of knowledge, "
        "with intervals."
    )
    marks = following(
        _level_marks(_level_points(run.cells, _MARGIN), _kinds_in_lines(run), _MARGIN), controls
    )
    spec = page_spec(marks, alt_text, 36 * len(run.settings.kinds))
    return Chart(
        "margins", "Does knowledge change the likeliest answers?", alt_text, spec, _signals(controls)
    )


def masses(run: PromptsRun, controls: Sequence[Control]) -> list[Chart]:
    """Mass of either group's words for each kind of knowledge; one chart for each group of occupations."""
    charts = []
    for group in run.settings.groups:
        alt_text = f"Probability of {_both(run)} words after each kind of knowledge, {group} occupations."
        points = _mass_points([cell for cell in run.cells if cell.group == group], run.settings.groups)
        marks = following(_mass_marks(points, run.settings.groups, _kinds_in_lines(run)), controls)
        spec = page_spec(marks, alt_text, 34 * len(run.settings.kinds))
        title = f"Answers about {group} occupations"
        charts.append(Chart(f"masses-{group}", title, alt_text, spec, _signals(controls)))
    return charts


def _signals(controls: Iterable[Control]) -> list[str]:
    return [control.signal for control in controls]


# ---- models side by side, for one k


def log_odds_panels(run: PromptsRun, cells: Sequence[ClozeCell]) -> Chart:
    """The log-odds of every model and variant; cells hold the verdicts to be shown."""
    marks = _level_marks(_level_points(cells, _LOG_ODDS), _kinds(run), _LOG_ODDS)
    marks = marks.properties(width=_PANEL, height=24 * len(run.settings.kinds))
    spec = marks.facet(column=_by_model(run)).to_dict()
    alt_text = "Log-odds of every model after each kind of knowledge, with intervals."
    return Chart("counteracts-log-odds", "Does knowledge change the odds?", alt_text, spec)


def margin_panels(run: PromptsRun, k: int) -> Chart:
    """The margins of every model and variant."""
    points = _level_points([cell for cell in run.cells if cell.k == k], _MARGIN)
    marks = _level_marks(points, _kinds(run), _MARGIN)
    marks = marks.properties(width=_PANEL, height=24 * len(run.settings.kinds))
    spec = marks.facet(column=_by_model(run)).to_dict()
    alt_text = f"Margins of every model after each kind of knowledge, top {k}, with intervals."
    return Chart(f"counteracts-margins-k{k}", "Does knowledge change the answer?", alt_text, spec)


def mass_panels(run: PromptsRun, k: int) -> Chart:
    """The masses of every model and variant, the two groups of occupations one above the other."""
    groups = run.settings.groups
    points = _mass_points([cell for cell in run.cells if cell.k == k and cell.group], groups)
    marks = _mass_marks(points, groups, _kinds(run))
    marks = marks.properties(width=_PANEL, height=28 * len(run.settings.kinds))
    sides = alt.Row("occupations:N", sort=[_occupations(group) for group in groups], title=None)
    spec = marks.facet(column=_by_model(run), row=sides).to_dict()
    alt_text = f"Probability of {_both(run)} words after each kind of knowledge, top {k}, every model."
    title = f"How likely {_both(run)} words are after each kind of knowledge"
    return Chart(f"counteracts-masses-k{k}", title, alt_text, spec)


def _by_model(run: PromptsRun) -> alt.Column:
    return alt.Column("who:N", sort=_models(run), title=None)


# ---- what both show


def _level_points(cells: Iterable[ClozeCell], level: _Level) -> list[Point]:
    whole = [cell for cell in cells if not cell.group]
    verdicts = {_place(cell): cell.verdict for cell in whole if cell.name == level.change}
    return [
        {
            **_labels(cell),
            "level": cell.measurement.value,
            "low": _bound(cell.measurement, 0),
            "high": _bound(cell.measurement, 1),
            "bare": cell.kind == BASE,
            "verdict": verdicts.get(_place(cell), "without knowledge"),
        }
        for cell in whole
        if cell.name == level.name and cell.measurement.value is not None
    ]


def _mass_points(cells: Iterable[ClozeCell], groups: tuple[str, str]) -> list[Point]:
    names = {f"{group} mass": group for group in groups}
    return [
        {
            **_labels(cell),
            "occupations": _occupations(cell.group),
            "words": names[cell.name],
            "mass": cell.measurement.value,
        }
        for cell in cells
        if cell.name in names and cell.measurement.value is not None
    ]


def _level_marks(points: Sequence[Point], kinds: alt.Y, level: _Level) -> Any:
    base = alt.Chart()
    scale = alt.Scale(domain=list(_VERDICTS), range=list(_VERDICTS.values()))
    color = alt.Color("verdict:N", scale=scale, title="the stereotype")
    origin = base.transform_calculate(zero="0").transform_aggregate(zero="min(zero)")
    zero = origin.mark_rule(color="$muted").encode(x="zero:Q")
    bare = base.transform_filter("datum.bare").mark_rule(color="$ink", strokeDash=[4, 4]).encode(x="level:Q")
    bars = base.mark_rule(strokeWidth=2.5).encode(
        y=kinds, x=alt.X("low:Q", title=level.title), x2="high:Q", color=color
    )
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(
        y=kinds,
        x=alt.X("level:Q", title=level.title),
        color=color,
        tooltip=[
            "kind:N",
            alt.Tooltip("level:Q", title=level.title, format=".4f"),
            alt.Tooltip("low:Q", format=".4f"),
            alt.Tooltip("high:Q", format=".4f"),
            "verdict:N",
            "n:Q",
        ],
    )
    return alt.layer(zero, bare, bars, dots, data=data_of(points))


def _mass_marks(points: Sequence[Point], groups: tuple[str, str], kinds: alt.Y) -> Any:
    order = list(groups)
    scale = alt.Scale(domain=order, range=["$female", "$male"])
    return (
        chart_of(points)
        .mark_bar()
        .encode(
            y=kinds,
            yOffset=alt.YOffset("words:N", sort=order),
            x=alt.X("mass:Q", title="probability among the top k"),
            color=alt.Color("words:N", sort=order, title="words", scale=scale),
            tooltip=["kind:N", "words:N", alt.Tooltip("mass:Q", format=".4f"), "n:Q"],
        )
    )


def _labels(cell: ClozeCell) -> Point:
    return {"k": cell.k, "who": asked_model(cell), "kind": _kind(cell.kind), "n": cell.measurement.n}


def _place(cell: ClozeCell) -> tuple[int, str, str, str]:
    return cell.k, cell.model, cell.variant, cell.kind


def _models(run: PromptsRun) -> list[str]:
    return list(dict.fromkeys(asked_model(cell) for cell in run.cells))


def _occupations(group: str) -> str:
    return f"{group} occupations"


def _both(run: PromptsRun) -> str:
    return " and ".join(run.settings.groups)


def _kind(kind: str) -> str:
    return _BARE if kind == BASE else kind


def _kinds(run: PromptsRun) -> alt.Y:
    """Kinds of knowledge from top to bottom, in the order of asking."""
    order = [_kind(kind) for kind in run.settings.kinds]
    return alt.Y("kind:N", sort=order, title=None, axis=alt.Axis(labelLimit=260))


def _kinds_in_lines(run: PromptsRun) -> alt.Y:
    """The same with short lines, for narrow pages."""
    lines = {_kind(kind): textwrap.wrap(_kind(kind), _LINE) for kind in run.settings.kinds}
    axis = alt.Axis(labelExpr=f"{json.dumps(lines)}[datum.label]", labelLimit=400)
    return _kinds(run).axis(axis)


def _bound(measurement: Measurement, side: int) -> float | None:
    return measurement.value if measurement.interval is None else measurement.interval[side]
