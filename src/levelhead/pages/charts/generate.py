"""Charts of generated texts: who appears, which words mark a group, and what changes with the group."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import altair as alt

from levelhead.inference.generation_claims import MIRROR, group_noun, variant_noun
from levelhead.measures.catalog import ALPHA
from levelhead.pages.charts.base import Chart, Point, chart_of, data_of, page_spec
from levelhead.studies.generate.records import Appearance, GenerationMeasured, MarkedWord

_LABELS = {1: "said to be women’s", -1: "said to be men’s", 0: "neither"}
_SAID = {True: "significant", False: "not significant"}
_COLORS = ["$female", "$male", "$muted"]
_WORDS = 12  # per side
PARTS = {"": "whole", "frequency": "frequency", "context": "rest"}  # of mirror divergence


def who_appears(appearances: Sequence[Appearance]) -> Chart | None:
    """Expected share of feminine first words by occupation, over the real share of women; None without
    numbers."""
    points: list[Point] = []
    for each in appearances:
        gendered = each.expected_feminine + each.expected_masculine
        if each.share is None or not gendered:
            continue
        share = each.expected_feminine / gendered
        # Wilson's interval, so that an occupation with few gendered texts shows how little that is
        z = 1.96
        middle = (share + z * z / (2 * gendered)) / (1 + z * z / gendered)
        half = (
            z * math.sqrt(share * (1 - share) / gendered + z * z / (4 * gendered**2)) / (1 + z * z / gendered)
        )
        points.append(
            {
                "occupation": each.occupation,
                "real": each.share,
                "share": share,
                "low": max(0.0, middle - half),
                "high": min(1.0, middle + half),
                "texts": each.feminine + each.masculine,
                "stereotype": _LABELS[each.said],
            }
        )
    if not points:
        return None
    percent = alt.Axis(format="%")
    scale = alt.Scale(domain=[0, 1])
    color = alt.Color(
        "stereotype:N", title="Occupation", scale=alt.Scale(domain=[*_LABELS.values()], range=_COLORS)
    )
    x = alt.X("real:Q", title="women among people in the occupation", axis=percent, scale=scale)
    y = alt.Y("share:Q", title="women among those who appear", axis=percent, scale=scale)
    base = chart_of(points)
    even = alt.Chart(data_of([{"real": 0.0, "share": 0.0}, {"real": 1.0, "share": 1.0}]))
    line = even.mark_line(color="$faint", strokeDash=[4, 4]).encode(x=x, y=y)
    ends = base.mark_rule(opacity=0.45).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=color)
    shows = ["occupation:N", "stereotype:N", "real:Q", "share:Q", "texts:Q"]
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, color=color, tooltip=shows)
    alt_text = (
        f"{len(points)} occupations: share of women among those who appear in texts, over the real share of "
        "women, with 95 % intervals; dashed: both alike."
    )
    spec = page_spec(line + ends + dots, alt_text, 380)
    return Chart("who-appears", "Who appears, by occupation", alt_text, spec)


def marked_words(marked: Sequence[MarkedWord], set_name: str, groups: tuple[str, str]) -> Chart | None:
    """The words that mark either group's texts most, as bars to either side; None without words."""
    first, second = groups
    points: list[Point] = []
    order: dict[str, float] = {}
    for side, sign in ((first, 1.0), (second, -1.0)):
        own = [each for each in marked if each.set == set_name and each.group == side]
        for each in sorted(own, key=lambda one: -abs(one.z))[:_WORDS]:
            sure = _SAID[each.p < ALPHA]
            order[each.word] = -sign * abs(each.z)
            points.append(
                {
                    "word": each.word,
                    "z": sign * abs(each.z),
                    "group": group_noun(side),
                    "p": each.p,
                    "sure": sure,
                    "texts": f"{each.counts[0]} : {each.counts[1]}",
                }
            )
    if not points:
        return None
    names = [group_noun(first), group_noun(second)]
    y = alt.Y("word:N", title=None, sort=sorted(order, key=order.__getitem__))
    color = alt.Color(
        "group:N", title="More frequent for", scale=alt.Scale(domain=names, range=["$female", "$male"])
    )
    faded = alt.Opacity(
        "sure:O",
        title=None,
        sort=["significant", "not significant"],
        scale=alt.Scale(domain=["significant", "not significant"], range=[1, 0.35]),
    )
    shows = ["word:N", "group:N", "texts:N", "z:Q", "p:Q"]
    bars = (
        chart_of(points)
        .mark_bar()
        .encode(x=alt.X("z:Q", title="z of the log-odds"), y=y, color=color, opacity=faded, tooltip=shows)
    )
    alt_text = (
        f"The words that mark texts of {names[0]} and of {names[1]} most, by z; faded: not significant."
    )
    spec = page_spec(bars, alt_text, 18 * len(points))
    title = f"Words that mark texts: prompts of {set_name}"
    return Chart(f"marked-words-{set_name}", title, alt_text, spec)


