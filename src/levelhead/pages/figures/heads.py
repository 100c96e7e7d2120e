"""Figures of a heads run: Fig. 1 to 4 of 'Bias A-head?', from the run folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import altair as alt

from levelhead.errors import BadRun
from levelhead.pages.charts import heads as charts
from levelhead.pages.charts.base import Chart, Point, chart_of, color, figure
from levelhead.pages.figures.files import write_svgs
from levelhead.results.records.heads import AttentionExample, CounterTest, HeadScore
from levelhead.results.runs import HeadsRun, open_heads

_CELL = 22  # pixels of a heat map's cell
_LETTER, _WORD_GAP, _PANEL = 7.2, 12.0, 145  # pixels: a letter's width, between words, a panel's height
_CHOICE = "The sentence whose attention changes most in the most biased head; regular head drawn at random"


def write_figures(folder: str | Path) -> list[Path]:
    """All figures that the run has results for, as SVG under figures/; each appears whole or not at all."""
    run = open_heads(folder)
    if not run.scores:
        raise BadRun(f"{folder} has no head scores yet. Run `levelhead heads` on it first.")
    measured = _measured(run)
    drawings = {
        "heatmap": figure(heat_map(run), f"{measured}; scores below 0 are shown as 0"),
        "heatmap-signed": figure(
            heat_map(run, signed=True), f"{measured}; red adds to bias, blue counteracts it"
        ),
        **{name: figure(chart, subtitle) for name, (chart, subtitle) in _page_charts(run).items()},
    }
    if run.example:
        drawings["example"] = arcs(run.example)
    return write_svgs(run.folder, drawings)


def _page_charts(run: HeadsRun) -> dict[str, tuple[Chart, str]]:
    """The charts that the report's page shows too, each with its subtitle."""
    about = f"{run.model}, {_test(run)}"
    drawn = {"distribution": (charts.distribution(run.scores), f"{about}: {_measured(run)}")}
    if run.agreement is not None:
        rho = "not measured" if run.agreement.value is None else f"{run.agreement.value:.2f}"
        heads = f"{len(run.scores)} heads; on the dashed line the two are equal"
        subtitle = f"{about}: Spearman's rho {rho} over {heads}"
        drawn["ablation"] = (charts.ablation(run.scores, run.removals), subtitle)
    if tests := [test for test in run.counter if test.measurement.value is not None]:
        drawn["counter"] = (charts.counter(tests), "; ".join(map(_t_test, tests)))
    if trade := charts.tradeoff(run):
        drawn["debias"] = (trade, f"{about}: |SEAT| against perplexity; left and down is better")
    return drawn


def heat_map(run: HeadsRun, signed: bool = False) -> Chart:
    """Fig. 2: the score of every head; negatives clipped to 0 as in the paper, or signed."""
    shown = {each.head: each.score if signed else max(0.0, each.score) for each in run.scores}
    layers, heads = (1 + max(place) for place in zip(*shown, strict=True))
    cells = (
        chart_of([_heat_point(each, shown[each.head]) for each in run.scores])
        .mark_rect(stroke="$card", strokeWidth=1)
        .encode(
            x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="layer", sort="descending"),
            color=alt.Color("score:Q", title="b", scale=charts.score_scale(shown.values(), signed)),
            tooltip=["layer:O", "head:O", "score:Q", "held:Q", "p:Q"],
        )
        .properties(width=_CELL * heads, height=_CELL * layers)
    )
    title = f"Where bias ({_test(run)}) sits in {run.model}"
    return Chart("heatmap", title, f"Bias scores of {len(shown)} heads by layer.", cells.to_dict())


def _heat_point(score: HeadScore, shown: float) -> Point:
    """Layer and head count from 1, as people count them."""
    place = {"layer": score.head.layer + 1, "head": score.head.head + 1}
    return {**place, "score": shown, "held": score.held, "p": score.p}


def _t_test(test: CounterTest) -> str:
    details = test.measurement.details
    t = details["t"]
    tested = "no t-test" if t is None else f"t = {t:.2f}, p = {details['p_value']:.3g}"
    return f"{test.group}: {tested}, N = {test.measurement.n}"


def _test(run: HeadsRun) -> str:
    """The word list's name."""
    return run.settings.bias if run.words is None else run.words.test


def _measured(run: HeadsRun) -> str:
    value = None if run.seat is None else run.seat.measurement.value
    seat = "SEAT not measured" if value is None else f"SEAT {value:.2f}"
    return seat if run.words is None else f"{seat}, {run.words.words} words in {run.words.contexts} contexts"


# ---- arcs


def arcs(example: Sequence[AttentionExample]) -> str:
    """Fig. 3 as SVG: from the target word, one arc to every word, as thick as its normalized attention."""
    width = max(560.0, *(_places(each.tokens)[1] + 40 for each in example))
    height = _PANEL * len(example) + 60
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" role="img">'
        f'<title>Attention of one sentence</title><rect width="100%" height="100%" fill="white"/>'
        f'<text x="20" y="24" font-size="15" font-weight="bold" fill="{color("ink")}">'
        f"Where the target word looks</text>"
        f'<text x="20" y="42" font-size="11" fill="{color("muted")}">{escape(_CHOICE)}</text>'
    )
    panels = [_panel(each, 55 + _PANEL * i) for i, each in enumerate(example)]
    return "\n".join([opening, *panels, "</svg>\n"])


def _places(tokens: Sequence[str]) -> tuple[list[float], float]:
    """The middle of each word, and where the line ends."""
    places, x = [], 20.0
    for token in tokens:
        width = _LETTER * len(token)
        places.append(x + width / 2)
        x += width + (_WORD_GAP if token else 0)
    return places, x


def _panel(each: AttentionExample, top: int) -> str:
    """One head on one version of the sentence."""
    x, _ = _places(each.tokens)
    line = top + _PANEL - 30
    stroke = color("biased" if each.group == "biased" else "regular")
    start = sum(x[i] for i in each.target) / len(each.target)
    value = "unscored" if each.attention is None else f"{each.attention:.4f}"
    caption = f"{each.group} head {each.head}, {each.version}: attention to the attribute word {value}"
    parts = [f'<text x="20" y="{top + 16}" font-size="12" fill="{stroke}">{escape(caption)}</text>']
    for i, weight in enumerate(each.weights):
        if weight and i not in each.target:
            shade = 1.0 if i in each.attribute else 0.35
            parts.append(
                f'<path d="{_arc(start, x[i], line - 14)}" fill="none" stroke="{stroke}" '
                f'stroke-width="{0.3 + 5 * weight:.2f}" stroke-opacity="{shade}"/>'
            )
    for i, token in enumerate(each.tokens):
        strong = ' font-weight="bold"' if i in (*each.target, *each.attribute) else ""
        parts.append(
            f'<text x="{x[i]:.1f}" y="{line}" font-size="12" text-anchor="middle" fill="{color("ink")}"'
            f"{strong}>{escape(token)}</text>"
        )
    return "\n".join(parts)


def _arc(start: float, end: float, base: int) -> str:
    """The path of an arc over a line of words; the farther it goes, the higher it is."""
    peak = base - min(70.0, abs(end - start) / 2)
    return f"M{start:.1f},{base} C{start:.1f},{peak:.1f} {end:.1f},{peak:.1f} {end:.1f},{base}"
