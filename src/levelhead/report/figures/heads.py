"""Figures of a heads run: Fig. 1 to 4 of 'Bias A-head?', from the run folder alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import altair as alt

from levelhead.errors import BadRun
from levelhead.files import write_whole
from levelhead.report.charts import heads as charts_heads
from levelhead.report.charts.base import (
    BIASED,
    DIVERGING,
    INK,
    MUTED,
    REGULAR,
    SEQUENTIAL,
    Chart,
    figure,
    finished,
    of_rows,
    save_svg,
)
from levelhead.results.folder import Row, RunData, read_run

_CELL = 22  # pixels of a heat map's cell
_CHAR, _WORD_GAP, _PANEL = (
    7.2,
    12.0,
    145,
)  # the arcs figure: width of a letter, between words, height of a panel
_CHOICE = "The sentence whose attention changes most in the most biased head; regular head drawn at random"


def write_figures(folder: str | Path) -> list[Path]:
    """All figures that the run has results for, as SVG under figures/; each appears whole or not at all."""
    run = read_run(folder)
    if "scores" not in run.results:
        raise BadRun(f"{folder} has no head scores yet. Run `levelhead heads` on it first.")
    writers: dict[str, Callable[[Path], object]] = {
        "heatmap": lambda path: save_svg(heat_map(run), path),
        "heatmap-signed": lambda path: save_svg(heat_map(run, signed=True), path),
    }
    for name, (chart, subtitle) in _charts(run).items():
        writers[name] = partial(_write_chart, chart, subtitle)
    if example := run.results.get("counter/example"):
        writers["example"] = lambda path: path.write_text(arcs(example), encoding="utf-8")
    return [write_whole(run.folder / "figures" / f"{name}.svg", write) for name, write in writers.items()]


def _charts(run: RunData) -> dict[str, tuple[Chart, str]]:
    """The charts that the report's page shows too, each with its subtitle."""
    scores, about = run.results["scores"], f"{_model(run)}, {_test(run)}"
    found = {"distribution": (charts_heads.distribution(scores), f"{about}: {_measured(run)}")}
    if "ablation" in run.results:
        rho = run.results["ablation"][0]["value"]
        told = "not measured" if rho is None else f"{rho:.2f}"
        subtitle = (
            f"{about}: Spearman's rho {told} over {len(scores)} heads; on the dashed line the two are equal"
        )
        found["ablation"] = (charts_heads.ablation(scores, removal_rows(run)), subtitle)
    if groups := [row for row in run.results.get("counter", []) if row["value"] is not None]:
        found["counter"] = (charts_heads.counter(groups), _t_tests(groups))
    tried = {key: run.results.get(f"debias/{key}", []) for key in charts_heads.TRIED}
    if trade := charts_heads.tradeoff(tried):
        found["debias"] = (trade, f"{about}: |SEAT| against perplexity; left and down is better")
    return found


def _write_chart(chart: Chart, subtitle: str, path: Path) -> None:
    path.write_text(figure(chart, subtitle), encoding="utf-8")


def heat_map(run: RunData, signed: bool = False) -> Any:
    """Fig. 2: the score of every head; negatives clipped to 0 as in the paper, or signed."""
    rows = run.results["scores"]
    values = [{**row, "score": row["score"] if signed else max(0.0, row["score"])} for row in rows]
    most = max(abs(row["score"]) for row in values) or 1.0
    low, colors = (-most, DIVERGING) if signed else (0.0, SEQUENTIAL)
    layers, heads = max(row["layer"] for row in rows), max(row["head"] for row in rows)
    chart = (
        of_rows(values)
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="layer", sort="descending"),
            color=alt.Color("score:Q", title="b", scale=alt.Scale(domain=[low, most], range=colors)),
            tooltip=["layer:O", "head:O", "score:Q", "stderr:Q", "q:Q"],
        )
        .properties(width=_CELL * heads, height=_CELL * layers)
    )
    what = "red adds to bias, blue counteracts it" if signed else "scores below 0 are shown as 0"
    return finished(chart, f"Where bias ({_test(run)}) sits in {_model(run)}", f"{_measured(run)}; {what}")


def removal_rows(run: RunData) -> list[Row]:
    """One row for each head that was removed alone."""
    return [row for key, rows in run.results.items() if key.startswith("ablation/") for row in rows]


def _t_tests(groups: Sequence[Row]) -> str:
    told = []
    for row in groups:
        d = row["details"]
        tested = "no t-test" if d["t"] is None else f"t = {d['t']:.2f}, p = {d['p_value']:.3g}"
        told.append(f"{row['group']}: {tested}, N = {row['n']}")
    return "; ".join(told)


def arcs(example: Sequence[Row]) -> str:
    """Fig. 3 as SVG: from the target word, one arc to every word, as thick as its normalized attention."""
    width = max(560.0, *(_places(row["tokens"])[1] + 40 for row in example))
    height = _PANEL * len(example) + 60
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" role="img">'
        f'<title>Attention of one sentence</title><rect width="100%" height="100%" fill="white"/>'
        f'<text x="20" y="24" font-size="15" font-weight="bold" fill="{INK}">Where the target word looks</text>'
        f'<text x="20" y="42" font-size="11" fill="{MUTED}">{escape(_CHOICE)}</text>'
    )
    panels = [_panel(row, 55 + _PANEL * i) for i, row in enumerate(example)]
    return "\n".join([head, *panels, "</svg>\n"])


def _places(tokens: Sequence[str]) -> tuple[list[float], float]:
    """The middle of each word, and where the line ends."""
    places, x = [], 20.0
    for token in tokens:
        wide = _CHAR * len(token)
        places.append(x + wide / 2)
        x += wide + (_WORD_GAP if token else 0)
    return places, x


def _panel(row: Row, top: int) -> str:
    x, _ = _places(row["tokens"])
    line = top + _PANEL - 30
    color = BIASED if row["group"] == "biased" else REGULAR
    start = sum(x[i] for i in row["target"]) / len(row["target"])
    value = "unscored" if row["attention"] is None else f"{row['attention']:.4f}"
    told = f"{row['group']} head {row['layer']}-{row['head']}, {row['version']}: attention to the attribute word {value}"
    parts = [f'<text x="20" y="{top + 16}" font-size="12" fill="{color}">{escape(told)}</text>']
    for i, weight in enumerate(row["weights"]):
        if weight and i not in row["target"]:
            reach = min(70.0, abs(x[i] - start) / 2)
            bend = f"M{start:.1f},{line - 14} C{start:.1f},{line - 14 - reach:.1f} {x[i]:.1f},{line - 14 - reach:.1f}"
            shade = 1.0 if i in row["attribute"] else 0.35
            parts.append(
                f'<path d="{bend} {x[i]:.1f},{line - 14}" fill="none" stroke="{color}" '
                f'stroke-width="{0.3 + 5 * weight:.2f}" stroke-opacity="{shade}"/>'
            )
    for i, token in enumerate(row["tokens"]):
        strong = ' font-weight="bold"' if i in (*row["target"], *row["attribute"]) else ""
        parts.append(
            f'<text x="{x[i]:.1f}" y="{line}" font-size="12" text-anchor="middle" fill="{INK}"{strong}>'
            f"{escape(token)}</text>"
        )
    return "\n".join(parts)


def _model(run: RunData) -> str:
    return str(run.settings["model"])


def _test(run: RunData) -> str:
    return str(run.results["words"][0]["test"])


def _measured(run: RunData) -> str:
    seat, words = run.results["seat"][0], run.results["words"][0]
    return f"SEAT {seat['value']:.2f}, {words['words']} words in {words['contexts']} contexts"
