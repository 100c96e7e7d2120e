"""Charts of the heads study, for pages and SVG: Fig. 1 to 4 of 'Bias A-head?', what removing costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import altair as alt

from levelhead.edits.sites import Head
from levelhead.errors import BadRun
from levelhead.pages.charts.base import (
    LINES,
    Chart,
    Point,
    absolute_ends,
    chart_of,
    color,
    figure,
    page_spec,
    write_svgs,
)
from levelhead.runs.common import BASE
from levelhead.studies.heads import Heads, open_heads
from levelhead.studies.heads.records import (
    AttentionExample,
    CounterTest,
    HeadScore,
    LearnedMeasured,
    RandomMeasured,
    Removal,
    StrategyMeasured,
)

_VERSIONS = ["original", "counter-stereotype"]
_CELL = 22  # pixels of a heat map's cell
_LETTER, _WORD_GAP, _PANEL = 7.2, 12.0, 145  # pixels: a letter's width, between words, a panel's height
_CHOICE = "The sentence whose attention changes most in the most biased head; regular head drawn at random"
_Ends = tuple[float | None, float | None]  # of an interval
_Gated = StrategyMeasured | RandomMeasured | LearnedMeasured  # one measure of one way of gating heads


def distribution(scores: Sequence[HeadScore]) -> Chart:
    """How the heads' bias scores are distributed, every head as a tick."""
    points: list[Point] = [{"score": each.score, "head": str(each.head)} for each in scores]
    biased = sum(each.biased for each in scores)
    alt_text = f"Distribution of the bias scores of {len(scores)} heads; {biased} are above 0."
    x = alt.X("score:Q", title="bias score b")
    curve = (
        chart_of(points)
        .transform_density("score", as_=["score", "density"], steps=200)
        .mark_area(color="$faint", opacity=0.6)
        .encode(x=x, y=alt.Y("density:Q", title="density"))
    )
    side = alt.condition("datum.score > 0", alt.value("$biased"), alt.value("$regular"))
    ticks = (
        chart_of(points)
        .mark_tick(thickness=2, height=16, yOffset=-8)
        .encode(x=x, y=alt.value(220), color=side, tooltip=["head:N", alt.Tooltip("score:Q", format=".4f")])
    )
    zero = chart_of([{"x": 0}]).mark_rule(color="$muted", strokeDash=[4, 4]).encode(x="x:Q")
    title = f"{biased} of {len(scores)} heads have a score above 0"
    if any(each.p is not None for each in scores):
        title += f"; {sum(each.clear for each in scores) or 'none'} clear"
    return Chart("distribution", title, alt_text, page_spec(curve + zero + ticks, alt_text, 220))


def ablation(scores: Sequence[HeadScore], removals: Iterable[Removal]) -> Chart:
    """Score against what |SEAT| does when the head is removed."""
    change = {removal.head: removal.change for removal in removals}
    points: list[Point] = [
        {"head": str(each.head), "b": each.score, "drop": -change[each.head]}
        for each in scores
        if each.head in change
    ]
    alt_text = f"Bias score of {len(points)} heads against the drop of |SEAT| when each is removed."
    dots = (
        chart_of(points)
        .mark_circle(size=60, color="$accent", opacity=0.75)
        .encode(
            x=alt.X("b:Q", title="bias score b (gradient)"),
            y=alt.Y("drop:Q", title="drop of |SEAT| when removed"),
            tooltip=["head:N", alt.Tooltip("b:Q", format=".4f"), alt.Tooltip("drop:Q", format=".4f")],
        )
    )
    removed = [each.score for each in scores if each.head in change]
    ends = [{"b": edge, "drop": edge} for edge in (min(removed), max(removed))]
    line = chart_of(ends).mark_line(color="$muted", strokeDash=[4, 4]).encode(x="b:Q", y="drop:Q")
    spec = page_spec(line + dots, alt_text, 280)
    return Chart("removal", "Does the score tell what removal does?", alt_text, spec)


