"""Charts of a CounterActs run (the paper's Figures 2-4, and margins with intervals). Reads the run folder
only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt

from levelhead.errors import BadRun
from levelhead.files import write_whole
from levelhead.report.charts.base import FEMALE, INK, MALE, MUTED, finished, save_svg
from levelhead.results.folder import RunData, read_run

UNTOUCHED = "base"
BASE_KIND = "no knowledge (base)"
_WIDTH = 190


def counteracts_figures(folder: str | Path) -> list[Path]:
    """Draw every figure of a run into RUN/figures; the paths of the SVG files."""
    data = read_run(folder)
    if data.settings.get("study") != "counteracts":
        raise BadRun(f"{folder} is not a run of `levelhead prompts`. Give the folder that it wrote.")
    charts: dict[str, Callable[[RunData, int], Any]] = {"masses": masses_chart, "margins": margins_chart}
    return [
        write_whole(
            data.folder / "figures" / f"counteracts-{name}-k{k}.svg", partial(save_svg, chart(data, k))
        )
        for name, chart in charts.items()
        for k in data.settings["ks"]
    ]


def masses_chart(data: RunData, k: int) -> Any:
    """Female and male mass per kind: models side by side, the two groups of occupations one above the
    other."""
    groups = data.settings["groups"]
    names = {f"{group} mass": group for group in groups}
    rows = [
        {**_labels(row), "words": names[row["name"]], "mass": row["value"], "n": row["n"]}
        for row in _rows(data, k, names)
        if row["group"] and row["value"] is not None
    ]
    bars = (
        _chart(rows)
        .properties(width=_WIDTH, height=alt.Step(11))
        .mark_bar()
        .encode(
            y=alt.Y("kind:N", sort=_kinds(data), title=None, axis=alt.Axis(labelLimit=260)),
            yOffset=alt.YOffset("words:N", sort=groups),
            x=alt.X("mass:Q", title=f"probability among the top {k}"),
            color=alt.Color(
                "words:N", scale=alt.Scale(domain=groups, range=[FEMALE, MALE]), title="words", sort=groups
            ),
            tooltip=[
                "model:N",
                "kind:N",
                "occupations:N",
                "words:N",
                alt.Tooltip("mass:Q", format=".4f"),
                "n:Q",
            ],
        )
        .facet(
            column=alt.Column("model:N", sort=_models(data), title=None),
            row=alt.Row("occupations:N", sort=[f"{group} occupations" for group in groups], title=None),
        )
    )
    title = f"How likely {groups[0]} and {groups[1]} words are, kind of knowledge by kind of knowledge"
    return finished(bars, title, f"mean probability mass among the {k} likeliest tokens; {_asked(data)}")


def margins_chart(data: RunData, k: int) -> Any:
    """The margin pro − anti of each kind with its interval, beside the margin without knowledge."""
    rows = [
        {**_labels(row), "margin": row["value"], "low": _bound(row, 0), "high": _bound(row, 1)}
        for row in _rows(data, k, ["margin"])
        if not row["group"] and row["value"] is not None
    ]
    verdicts = {_cell(row): row["verdict"] for row in _rows(data, k, ["margin change"]) if not row["group"]}
    bare = {row["model"]: row["margin"] for row in rows if row["kind"] == BASE_KIND}
    for row in rows:
        row["verdict"] = verdicts.get((row["model"], row["kind"]), "without knowledge")
        row["reference"] = bare.get(row["model"])
    base = _chart(rows)
    where = alt.Y("kind:N", sort=_kinds(data), title=None, axis=alt.Axis(labelLimit=260))
    line = base.mark_rule(color=MUTED, strokeDash=[3, 3]).encode(x="mean(reference):Q")
    bars = base.mark_rule(strokeWidth=2).encode(
        y=where, x=alt.X("low:Q", title="margin"), x2="high:Q", color=_verdict()
    )
    points = base.mark_point(filled=True, size=55, opacity=1).encode(
        y=where,
        x="margin:Q",
        color=_verdict(),
        tooltip=["model:N", "kind:N", alt.Tooltip("margin:Q", format=".4f"), "verdict:N"],
    )
    panels = (
        alt.layer(line, bars, points)
        .properties(width=_WIDTH, height=alt.Step(24))
        .facet(column=alt.Column("model:N", sort=_models(data), title=None))
    )
    subtitle = (
        f"margin: mass of the stereotyped group's words minus the other's, top {k}, with 95 % intervals; dashed: "
        f"without knowledge; {_asked(data)}"
    )
    return finished(panels, "Does knowledge change the model's mind?", subtitle)


_VERDICTS = {
    "strengthens": "#b2182b",
    "weakens": "#2166ac",
    "overturns": "#1b7837",
    "no change": MUTED,
    "not measured": "#bbbbbb",
    "without knowledge": INK,
}


def _verdict() -> Any:
    scale = alt.Scale(domain=list(_VERDICTS), range=list(_VERDICTS.values()))
    return alt.Color("verdict:N", scale=scale, title="the stereotype")


def _rows(data: RunData, k: int, names: Iterable[str]) -> list[dict[str, Any]]:
    wanted = set(names)
    found = [
        row for row in data.rows if row["name"] in wanted and row.get("k") == k and not row["occupation"]
    ]
    if not found:
        raise BadRun(
            f"{data.folder} has no results for k = {k} yet. Run the same `levelhead prompts` command again."
        )
    return found


def _chart(rows: list[dict[str, Any]]) -> Any:
    """Vega needs one row to know the fields of a chart in which nothing could be measured."""
    typed: Any = alt
    values = rows or [{"model": "nothing measured: no group word in any top k", "kind": BASE_KIND}]
    return typed.Chart(typed.Data(values=values))


def _labels(row: dict[str, Any]) -> dict[str, Any]:
    model, kind = _cell(row)
    return {"model": model, "kind": kind, "occupations": f"{row['group']} occupations"}


def _cell(row: dict[str, Any]) -> tuple[str, str]:
    model = row["model"] if row["variant"] == UNTOUCHED else f"{row['model']}, {row['variant']}"
    return model, BASE_KIND if row["kind"] == "base" else row["kind"]


def _bound(row: dict[str, Any], side: int) -> float:
    return float(row["value"] if row["interval"] is None else row["interval"][side])


def _kinds(data: RunData) -> list[str]:
    return [BASE_KIND if kind == "base" else kind for kind in data.settings["kinds"]]


def _models(data: RunData) -> list[str]:
    labels = [
        _cell({"model": m, "variant": v, "kind": ""})
        for m in data.settings["models"]
        for v in _variants(data)
    ]
    return [label for label, _ in labels]


def _variants(data: RunData) -> list[str]:
    return list(data.settings["variants"])


def _asked(data: RunData) -> str:
    return f"{data.settings['n_prompts']:,} prompts of {data.settings['prompts']}"
