"""The picture of an audit: how large the bias is in each kind of question, beside what null models show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from levelhead.pages.charts.base import LINES, Chart, Point, chart_of, page_spec

_ROW = 56  # pixels of a kind
_LEAST = -0.35  # what lies farther on the other side of 0 is drawn as far as this
_MIDDLE = 0.6  # where words turn to the other side, so that none leaves the picture
_TITLE = "How large the bias is, by kind of question"
_UNTESTED = "not tested"


@dataclass(frozen=True)
class Spread:
    """A value and two ends, on the way from a null model, 0, to the most that can be shown, 1."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class DrawnKind:
    """A kind of question."""

    kind: str
    size: str  # of its bias, in a word
    measured: str  # the measure and its value, in words
    bias: Spread | None  # with its 95 % interval; None: it was not tested, so it has no place
    null: Spread | None  # of null models, two standard deviations to either side


@dataclass(frozen=True)
class SizeColors:
    """The words for sizes that have a place in the picture: those that are claimed, and the one for none."""

    claimed: tuple[str, ...]
    tested: str  # but not shown

    def scale(self) -> alt.Scale:
        """Red is what the page claims."""
        return alt.Scale(
            domain=[*self.claimed, self.tested], range=["$biased"] * len(self.claimed) + ["$muted"]
        )


def kinds_chart(kinds: Sequence[DrawnKind], colors: SizeColors, limits: tuple[float, float]) -> Chart:
    """Dots are values, lines intervals, bands what null models show; limits: where clear and strong begin."""
    lows = [each.low for kind in kinds for each in (kind.bias, kind.null) if each is not None]
    scale = alt.Scale(domain=[max(_LEAST, min([-0.05, *lows])), 1.0], nice=False, clamp=True)
    ticks = [0.0, *limits, 1.0]  # all of them, also where the page would draw fewer
    axis = alt.Axis(values=ticks, tickCount=len(ticks), format="~g", labelOverlap="greedy")
    title = ["0: as a null model, 1: the most there is;", "clear from {:g}, strong from {:g}".format(*limits)]
    x = alt.X("value:Q", title=title, scale=scale, axis=axis)
    said = "; ".join(f"{each.kind}: {each.size}, {each.measured}".replace("\n", " ") for each in kinds)
    alt_text = f"{_TITLE}. {said}."
    y = alt.Y("kind:N", title=None, sort=[each.kind for each in kinds], axis=LINES)
    whole = alt.layer(*_marks(kinds, x, y, colors))
    return Chart("kinds", _TITLE, alt_text, page_spec(whole, alt_text, _ROW * len(kinds)))


def _marks(kinds: Sequence[DrawnKind], x: alt.X, y: alt.Y, colors: SizeColors) -> list[Any]:
    """Bands come first, so that they lie below everything else. Vega warns of a layer without a point."""
    placed = [each for each in kinds if each.bias is not None]
    banded = [each for each in placed if each.null is not None]
    line = alt.Color("size:N", legend=None, scale=colors.scale())
    inside = alt.Fill("size:N", legend=None, scale=colors.scale())
    drawn: list[Any] = []
    if banded:
        bar = _chart(banded).mark_bar(size=22, color="$faint", opacity=0.5)
        drawn.append(bar.encode(x="null_low:Q", x2="null_high:Q", y=y))
    if placed:
        rules = _chart(placed).mark_rule(strokeWidth=3, strokeCap="round")
        dots = _chart(placed).mark_point(size=120, strokeWidth=2, opacity=1)
        drawn += [
            rules.encode(x="low:Q", x2="high:Q", y=y, color=line),
            dots.encode(x=x, y=y, color=line, fill=inside, tooltip=["kind:N", "size:N", "measured:N"]),
        ]
    return [*drawn, *_words(kinds, x, y)]


def _words(kinds: Sequence[DrawnKind], x: alt.X, y: alt.Y) -> list[Any]:
    """The size of each bias above its dot, on the side where there is room; what was not tested says so in
    the middle of its row, where no dot stands."""
    drawn = []
    for far, align, dx in ((False, "left", -6), (True, "right", 6)):
        own = [each for each in kinds if each.bias is not None and (each.bias.value >= _MIDDLE) == far]
        if own:
            text = _chart(own).mark_text(
                align=align, dx=dx, dy=-16, fontSize=12, fontWeight=600, color="$ink"
            )
            drawn.append(text.encode(x=x, y=y, text="size:N"))
    if untested := [each for each in kinds if each.bias is None]:
        text = _chart(untested).mark_text(fontSize=12, fontStyle="italic", color="$muted")
        drawn.append(text.encode(y=y, text=alt.value(_UNTESTED), tooltip=["kind:N", "measured:N"]))
    return drawn


def _chart(kinds: Sequence[DrawnKind]) -> Any:
    return chart_of([_datum(each) for each in kinds])


def _datum(each: DrawnKind) -> Point:
    null = {} if each.null is None else {"null_low": each.null.low, "null_high": each.null.high}
    bias = {} if each.bias is None else asdict(each.bias)
    return {"kind": each.kind, "size": each.size, "measured": each.measured, **bias, **null}
