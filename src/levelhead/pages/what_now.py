"""The box at the top of an audit's page: is there a bias, how large, how sure, what to do, at what cost.

It claims nothing of its own. A size is said of a measure only where the page claims a bias (headline.py), and
only a certified mitigation is recommended; what it is known to lose stands in the same sentence.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import Any

import altair as alt

from levelhead.inference.claims import calibration, p_text
from levelhead.inference.contents import Contents, Reported, measurements
from levelhead.inference.headline import headline_claims
from levelhead.inference.mitigating import effects, gained_outside, kept, losses, lowered, verdict
from levelhead.inference.verdicts import (
    CLEAR,
    ORDER,
    RULE,
    SHOWN,
    STRONG,
    Size,
    along,
    certain_share,
    info_of,
    size_of,
    verdict_of,
)
from levelhead.measures.catalog import MeasureInfo, is_about
from levelhead.measures.measurement import ENOUGH, Measurement
from levelhead.pages.blocks import Answer, Code, Found, WhatNow
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts.base import LINES, Chart, Point, chart_of, page_spec
from levelhead.pages.names import names_of
from levelhead.pages.tables import Cell, Part, reported
from levelhead.studies.audit import Audit
from levelhead.studies.mitigate import Mitigate
from levelhead.studies.mitigate.records import CandidateTested


@dataclass(frozen=True)
class Kind:
    """A kind of question: its measures, and in which situation the model was watched."""

    measures: tuple[str, ...]
    where: str
    label: str  # the same, in a picture


_NEXT = "choosing the\nnext sentence"
KINDS = (
    Kind(("seat",), "in how close its words lie to each other", "how close\nits words lie"),
    Kind(("lpbs",), "when it fills in a blank", "filling in\na blank"),
    Kind(("preference", "ss_paired", "strength"), "when it chooses the next sentence", _NEXT),
    Kind(("log_odds",), "when it guesses who does a job", "guessing who\ndoes a job"),
    Kind(("who appears",), "when it writes about people in a job", "writing about\na job"),
    Kind(
        ("fairness",), "when it concludes from a job which group someone belongs to", "concluding from\na job"
    ),
)
FIRST_LOOK = "few contexts, few null models, wide intervals; no mitigation was tried."
_UNTESTED = "That cannot be said: nothing was compared with null models, or with too few."
_LETTERS = 24  # of the label of a measure of your own
_Said = tuple[str, str]  # an answer in short, and what else belongs to it
Recommended = Mapping[str, tuple[Mitigate, CandidateTested]]  # by variant

# the picture
_SPREADS = 2  # standard deviations of null models to either side
_ROW = 56  # pixels of a kind
_LEAST = -0.35  # what lies farther on the other side of 0 is drawn as far as this
_MIDDLE = 0.6  # from where words stand on the left of a dot, so that none leaves the picture


def what_now(contents: Contents) -> WhatNow | None:
    """The box of a finished audit; other runs ask one study only and decide nothing.

    Nothing is decided either about a model that does not read plain English.
    """
    audit = contents.audit
    if audit is None or audit.headline is None or audit.doubts:
        return None
    kinds = sorted(_measured_kinds(contents), key=lambda each: (ORDER.index(each.size), -each.certain))
    biased = bool(_of_size(kinds, *SHOWN))
    chosen = audit.recommended if biased else {}  # nothing is recommended against a bias that is not shown
    measured, tried = str(Chapter.MEASURED), Mitigate.name if contents.arenas else str(Chapter.LIMITS)
    commands = []
    for run, each in chosen.values():  # what writes the model, by the recipe of the audit where it has one
        files = [str(path) for path, text in audit.recipe_texts.items() if text == each.recipe]
        command = ["levelhead", "mitigate", run.model, "--methods", each.method, "-o", "mitigated"]
        if files:
            command = ["levelhead", "debias", run.model, "--recipe", files[0], "-o", "debiased-model"]
        commands.append(Code(f"Write the model: {each.name}", shlex.join(command)))
        if run.serve_command and run.written is not None and run.written.candidate == each.name:
            commands.append(Code(f"Serve the model: {each.name}", run.serve_command))
    found = []
    for kind in kinds:
        where = kind.kind.where[0].upper() + kind.kind.where[1:]
        if kind.size == "untested":
            sentence = f"{where}: compared with no null model, or too few, so nothing is claimed."
        elif kind.size == "none shown":
            sentence = f"{where}, it shows no significant bias on this much data."
        else:
            sentence = f"{where}, it {verdict_of(contents, kind.shown)}."
        found.append(Found(kind.size, sentence, [_numbers(contents, each) for each in kind.reported]))
    return WhatNow(
        said=[
            Answer("Is there a bias?", _whether(audit, kinds), "", measured),
            Answer("How large is it?", _how_large(kinds), "", measured),
            Answer("How sure is that?", *_how_sure(audit, kinds), measured),
            Answer("What should I do?", *_what_to_do(contents, kinds, chosen), tried),
            Answer("What will it cost?", *_at_what_cost(contents, biased, chosen), tried),
        ],
        picture=_picture(contents, kinds),
        found=found,
        commands=commands,
        rule=RULE,
    )


# ---- kinds of questions


@dataclass(frozen=True)
class _MeasuredKind:
    """A kind of question of the audit, and what its clearest measure shows."""

    kind: Kind
    reported: Sequence[Reported]
    shown: Reported  # the one that speaks for the kind
    size: Size
    certain: float  # how much of it is certain, 0 to 1


def _measured_kinds(contents: Contents) -> Iterator[_MeasuredKind]:
    untouched = [each for each in measurements(contents) if each.measurement.value is not None]
    own = () if contents.audit is None else contents.audit.measures
    of_own = (
        Kind((info.name,), f"by “{info.title}”", shorten(info.title, _LETTERS))
        for info in own
        if info.side == "bias"
    )
    for kind in (*KINDS, *of_own):
        members = [each for each in untouched if any(is_about(name, each.name) for name in kind.measures)]
        if not members:
            continue
        sizes = {each.name: size_of(contents, each) for each in members}
        certain = {
            each.name: certain_share(info_of(contents, each.name), each.measurement) for each in members
        }
        shown = min(members, key=lambda each: (ORDER.index(sizes[each.name]), -certain[each.name]))
        yield _MeasuredKind(kind, members, shown, sizes[shown.name], certain[shown.name])


def _numbers(contents: Contents, each: Reported) -> Cell:
    info = info_of(contents, each.name)
    null, p = each.measurement.null, each.measurement.p_value
    chance = ""
    if null is not None:
        where = "null models" if null.of_models else "by chance"
        chance = f"; {where} {null.floor:z.2f} ± {null.spread:.2f}"
    tail = "" if p is None else f"{chance}; p {p_text(p)}"
    return Cell((Part(f"{info.title}: "), *reported(each, min(info.digits, 2)).parts, Part(tail)))


# ---- the picture


@dataclass(frozen=True)
class _Spread:
    """A value and two ends, on the way from a null model, 0, to the most that can be shown, 1."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class _DrawnKind:
    """A kind of question in the picture."""

    kind: str
    size: str  # of its bias, in a word
    measured: str  # the measure and its value, in words
    bias: _Spread | None  # with its 95 % interval; None: it was not tested, so it has no place
    null: _Spread | None  # of null models, two standard deviations to either side