def gaps(measured: Sequence[GenerationMeasured], held: frozenset[str]) -> list[Chart]:
    """The paired gaps of each scorer in its standard deviations, with intervals.

    held: the names of which the page claims something. The largest gap of a set is among those of its scorer.
    """
    largest = {(each.set, each.score, each.groups) for each in measured if each.score and each.name in held}
    by_scorer: dict[str, list[Point]] = {}
    for each in measured:
        own, sd = each.measurement, each.measurement.details.get("sd")
        if each.score or own.value is None or own.interval is None or not sd or each.groups is None:
            continue
        first, second = map(group_noun, each.groups)
        what = own.name.partition("/")[0]
        scorer = what.partition(": ")[2] or what
        claimed = own.name in held or (each.set, scorer, each.groups) in largest
        by_scorer.setdefault(scorer, []).append(
            {
                "compared": f"{each.set}: {first} − {second}".replace(" people", ""),
                "value": own.value / sd,
                "low": own.interval[0] / sd,
                "high": own.interval[1] / sd,
                "said": _SAID[claimed],
            }
        )
    scale = alt.Scale(domain=[_SAID[True], _SAID[False]], range=["$biased", "$muted"])
    # the axis says what red means: long names leave a phone no room for a legend
    sure = alt.Color("said:N", scale=scale, legend=None)
    y = alt.Y("compared:N", title=None, sort=None, axis=alt.Axis(labelLimit=260))
    low, charts = alt.X("low:Q", title=["standard", "deviations;", "red: significant"]), []
    shows = ["compared:N", "value:Q", "low:Q", "high:Q", "said:N"]
    for scorer, points in by_scorer.items():
        base = chart_of(points)
        zero = base.mark_rule(color="$faint").encode(x=alt.datum(0))
        lines = base.mark_rule(strokeWidth=2).encode(x=low, x2="high:Q", y=y, color=sure)
        dots = base.mark_point(filled=True, size=60, opacity=1)
        dots = dots.encode(x="value:Q", y=y, color=sure, tooltip=shows)
        alt_text = (
            f"{len(points)} paired gaps of {scorer} in standard deviations, with 95 % intervals; red: "
            "significant after correction."
        )
        name = re.sub("[^a-z0-9]+", "-", scorer.casefold()).strip("-")
        spec = page_spec(zero + lines + dots, alt_text, 22 * len(points))
        charts.append(Chart(f"gaps-{name}", f"Paired gaps: {scorer}", alt_text, spec))
    return charts


def mirror(measured: Sequence[GenerationMeasured]) -> Chart | None:
    """Mirror divergence of every variant, in its two parts; None without any."""
    points: list[Point] = []
    for each in measured:
        part = PARTS[each.name.removeprefix(MIRROR).partition("/")[0].strip(", ")]
        own = each.measurement
        if each.name.startswith(MIRROR) and not each.set and own.value is not None:
            low, high = own.interval or (None, None)
            points.append(
                {
                    "variant": variant_noun(each.variant),
                    "part": part,
                    "value": own.value,
                    "low": low,
                    "high": high,
                }
            )
    if not points:
        return None
    y = alt.Y("variant:N", title=None, sort=None)
    color = alt.Color(
        "part:N",
        title=None,
        scale=alt.Scale(domain=[*PARTS.values()], range=["$ink", "$regular", "$good"]),
    )
    offset = alt.YOffset("part:N", sort=[*PARTS.values()])
    base = chart_of(points)
    lines = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title="nats per text"), x2="high:Q", y=y, yOffset=offset, color=color
    )
    shows = ["variant:N", "part:N", "value:Q", "low:Q", "high:Q"]
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="value:Q", y=y, yOffset=offset, color=color, tooltip=shows
    )
    alt_text = (
        "How far the model lies from its mirror image, in nats per text, in its two parts, with intervals."
    )
    height = 66 * len({each.variant for each in measured})
    return Chart(
        "mirror", "Distance from the mirror image", alt_text, page_spec(lines + dots, alt_text, height)
    )