def counter(tests: Sequence[CounterTest]) -> Chart:
    """Attention to the attribute word in originals and in counter-stereotypes, by group of heads.

    tests: those that have a value.
    """
    of = {test.group: test.measurement.details for test in tests}
    means = {group: (own["mean_original"], own["mean_counter"]) for group, own in of.items()}
    points = [
        {
            "group": f"{test.group} heads\n({test.measurement.details['heads']:.0f})",
            "version": version,
            "attention": attention,
            "sentences": test.measurement.n,
        }
        for test in tests
        for version, attention in zip(_VERSIONS, means[test.group], strict=True)
    ]
    alt_text = "Mean attention from the target word to the attribute word: " + "; ".join(
        f"{group} heads {original:.3f} in originals, {reverse:.3f} in counter-stereotypes"
        for group, (original, reverse) in means.items()
    )
    colors = alt.Scale(range=["$accent", "$faint"])
    bars = (
        chart_of(points)
        .mark_bar()
        .encode(
            x=alt.X("attention:Q", title="mean normalized attention"),
            y=alt.Y("group:N", title=None, axis=LINES),
            yOffset=alt.YOffset("version:N", sort=_VERSIONS),
            color=alt.Color("version:N", sort=_VERSIONS, title=None, scale=colors),
            tooltip=["group:N", "version:N", alt.Tooltip("attention:Q", format=".4f"), "sentences:Q"],
        )
    )
    spec = page_spec(bars, alt_text, 52 * len(tests))
    return Chart("counter-stereotypes", "Where target words look", alt_text, spec)


# ---- what gating heads buys and costs


@dataclass(frozen=True)
class _Way:
    """How heads were chosen, and how that is drawn."""

    label: str
    color: str
    joined: bool = False  # by a line


_TOP = _Way("the top k removed", "$biased", joined=True)
_LEARNED = _Way("learned gates", "$good", joined=True)
_OTHERS = _Way("other strategies", "$regular")
_RANDOM = _Way("random heads (mean)", "$muted")


def tradeoff(run: Heads) -> Chart | None:
    """What every way of gating heads bought and cost: |SEAT| against perplexity.

    None where nothing has both, as in models that predict no tokens.
    """
    # strategies of which both are known, on all contexts; what the sweep of top k has is not shown twice, and
    # that sweep has the unmodified model as its top-0
    in_sweep = ("top-", BASE)
    tried: dict[_Way, Iterable[_Gated]] = {
        _TOP: run.top_sweep,
        _LEARNED: [each for each in run.learned if each.learned and not each.strategy.startswith(in_sweep)],
        _OTHERS: [each for each in run.strategies if not each.strategy.startswith(in_sweep)],
        _RANDOM: run.random_strategies,
    }
    points: list[Point] = []
    for way, measured in tried.items():
        seats: dict[str, tuple[float, _Ends]] = {}
        ratios: dict[str, float] = {}
        for each in measured:
            name, value = each.measurement.name, each.measurement.value
            if value is not None and name == "fluency change":
                ratios[each.strategy] = value
            elif value is not None and name == "seat":
                ends = absolute_ends(each.measurement.interval) or (None, None)
                seats[each.strategy] = abs(value), ends
                if isinstance(each, RandomMeasured) and each.mean_abs is not None:
                    seats[each.strategy] = each.mean_abs, (None, None)
        for strategy, (abs_seat, (low, high)) in seats.items():
            if strategy in ratios:
                point: dict[str, str | float | None] = {"way": way.label, "strategy": strategy}
                point |= {"order": len(points), "joined": way.joined}
                point["label"] = strategy.removeprefix("top-").removeprefix("learned, at most ")
                points.append(
                    {**point, "seat": abs_seat, "low": low, "high": high, "ratio": ratios[strategy]}
                )
    if not points:
        return None
    alt_text = f"{len(points)} ways of gating heads: |SEAT| against perplexity. Left and down is better."
    base = chart_of(points)
    free = alt.Scale(type="log", nice=False, padding=40)
    x = alt.X("ratio:Q", title="perplexity, ratio to the unmodified model", scale=free)
    y = alt.Y("seat:Q", title="|SEAT|", scale=alt.Scale(zero=False, padding=15))
    used = {point["way"] for point in points}
    ways = [way for way in (_TOP, _LEARNED, _OTHERS, _RANDOM) if way.label in used]
    labels = [way.label for way in ways]
    colors = alt.Scale(domain=labels, range=[way.color for way in ways])
    shade = alt.Color("way:N", sort=labels, title=None, scale=colors)
    path = (
        base.transform_filter("datum.joined")
        .mark_line(strokeWidth=1.5, opacity=0.7)
        .encode(x=x, y=y, color=shade, order="order:Q")
    )
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        y=y,
        color=shade,
        shape=alt.Shape("way:N", sort=labels, title=None, scale=alt.Scale(domain=labels)),
        tooltip=[
            "strategy:N",
            alt.Tooltip("seat:Q", format=".3f", title="|SEAT|"),
            alt.Tooltip("ratio:Q", format=".3f", title="perplexity ratio"),
        ],
    )
    spans = (
        base.transform_filter("isValid(datum.low)")
        .mark_rule(opacity=0.35)
        .encode(x=x, y=alt.Y("low:Q", title="|SEAT|"), y2="high:Q", color=shade)
    )
    names = base.mark_text(align="left", dx=7, dy=-6, fontSize=10, color="$soft")
    layers = spans + path + dots + names.encode(x=x, y=y, text="label:N")
    return Chart("debias", "Effects of ablated heads", alt_text, page_spec(layers, alt_text, 320))