def _picture(contents: Contents, kinds: Sequence[_MeasuredKind]) -> Chart | None:
    """Every kind whose measure has a scale, on one scale: from a null model to the most there is.

    Dots are values, lines intervals, bands what null models show.
    """
    drawn: list[_DrawnKind] = []
    for kind in kinds:
        info, measurement = info_of(contents, kind.shown.name), kind.shown.measurement
        null, value = measurement.null, measurement.value
        bias = _spread(info, measurement, (value, *(measurement.interval or (value, value))))
        if bias is None:
            continue
        numbers, floor = _numbers(contents, kind.shown).text, None
        if null is not None:
            floors = [null.floor + n * null.spread for n in (0, -_SPREADS, _SPREADS)]
            floor = _spread(info, measurement, floors)
        if kind.size == "untested":
            bias, floor = None, None
        drawn.append(_DrawnKind(kind.kind.label, kind.size, numbers, bias, floor))
    if not drawn:
        return None
    lows = [each.low for one in drawn for each in (one.bias, one.null) if each is not None]
    scale = alt.Scale(domain=[max(_LEAST, min([-0.05, *lows])), 1.0], nice=False, clamp=True)
    ticks = [0.0, CLEAR, STRONG, 1.0]  # all of them, also where the page would draw fewer
    axis = alt.Axis(values=ticks, tickCount=len(ticks), format="~g", labelOverlap="greedy")
    axis_title = [
        "0: as a null model, 1: the most there is;",
        f"clear from {CLEAR:g}, strong from {STRONG:g}",
    ]
    x = alt.X("value:Q", title=axis_title, scale=scale, axis=axis)
    y = alt.Y("kind:N", title=None, sort=[each.kind for each in drawn], axis=LINES)
    title = "How large the bias is, by kind of question"
    said = "; ".join(f"{each.kind}: {each.size}, {each.measured}".replace("\n", " ") for each in drawn)
    alt_text = f"{title}. {said}."
    spec = page_spec(alt.layer(*_marks(drawn, x, y)), alt_text, _ROW * len(drawn))
    return Chart("kinds", title, alt_text, spec)


