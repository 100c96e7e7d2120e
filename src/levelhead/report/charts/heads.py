"""Charts of the heads study: Fig. 1 and 4 of 'Bias A-head?', removal against score, and what debiasing
costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from levelhead.report.charts.base import LINES, Chart, of_rows, page_spec
from levelhead.results.folder import Row

TRIED = {  # results under debias/: how heads were chosen, and the color of that
    "sweep": ("the top k removed", "$biased"),
    "learned": ("learned gates", "$good"),
    "table": ("other strategies", "$regular"),
    "random": ("random heads (mean)", "$muted"),
}


def distribution(scores: Sequence[Row]) -> Chart:
    """How the heads' bias scores are distributed, every head as a tick."""
    rows = [{"score": row["score"], "head": f"{row['layer']}-{row['head']}"} for row in scores]
    biased = sum(row["score"] > 0 for row in scores)
    told = f"Distribution of the bias scores of {len(rows)} heads; {biased} are above 0."
    score = alt.X("score:Q", title="bias score b")
    curve = (
        of_rows(rows)
        .transform_density("score", as_=["score", "density"], steps=200)
        .mark_area(color="$faint", opacity=0.6)
        .encode(x=score, y=alt.Y("density:Q", title="density"))
    )
    color = alt.condition("datum.score > 0", alt.value("$biased"), alt.value("$regular"))
    ticks = (
        of_rows(rows)
        .mark_tick(thickness=2, height=16, yOffset=-8)
        .encode(
            x=score, y=alt.value(220), color=color, tooltip=["head:N", alt.Tooltip("score:Q", format=".4f")]
        )
    )
    zero = of_rows([{"x": 0}]).mark_rule(color="$muted", strokeDash=[4, 4]).encode(x="x:Q")
    title = f"{biased} of {len(rows)} heads add to the bias"
    return Chart("distribution", title, told, page_spec(curve + zero + ticks, told, 220))


def ablation(scores: Sequence[Row], removals: Sequence[Row]) -> Chart:
    """Score against what |SEAT| does when the head is removed."""
    change = {(row["layer"], row["head"]): row["change"] for row in removals}
    rows = [
        {"head": f"{r['layer']}-{r['head']}", "b": r["score"], "drop": -change[r["layer"], r["head"]]}
        for r in scores
        if (r["layer"], r["head"]) in change
    ]
    told = f"Bias score of {len(rows)} heads against the drop of |SEAT| when each is removed."
    points = (
        of_rows(rows)
        .mark_circle(size=60, color="$accent", opacity=0.75)
        .encode(
            x=alt.X("b:Q", title="bias score b (gradient)"),
            y=alt.Y("drop:Q", title="drop of |SEAT| when removed"),
            tooltip=["head:N", alt.Tooltip("b:Q", format=".4f"), alt.Tooltip("drop:Q", format=".4f")],
        )
    )
    ends = [{"b": edge, "drop": edge} for edge in (min(r["b"] for r in rows), max(r["b"] for r in rows))]
    line = of_rows(ends).mark_line(color="$muted", strokeDash=[4, 4]).encode(x="b:Q", y="drop:Q")
    return Chart(
        "removal", "Does the score tell what removal does?", told, page_spec(line + points, told, 280)
    )


def counter(groups: Sequence[Row]) -> Chart:
    """Attention to the attribute word in originals and in counter-stereotypes, by group of heads."""
    order = ["original", "counter-stereotype"]
    rows = [
        {
            "group": f"{row['group']} heads\n({row['details']['heads']:.0f})",
            "version": version,
            "attention": row["details"][key],
            "sentences": row["n"],
        }
        for row in groups
        for version, key in zip(order, ("mean_original", "mean_counter"), strict=True)
    ]
    told = "Mean attention from the target word to the attribute word: " + "; ".join(
        f"{row['group']} heads {row['details']['mean_original']:.3f} in originals, "
        f"{row['details']['mean_counter']:.3f} in counter-stereotypes"
        for row in groups
    )
    bars = (
        of_rows(rows)
        .mark_bar()
        .encode(
            x=alt.X("attention:Q", title="mean normalized attention"),
            y=alt.Y("group:N", title=None, axis=LINES),
            yOffset=alt.YOffset("version:N", sort=order),
            color=alt.Color(
                "version:N", sort=order, title=None, scale=alt.Scale(range=["$accent", "$faint"])
            ),
            tooltip=["group:N", "version:N", alt.Tooltip("attention:Q", format=".4f"), "sentences:Q"],
        )
    )
    return Chart(
        "counter-stereotypes", "Where target words look", told, page_spec(bars, told, 52 * len(groups))
    )


def tradeoff(tried: Mapping[str, Sequence[Row]]) -> Chart | None:
    """What every way of gating heads bought and cost: |SEAT| against perplexity. tried: rows by the keys of
    TRIED.

    None where nothing has both, as in models that predict no tokens.
    """
    points = _points(tried)
    if not points:
        return None
    ways = list(dict.fromkeys(point["way"] for point in points))
    told = f"{len(points)} ways of gating heads: |SEAT| against perplexity. Left and down is better."
    base = of_rows(points)
    x = alt.X(
        "ratio:Q",
        title="perplexity, ratio to the untouched model",
        scale=alt.Scale(type="log", nice=False, padding=40),
    )
    y = alt.Y("seat:Q", title="|SEAT|", scale=alt.Scale(zero=False, padding=15))
    scale = alt.Scale(domain=ways, range=[color for way, color in TRIED.values() if way in ways])
    color = alt.Color("way:N", sort=ways, title=None, scale=scale)
    path = (
        base.transform_filter("datum.line")
        .mark_line(strokeWidth=1.5, opacity=0.7)
        .encode(x=x, y=y, color=color, order="order:Q")
    )
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        y=y,
        color=color,
        shape=alt.Shape("way:N", sort=ways, title=None, scale=alt.Scale(domain=ways)),
        tooltip=[
            "strategy:N",
            alt.Tooltip("seat:Q", format=".3f", title="|SEAT|"),
            alt.Tooltip("ratio:Q", format=".3f", title="perplexity ratio"),
        ],
    )
    names = base.mark_text(align="left", dx=7, dy=-6, fontSize=10, color="$soft").encode(
        x=x, y=y, text="label:N"
    )
    return Chart(
        "debias", "What removing heads buys and costs", told, page_spec(path + dots + names, told, 320)
    )


def _points(tried: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """Strategies of which both are known, on all contexts; what the sweep has is not shown twice."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for key in TRIED:
        for row in tried.get(key, []):
            if "contexts" not in row and row.get("value") is not None:
                found.setdefault((key, row["strategy"]), {})[row["measure"]] = row
    return [
        {
            "way": TRIED[key][0],
            "strategy": name,
            "order": order,
            "line": key in ("sweep", "learned"),
            "label": name.removeprefix("top-").removeprefix("learned, at most "),
            "seat": own["seat"].get("mean_abs", abs(own["seat"]["value"])),
            "ratio": own["fluency change"]["value"],
        }
        for order, ((key, name), own) in enumerate(found.items())
        if {"seat", "fluency change"} <= set(own)
        and (key == "sweep" or not name.startswith(("top-", "base")))
    ]
