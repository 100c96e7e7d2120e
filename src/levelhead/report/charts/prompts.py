"""Charts of CounterActs and of the trade between bias and use, for the report's page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from levelhead.report.charts.base import LINES, Chart, Control, of_rows, page_spec
from levelhead.report.contents import BASE
from levelhead.results.folder import Row

BARE = "no knowledge"  # the base prompt, which has none before it
_VERDICTS = {
    "strengthens": "$biased",
    "weakens": "$regular",
    "overturns": "$good",
    "no change": "$muted",
    "not measured": "$faint",
    "without knowledge": "$ink",
}


# ---- CounterActs


def prompt_controls(ks: Sequence[int], k: int, who: Sequence[str]) -> list[Control]:
    """Which k, and which model or variant, the charts show."""
    controls = [Control("k", "Likeliest tokens that count (k)", [(each, f"k = {each}") for each in ks], k)]
    if len(who) > 1:
        controls.append(Control("who", "Model", [(each, each) for each in who], who[0]))
    return controls


def who(row: Mapping[str, Any]) -> str:
    """The model that was asked, and what was changed in it."""
    return str(row["model"] if row["variant"] == BASE else f"{row['model']}, {row['variant']}")


def masses(rows: Sequence[Row], groups: Sequence[str], controls: Sequence[Control]) -> list[Chart]:
    """Mass of either group's words for each kind of knowledge; one chart for each group of occupations."""
    names = {f"{group} mass": group for group in groups}
    charts = []
    for group in groups:
        own = [
            {
                "k": r["k"],
                "who": who(r),
                "kind": _kind(r),
                "words": names[r["name"]],
                "mass": r["value"],
                "n": r["n"],
            }
            for r in rows
            if r["name"] in names and r.get("group") == group and r["value"] is not None
        ]
        told = f"Probability of {groups[0]} and {groups[1]} words after each kind of knowledge, {group} occupations."
        bars = (
            _following(own, controls)
            .mark_bar()
            .encode(
                y=alt.Y("kind:N", sort=_kinds(rows), title=None, axis=LINES),
                yOffset=alt.YOffset("words:N", sort=list(groups)),
                x=alt.X("mass:Q", title="probability among the top k"),
                color=alt.Color(
                    "words:N",
                    sort=list(groups),
                    title="words",
                    scale=alt.Scale(domain=list(groups), range=["$female", "$male"]),
                ),
                tooltip=["kind:N", "words:N", alt.Tooltip("mass:Q", format=".4f"), "n:Q"],
            )
        )
        spec = page_spec(bars, told, 34 * len(_kinds(rows)))
        charts.append(
            Chart(
                f"masses-{group}",
                f"Answers about {group} occupations",
                told,
                spec,
                [c.signal for c in controls],
            )
        )
    return charts


def margins(rows: Sequence[Row], controls: Sequence[Control]) -> Chart:
    """The margin of each kind with its interval and verdict, beside the margin without knowledge."""
    verdicts = {
        (r["k"], who(r), r["kind"]): r["verdict"]
        for r in rows
        if r["name"] == "margin change" and not r["group"]
    }
    values = [
        {
            "k": r["k"],
            "who": who(r),
            "kind": _kind(r),
            "margin": r["value"],
            "n": r["n"],
            "low": _bound(r, 0),
            "high": _bound(r, 1),
            "bare": r["kind"] == BASE,
            "verdict": verdicts.get((r["k"], who(r), r["kind"]), "without knowledge"),
        }
        for r in rows
        if r["name"] == "margin" and not r["group"] and r["value"] is not None
    ]
    told = "Margin between the stereotyped group's words and the other's after each kind of knowledge, with intervals."
    base = _following(values, controls)
    where = alt.Y("kind:N", sort=_kinds(rows), title=None, axis=LINES)
    scale = alt.Scale(domain=list(_VERDICTS), range=list(_VERDICTS.values()))
    color = alt.Color("verdict:N", scale=scale, title="the stereotype")
    zero = of_rows([{"x": 0}]).mark_rule(color="$muted").encode(x="x:Q")
    bare = base.transform_filter("datum.bare").mark_rule(color="$ink", strokeDash=[4, 4]).encode(x="margin:Q")
    bars = base.mark_rule(strokeWidth=2.5).encode(
        y=where, x=alt.X("low:Q", title="margin"), x2="high:Q", color=color
    )
    points = base.mark_point(filled=True, size=80, opacity=1).encode(
        y=where,
        x="margin:Q",
        color=color,
        tooltip=[
            "kind:N",
            alt.Tooltip("margin:Q", format=".4f"),
            alt.Tooltip("low:Q", format=".4f"),
            alt.Tooltip("high:Q", format=".4f"),
            "verdict:N",
            "n:Q",
        ],
    )
    layers = alt.layer(zero, bare, bars, points)
    spec = page_spec(layers, told, 36 * len(_kinds(rows)))
    return Chart("margins", "Does knowledge change the answer?", told, spec, [c.signal for c in controls])


def _following(rows: Sequence[Mapping[str, Any]], controls: Iterable[Control]) -> Any:
    chart = of_rows(rows)
    for control in controls:
        parameter = alt.param(name=control.signal, value=control.chosen)
        chart = chart.add_params(parameter).transform_filter(f"datum.{control.signal} == {control.signal}")
    return chart


def _kind(row: Mapping[str, Any]) -> str:
    return "\n".join(textwrap.wrap(BARE if row["kind"] == BASE else str(row["kind"]), 18))


def _kinds(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(_kind(row) for row in rows if row.get("kind")))


def _bound(row: Mapping[str, Any], side: int) -> float:
    return float(row["value"] if row["interval"] is None else row["interval"][side])


# ---- the frontier


@dataclass(frozen=True)
class Axes:
    """What a frontier shows: bias on one axis, use on the other."""

    name: str
    title: str
    bias: str
    use: str
    less_bias: str  # which way is better


def frontier(points: Sequence[Row], axes: Axes) -> Chart:
    """Bias against use; one point a setting, colored by the level that it acts on."""
    told = f"{axes.title}: {len(points)} settings, {axes.bias} against {axes.use}. {axes.less_bias}"
    levels = list(dict.fromkeys(point["level"] for point in points))
    colors = [f"$level{i % 8}" for i in range(len(levels))]
    # axes may start anywhere: the trade is in the differences, and all points must stay apart
    free = alt.Scale(zero=False, nice=True)
    dots = (
        of_rows(points)
        .mark_point(filled=True, size=90, opacity=0.9, cursor="pointer")
        .encode(
            x=alt.X("bias:Q", title=axes.bias, scale=free),
            y=alt.Y("use:Q", title=axes.use, scale=free),
            color=alt.Color(
                "level:N", sort=levels, title="level", scale=alt.Scale(domain=levels, range=colors)
            ),
            shape=alt.Shape(
                "usable:N",
                title="ability",
                scale=alt.Scale(domain=["kept", "lost"], range=["circle", "triangle-down"]),
            ),
            tooltip=[
                alt.Tooltip("setting:N"),
                alt.Tooltip("level:N"),
                alt.Tooltip("bias:Q", format=".4f", title=axes.bias),
                alt.Tooltip("use:Q", format=".4f", title=axes.use),
                alt.Tooltip("usable:N", title="ability"),
            ],
        )
    )
    return Chart(axes.name, axes.title, told, page_spec(dots, told, 340))