def _spread(info: MeasureInfo, measurement: Measurement, values: Sequence[float | None]) -> _Spread | None:
    """A value and its ends on the way to the most that can be shown; None without a scale."""
    reached = [at for value in values if (at := along(info, measurement, value)) is not None]
    return _Spread(reached[0], min(reached[1:]), max(reached[1:])) if len(reached) == len(values) else None


def _marks(kinds: Sequence[_DrawnKind], x: alt.X, y: alt.Y) -> list[Any]:
    """Bands come first, so that they lie below everything else. Vega warns of a layer without a point."""

    def chart(kinds: Sequence[_DrawnKind]) -> Any:
        points: list[Point] = []
        for each in kinds:
            null = {} if each.null is None else {"null_low": each.null.low, "null_high": each.null.high}
            bias = {} if each.bias is None else asdict(each.bias)
            points.append({"kind": each.kind, "size": each.size, "measured": each.measured, **bias, **null})
        return chart_of(points)

    placed = [each for each in kinds if each.bias is not None]
    drawn: list[Any] = []
    if banded := [each for each in placed if each.null is not None]:
        bar = chart(banded).mark_bar(size=22, color="$faint", opacity=0.5)
        drawn.append(bar.encode(x="null_low:Q", x2="null_high:Q", y=y))
    if placed:
        claimed = alt.Scale(domain=[*SHOWN, "none shown"], range=["$biased"] * len(SHOWN) + ["$muted"])
        line = alt.Color("size:N", legend=None, scale=claimed)
        inside = alt.Fill("size:N", legend=None, scale=claimed)
        rules = chart(placed).mark_rule(strokeWidth=3, strokeCap="round")
        dots = chart(placed).mark_point(size=120, strokeWidth=2, opacity=1)
        drawn.append(rules.encode(x="low:Q", x2="high:Q", y=y, color=line))
        tooltip = ["kind:N", "size:N", "measured:N"]
        drawn.append(dots.encode(x=x, y=y, color=line, fill=inside, tooltip=tooltip))
    # the size of each bias above its dot, on the side where there is room
    for far, align, dx in ((False, "left", -6), (True, "right", 6)):
        if own := [each for each in kinds if each.bias is not None and (each.bias.value >= _MIDDLE) == far]:
            style = {"fontSize": 12, "fontWeight": 600, "color": "$ink"}
            text = chart(own).mark_text(align=align, dx=dx, dy=-16, **style)
            drawn.append(text.encode(x=x, y=y, text="size:N"))
    # what was not tested says so in the middle of its row, where no dot stands
    if untested := [each for each in kinds if each.bias is None]:
        text = chart(untested).mark_text(fontSize=12, fontStyle="italic", color="$muted")
        drawn.append(text.encode(y=y, text=alt.value("not tested"), tooltip=["kind:N", "measured:N"]))
    return drawn


# ---- answers: each in short, and what else belongs to it


def _whether(audit: Audit, kinds: Sequence[_MeasuredKind]) -> str:
    shown, tested = _of_size(kinds, *SHOWN), _tested(kinds)
    if shown:
        kinds_said = f"{len(shown)} of {len(tested)} kinds of question"
        return f"Yes: a {audit.bias} bias is significant in {kinds_said}."
    if not tested:
        return _UNTESTED
    return f"None that this audit can show, in {len(tested)} kinds of question. That is not proof of none."