# ---- heat maps


def score_scale(scores: Iterable[float], signed: bool) -> alt.Scale:
    """Colors of bias scores: red adds to the bias; signed, blue works against it."""
    most = max(map(abs, scores)) or 1.0
    domain, colors = ([-most, 0.0, most], ["$regular", "$cell", "$biased"])
    if not signed:
        domain, colors = domain[1:], colors[1:]
    return alt.Scale(domain=domain, range=colors, interpolate="lab")  # no hues between the colors


def head_place(head: Head) -> dict[str, float | None]:
    """Where a heat map shows a head. Layer and head count from 1, as people count them."""
    return {"layer": head.layer + 1, "head": head.head + 1}


def head_layers(
    points: Sequence[Mapping[str, float | None]],
    framed: Sequence[Mapping[str, float | None]],
    scale: alt.Scale,
    shows: Sequence[str] = ("score:Q",),
) -> list[Any]:
    """A heat map's cells, colored by the first of what they show, and frames around some of them."""
    x = alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0))
    y = alt.Y("layer:O", title="layer", sort="descending")
    fill, tooltip = alt.Color(shows[0], title="b", scale=scale), ["layer:O", "head:O", *shows]
    cells = chart_of(points).mark_rect(stroke="$card", strokeWidth=1)
    layers = [cells.encode(x=x, y=y, color=fill, tooltip=tooltip)]
    if framed:
        frames = chart_of(framed).mark_rect(fill=None, stroke="$ink", strokeWidth=2)
        layers.append(frames.encode(x=x, y=y))
    return layers


def heat_map(run: Heads, signed: bool = False) -> Chart:
    """Fig. 2: the score of every head; negatives clipped to 0 as in the paper, or signed."""
    shown = [each.score if signed else max(0.0, each.score) for each in run.scores]
    layers, heads = (1 + max(place) for place in zip(*(each.head for each in run.scores), strict=True))
    points = [
        {**head_place(each.head), "score": score, "held": each.held, "p": each.p}
        for each, score in zip(run.scores, shown, strict=True)
    ]
    (cells,) = head_layers(points, (), score_scale(shown, signed), ("score:Q", "held:Q", "p:Q"))
    spec = cells.properties(width=_CELL * heads, height=_CELL * layers).to_dict()
    title = f"Where bias ({_test(run)}) sits in {run.model}"
    return Chart("heatmap", title, f"Bias scores of {len(shown)} heads by layer.", spec)


# ---- SVG files


