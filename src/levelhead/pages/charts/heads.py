"""Charts of the heads study: Fig. 1 and 4 of 'Bias A-head?', removal against score, the cost of debiasing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import altair as alt

from levelhead.pages.charts.base import LINES, Chart, Point, absolute_ends, chart_of, page_spec
from levelhead.results.records.common import BASE
from levelhead.results.records.debias import LearnedMeasured, RandomMeasured, StrategyMeasured
from levelhead.results.records.heads import CounterTest, HeadScore, Removal
from levelhead.results.runs import HeadsRun

_VERSIONS = ["original", "counter-stereotype"]
_Ends = tuple[float | None, float | None]  # of an interval
Gated = StrategyMeasured | RandomMeasured | LearnedMeasured  # one measure of one way of gating heads


def score_scale(scores: Iterable[float], signed: bool) -> alt.Scale:
    """Colors of bias scores: red adds to the bias; signed, blue works against it."""
    most = max(map(abs, scores)) or 1.0
    domain, colors = ([-most, 0.0, most], ["$regular", "$cell", "$biased"])
    if not signed:
        domain, colors = domain[1:], colors[1:]
    return alt.Scale(domain=domain, range=colors, interpolate="lab")  # no hues between the colors


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
    color = alt.condition("datum.score > 0", alt.value("$biased"), alt.value("$regular"))
    ticks = (
        chart_of(points)
        .mark_tick(thickness=2, height=16, yOffset=-8)
        .encode(x=x, y=alt.value(220), color=color, tooltip=["head:N", alt.Tooltip("score:Q", format=".4f")])
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
    means = {test.group: _means(test) for test in tests}
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
        f"{group} heads {original:.3f} in originals, {turned:.3f} in counter-stereotypes"
        for group, (original, turned) in means.items()
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


def _means(test: CounterTest) -> tuple[float | None, float | None]:
    details = test.measurement.details
    return details["mean_original"], details["mean_counter"]


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


def tradeoff(run: HeadsRun) -> Chart | None:
    """What every way of gating heads bought and cost: |SEAT| against perplexity.

    None where nothing has both, as in models that predict no tokens.
    """
    points = _tradeoff_points(run)
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
    color = alt.Color("way:N", sort=labels, title=None, scale=colors)
    path = (
        base.transform_filter("datum.joined")
        .mark_line(strokeWidth=1.5, opacity=0.7)
        .encode(x=x, y=y, color=color, order="order:Q")
    )
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        y=y,
        color=color,
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
        .encode(x=x, y=alt.Y("low:Q", title="|SEAT|"), y2="high:Q", color=color)
    )
    names = base.mark_text(align="left", dx=7, dy=-6, fontSize=10, color="$soft").encode(
        x=x, y=y, text="label:N"
    )
    spec = page_spec(spans + path + dots + names, alt_text, 320)
    return Chart("debias", "What removing heads buys and costs", alt_text, spec)


def _tradeoff_points(run: HeadsRun) -> list[Point]:
    """Strategies of which both are known, on all contexts; what the sweep of top k has is not shown twice."""
    tried: dict[_Way, Iterable[Gated]] = {
        _TOP: run.top_sweep,
        _LEARNED: [each for each in run.learned if each.learned and not _in_sweep(each)],
        _OTHERS: [each for each in run.strategies if not _in_sweep(each)],
        _RANDOM: run.random_strategies,
    }
    places = [(way, *place) for way, measured in tried.items() for place in _places(measured)]
    return [
        {
            "way": way.label,
            "strategy": strategy,
            "order": order,
            "joined": way.joined,
            "label": strategy.removeprefix("top-").removeprefix("learned, at most "),
            "seat": abs_seat,
            "low": ends[0],
            "high": ends[1],
            "ratio": ratio,
        }
        for order, (way, strategy, abs_seat, ends, ratio) in enumerate(places)
    ]


def _in_sweep(each: Gated) -> bool:
    """The sweep of top k has the unmodified model as its top-0."""
    return each.strategy.startswith(("top-", BASE))


def _places(measured: Iterable[Gated]) -> list[tuple[str, float, _Ends, float]]:
    """(strategy, |SEAT|, its interval, perplexity ratio) of every strategy that has both."""
    seats: dict[str, tuple[float, _Ends]] = {}
    ratios: dict[str, float] = {}
    for each in measured:
        value = each.measurement.value
        if value is not None and each.measurement.name == "seat":
            if isinstance(each, RandomMeasured) and each.mean_abs is not None:
                seats[each.strategy] = each.mean_abs, (None, None)
            else:
                seats[each.strategy] = abs(value), absolute_ends(each.measurement.interval) or (None, None)
        elif value is not None and each.measurement.name == "fluency change":
            ratios[each.strategy] = value
    return [(name, *seat, ratios[name]) for name, seat in seats.items() if name in ratios]