def _how_large(kinds: Sequence[_MeasuredKind]) -> str:
    parts = [
        f"{size} {' and '.join(filter(None, (', '.join(own[:-1]), own[-1])))}"
        for size in SHOWN
        if (own := [each.kind.where for each in _of_size(kinds, size)])
    ]
    if not parts:
        return (
            "Not significantly different from null models or chance on this much data."
            if _tested(kinds)
            else _UNTESTED
        )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _how_sure(audit: Audit, kinds: Sequence[_MeasuredKind]) -> _Said:
    if not _tested(kinds):
        return _UNTESTED, ""
    claims = len(headline_claims(audit))
    rule = (
        f"All {claims} claims of this page are corrected together, so that at most 5 in 100 models without a "
        f"bias get a page that claims one; {calibration().cited(audit)}"
    )
    if shown := _of_size(kinds, *SHOWN):
        largest = max(p for kind in shown if (p := kind.shown.measurement.p_value) is not None)
        often = "fewer than 1" if largest < 0.001 else f"at most {math.ceil(1000 * largest)}"
        sign = "" if largest < 0.001 else "≤ "
        return (
            f"Without a bias, chance would show as much in {often} of 1,000 cases "
            f"(each p {sign}{p_text(largest)}).",
            f"{rule}.",
        )
    return "A bias that is smaller than the intervals below may still be there.", f"{rule}."


def _what_to_do(contents: Contents, kinds: Sequence[_MeasuredKind], chosen: Recommended) -> _Said:
    test = "Then test the task that the model will serve."
    if chosen:
        used = [
            f"Use {names_of(contents).short(name)}: levelhead certifies on held-out items of its own"
            f"{'' if each.certificate.holds_outside else ' only'} that it {lowered(each.certificate)}, at "
            f"costs within their margins"
            for name, (_, each) in chosen.items()
        ]
        risen = [gained_outside(each.certificate) for _, each in chosen.values()]
        risen += [text for run, each in chosen.values() for text in effects(each, run.moved)]
        return "; ".join(used) + ".", " ".join([*(f"{text[0].upper()}{text[1:]}." for text in risen), test])
    if not _tested(kinds):
        return f"Audit it again with null models: --null {ENOUGH} or more.", _UNTESTED
    if not _of_size(kinds, *SHOWN):
        return "Leave the model as it is: nothing here calls for a change.", test
    if contents.audit is not None and contents.audit.settings.quick:
        wait = (
            "Wait for the whole audit before you decide: it tries mitigations, which a first look does not."
        )
        return wait, ""
    many = sum(len(run.candidates) for run in contents.arenas)
    why = (
        f"none of the {many} mitigations that were tried is certified" if many else "no mitigation was tried"
    )
    unsafe = "Leaving the model as it is does not make it safe to use."
    return (
        f"Do not use it for decisions about people on this evidence: the bias stands, and {why}.",
        " ".join([unsafe, *filter(None, map(uncertified_text, contents.arenas))]),
    )


def uncertified_text(run: Mitigate) -> str:
    """Which margin each mitigation missed, and how more of them are tried; "" where one is certified."""
    if run.certified or not run.candidates:
        return ""
    if run.detected is not None and run.detected.why_not:
        why = run.detected.why_not
    elif run.detected is not None and not run.detected.detected:
        why = f"the bias in {run.detected.bias} does not stand out from its null models"
    else:
        missed = [", ".join(each.certificate.missed) for each in run.candidates]
        why = "; ".join(
            f"{each.name}: {verdict(run, each)}{f' ({names})' if names else ''}"
            for each, names in zip(run.candidates, missed, strict=True)
        )
    more = shlex.join(["levelhead", "mitigate", run.model, "-o", "mitigated"])
    return f"Not certified: {why}. To try more mitigations: {more}."


def _at_what_cost(contents: Contents, biased: bool, chosen: Recommended) -> _Said:
    if chosen:
        names, several = names_of(contents), len(chosen) > 1
        own = [(f"{names.short(name)}: " if several else "", each) for name, (_, each) in chosen.items()]
        lost, same = (
            "; ".join(f"{who}{says(each)}" for who, each in own if says(each)) for says in (losses, kept)
        )
        more = f"{same[:1].upper()}{same[1:]}, compared with the unmodified model." if same else ""
        return f"{lost[:1].upper()}{lost[1:]}.", more
    tried = "What each mitigation would cost stands under Mitigations." if contents.arenas else ""
    stays = "bias" if biased else "model"
    return f"Nothing is changed, so no ability is lost, and the {stays} stays as it is.", tried


def _tested(kinds: Sequence[_MeasuredKind]) -> list[_MeasuredKind]:
    return [kind for kind in kinds if kind.size != "untested"]


def _of_size(kinds: Sequence[_MeasuredKind], *sizes: Size) -> list[_MeasuredKind]:
    return [kind for kind in kinds if kind.size in sizes]