def write_figures(folder: str | Path) -> list[Path]:
    """All figures that the run has results for, as SVG under figures/; each appears whole or not at all."""
    run = open_heads(folder)
    if not run.scores:
        raise BadRun(f"{folder} has no head scores yet. Run `levelhead heads` on it first.")
    value = None if run.seat is None else run.seat.measurement.value
    measured = "SEAT not measured" if value is None else f"SEAT {value:.2f}"
    if run.words is not None:
        measured += f", {run.words.words} words in {run.words.contexts} contexts"
    about, signs = f"{run.model}, {_test(run)}", "red adds to bias, blue counteracts it"
    drawings = {
        "heatmap": figure(heat_map(run), f"{measured}; scores below 0 are shown as 0"),
        "heatmap-signed": figure(heat_map(run, signed=True), f"{measured}; {signs}"),
        "distribution": figure(distribution(run.scores), f"{about}: {measured}"),
    }
    if run.agreement is not None:
        rho = "not measured" if run.agreement.value is None else f"{run.agreement.value:.2f}"
        heads = f"{len(run.scores)} heads; on the dashed line the two are equal"
        subtitle = f"{about}: Spearman's rho {rho} over {heads}"
        drawings["ablation"] = figure(ablation(run.scores, run.removals), subtitle)
    if tests := [test for test in run.counter if test.measurement.value is not None]:
        tested = []
        for test in tests:
            t, p = test.measurement.details["t"], test.measurement.details["p_value"]
            said = "no t-test" if t is None else f"t = {t:.2f}, p = {p:.3g}"
            tested.append(f"{test.group}: {said}, N = {test.measurement.n}")
        drawings["counter"] = figure(counter(tests), "; ".join(tested))
    if trade := tradeoff(run):
        drawings["debias"] = figure(trade, f"{about}: |SEAT| against perplexity; left and down is better")
    if run.example:
        drawings["example"] = _arcs(run.example)
    return write_svgs(run.folder, drawings)


def _test(run: Heads) -> str:
    return run.settings.bias if run.words is None else run.words.test


def _arcs(example: Sequence[AttentionExample]) -> str:
    """Fig. 3 as SVG: from the target word, one arc to every word, as thick as its normalized attention."""
    width = max(560.0, *(_word_places(each.tokens)[1] + 40 for each in example))
    height = _PANEL * len(example) + 60
    start_tag = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" role="img">'
        f'<title>Attention of one sentence</title><rect width="100%" height="100%" fill="white"/>'
        f'<text x="20" y="24" font-size="15" font-weight="bold" fill="{color("ink")}">'
        f"Where the target word looks</text>"
        f'<text x="20" y="42" font-size="11" fill="{color("muted")}">{escape(_CHOICE)}</text>'
    )
    parts = [start_tag]
    for number, each in enumerate(example):  # one head on one version of the sentence
        x, _ = _word_places(each.tokens)
        top = 55 + _PANEL * number
        line = top + _PANEL - 30
        base = line - 14
        stroke = color("biased" if each.group == "biased" else "regular")
        start = sum(x[i] for i in each.target) / len(each.target)
        value = "unscored" if each.attention is None else f"{each.attention:.4f}"
        caption = f"{each.group} head {each.head}, {each.version}: attention to the attribute word {value}"
        parts.append(f'<text x="20" y="{top + 16}" font-size="12" fill="{stroke}">{escape(caption)}</text>')
        for i, weight in enumerate(each.weights):
            if weight and i not in each.target:
                shade = 1.0 if i in each.attribute else 0.35
                peak = base - min(70.0, abs(x[i] - start) / 2)  # the farther an arc goes, the higher it is
                path = f"M{start:.1f},{base} C{start:.1f},{peak:.1f} {x[i]:.1f},{peak:.1f} {x[i]:.1f},{base}"
                parts.append(
                    f'<path d="{path}" fill="none" stroke="{stroke}" '
                    f'stroke-width="{0.3 + 5 * weight:.2f}" stroke-opacity="{shade}"/>'
                )
        for i, token in enumerate(each.tokens):
            strong = ' font-weight="bold"' if i in (*each.target, *each.attribute) else ""
            parts.append(
                f'<text x="{x[i]:.1f}" y="{line}" font-size="12" text-anchor="middle" fill="{color("ink")}"'
                f"{strong}>{escape(token)}</text>"
            )
    return "\n".join([*parts, "</svg>\n"])


def _word_places(tokens: Sequence[str]) -> tuple[list[float], float]:
    """The middle of each word, and where the line ends."""
    places, x = [], 20.0
    for token in tokens:
        width = _LETTER * len(token)
        places.append(x + width / 2)
        x += width + (_WORD_GAP if token else 0)
    return places, x
