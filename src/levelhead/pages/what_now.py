"""The box at the top of an audit's page: is there a bias, how large, how sure, what to do, at what cost.

It claims nothing of its own. A size is said of a measure only where the page claims a bias (headline.py), and
a way out is recommended only where the page claims that it helps and every ability that was measured stays
within its margin; what it is known to lose stands in the same sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import shorten

from levelhead.inference.calibration import calibration
from levelhead.inference.claims import p_text
from levelhead.inference.contents import Contents, Reported, measurements
from levelhead.inference.headline import headline_claims
from levelhead.inference.infos import info_of, verdict_of
from levelhead.inference.mitigating import price, reached
from levelhead.inference.sizes import CLEAR, ORDER, RULE, SHOWN, STRONG, Size, along, certain_share, size_of
from levelhead.measures.catalog import MeasureInfo, is_about
from levelhead.measures.measurement import ENOUGH, Measurement
from levelhead.pages.blocks import Answer, Found, WayOut, WhatNow
from levelhead.pages.certified_ways import uncertified_text
from levelhead.pages.charts.base import Chart
from levelhead.pages.charts.kinds import DrawnKind, SizeColors, Spread, kinds_chart
from levelhead.pages.possible_ways import possible_ways
from levelhead.pages.tables import Cell, Part, reported
from levelhead.results.runs import AuditRun


@dataclass(frozen=True)
class Kind:
    """A kind of question: its measures, and in which situation the model was watched."""

    measures: tuple[str, ...]
    where: str
    label: str  # the same, in a picture


KINDS = (
    Kind(("seat",), "in how close its words lie to each other", "how close\nits words lie"),
    Kind(("lpbs",), "when it fills in a blank", "filling in\na blank"),
    Kind(
        ("preference", "ss_paired", "strength"),
        "when it chooses the next sentence",
        "choosing the\nnext sentence",
    ),
    Kind(("log_odds",), "when it guesses who does a job", "guessing who\ndoes a job"),
    Kind(
        ("fairness",), "when it concludes from a job which group someone belongs to", "concluding from\na job"
    ),
)
_SPREADS = 2  # standard deviations of null models to either side, in the picture
_LETTERS = 24  # of the label of a measure of your own
_COLORS = SizeColors(SHOWN, "none shown")

FIRST_LOOK = "few contexts, few null models, wide intervals; no change was tried."
_Said = tuple[str] | tuple[str, str]  # an answer in short, and what else belongs to it
_UNTESTED = "That cannot be said: nothing was held against null models, or against too few."


def what_now(contents: Contents) -> WhatNow | None:
    """The box of a finished audit; other runs ask one study only and decide nothing.

    Nothing is decided either about a model that does not read plain English.
    """
    audit = contents.audit
    if audit is None or audit.headline is None or audit.doubts:
        return None
    kinds = sorted(_asked_kinds(contents), key=lambda each: each.place)
    untouched = {each.name: kind.size for kind in kinds for each in kind.reported}
    ways = possible_ways(contents, untouched)
    return WhatNow(
        said=[
            Answer("Is there a bias?", *_whether(audit, kinds)),
            Answer("How large is it?", _how_large(kinds)),
            Answer("How sure is that?", *_how_sure(audit, kinds)),
            Answer("What should I do?", *_what_to_do(contents, kinds, ways, audit.settings.quick)),
            Answer("What will it cost?", *_at_what_cost(kinds, ways)),
        ],
        picture=_picture(contents, kinds),
        found=[_found(contents, kind) for kind in kinds],
        ways=ways,
        rule=RULE,
    )


# ---- kinds of questions


@dataclass(frozen=True)
class _AskedKind:
    """A kind of question that the audit asked, and what its clearest measure shows."""

    kind: Kind
    reported: Sequence[Reported]
    shown: Reported  # the one that speaks for the kind
    size: Size
    certain: float  # how much of it is certain, 0 to 1
    says: str

    @property
    def place(self) -> tuple[int, float]:
        """By size, then by how much of it is certain."""
        return ORDER.index(self.size), -self.certain


def _asked_kinds(contents: Contents) -> Iterator[_AskedKind]:
    untouched = [each for each in measurements(contents) if each.measurement.value is not None]
    own = () if contents.audit is None else contents.audit.measures
    kinds = (
        *KINDS,
        *(
            Kind((info.name,), f"by “{info.title}”", shorten(info.title, _LETTERS))
            for info in own
            if info.side == "bias"
        ),
    )
    for kind in kinds:
        members = [each for each in untouched if any(is_about(name, each.name) for name in kind.measures)]
        if members:
            yield _asked_kind(contents, kind, members)


def _asked_kind(contents: Contents, kind: Kind, members: Sequence[Reported]) -> _AskedKind:
    sizes = {each.name: size_of(contents, each) for each in members}
    certain = {each.name: certain_share(info_of(contents, each.name), each.measurement) for each in members}
    shown = min(members, key=lambda each: (ORDER.index(sizes[each.name]), -certain[each.name]))
    says = verdict_of(contents, shown)
    return _AskedKind(kind, members, shown, sizes[shown.name], certain[shown.name], says)


def _found(contents: Contents, kind: _AskedKind) -> Found:
    where = kind.kind.where[0].upper() + kind.kind.where[1:]
    if kind.size == "untested":
        sentence = f"{where}: held against no null model, or too few, so nothing is claimed."
    elif kind.size == "none shown":
        sentence = f"{where}, it shows nothing that chance would not show on this much data."
    else:
        sentence = f"{where}, it {kind.says}."
    return Found(kind.size, sentence, [_numbers(contents, each) for each in kind.reported])


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


def _picture(contents: Contents, kinds: Sequence[_AskedKind]) -> Chart | None:
    """Every kind whose measure has a scale, on one scale: from a null model to the most there is."""
    drawn = [kind for each in kinds if (kind := _drawn(contents, each)) is not None]
    return kinds_chart(drawn, _COLORS, (CLEAR, STRONG)) if drawn else None


def _drawn(contents: Contents, kind: _AskedKind) -> DrawnKind | None:
    info, measurement = info_of(contents, kind.shown.name), kind.shown.measurement
    null, value = measurement.null, measurement.value
    bias = _spread(info, measurement, (value, *(measurement.interval or (value, value))))
    if bias is None:
        return None
    if kind.size == "untested":
        return DrawnKind(kind.kind.label, kind.size, _numbers(contents, kind.shown).text, None, None)
    floors = () if null is None else tuple(null.floor + n * null.spread for n in (0, -_SPREADS, _SPREADS))
    floor = None if null is None else _spread(info, measurement, floors)
    return DrawnKind(kind.kind.label, kind.size, _numbers(contents, kind.shown).text, bias, floor)


def _spread(info: MeasureInfo, measurement: Measurement, values: Sequence[float | None]) -> Spread | None:
    """A value and its ends on the way to the most that can be shown; None without a scale."""
    reached = [at for value in values if (at := along(info, measurement, value)) is not None]
    return Spread(reached[0], min(reached[1:]), max(reached[1:])) if len(reached) == len(values) else None


# ---- answers: each in short, and what else belongs to it


def _whether(audit: AuditRun, kinds: Sequence[_AskedKind]) -> _Said:
    shown, tested = _of_size(kinds, *SHOWN), _tested(kinds)
    if shown:
        many = f"{len(shown)} of {len(tested)} kinds of question"
        return (f"Yes: a {audit.bias} bias shows in {many}.",)
    if not tested:
        return (_UNTESTED,)
    return (f"None that this audit can show, in {len(tested)} kinds of question. That is not proof of none.",)


def _how_large(kinds: Sequence[_AskedKind]) -> str:
    parts = [
        f"{size} {_listed([each.kind.where for each in own])}"
        for size in SHOWN
        if (own := _of_size(kinds, size))
    ]
    if not parts:
        return "Too small to be told from chance on this much data." if _tested(kinds) else _UNTESTED
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _how_sure(audit: AuditRun, kinds: Sequence[_AskedKind]) -> _Said:
    if not _tested(kinds):
        return (_UNTESTED,)
    claims = len(headline_claims(audit))
    rule = (
        "The tests are set so that at most 5 in 100 models without a bias get a page that claims one, all "
        f"{claims} claims counted; {calibration().cited(audit)}"
    )
    if shown := _of_size(kinds, *SHOWN):
        largest = max(p for kind in shown if (p := kind.shown.measurement.p_value) is not None)
        return f"The largest p of what was found is {p_text(largest)}.", f"{rule}."
    return "A bias that is smaller than the intervals below may still be there.", f"{rule}."


def _what_to_do(
    contents: Contents, kinds: Sequence[_AskedKind], ways: Sequence[WayOut], quick: bool
) -> _Said:
    chosen = [way for way in ways if way.recommended and way.command is not None]
    test = "Then test the task that the model will serve."
    if chosen:
        return "; ".join(f"Use {way.name}: {_reason(contents, way)}" for way in chosen) + ".", test
    if not _tested(kinds):
        return f"Audit it again with null models: --null {ENOUGH} or more.", _UNTESTED
    if not _of_size(kinds, *SHOWN):
        return "Leave the model as it is: nothing here calls for a change.", test
    tried = [way for way in ways if way.command is not None]
    if quick:
        return (
            "Wait for the whole audit before you decide: it tries changes, which a first look does not.",
            "",
        )
    why = (
        f"none of the {len(tried)} changes that were tried is shown both to help and to keep every ability"
        if tried
        else "no change was tried"
    )
    unsafe = "Leaving the model as it is does not make it safe to use."
    return (
        f"Do not use it for decisions about people on this evidence: the bias stands, and {why}.",
        f"{unsafe} {uncertified_text(contents)}".rstrip(),
    )


def _reason(contents: Contents, way: WayOut) -> str:
    """By what right a change is recommended, with what it is known to lose."""
    run = contents.mitigations
    certified = () if run is None else (each for each in run.certified if each.name == way.name)
    for each in certified:
        tested = each.certificate
        gain = f"certified on held-out items, {tested.bias} {reached(tested)}"
        return f"{gain}, {price(each, run.moved)}" if run is not None else gain
    return f"shown to help, at the price of {way.costs.text}"


def _at_what_cost(kinds: Sequence[_AskedKind], ways: Sequence[WayOut]) -> _Said:
    chosen = [way for way in ways if way.recommended and way.command is not None]
    if chosen:
        return ("; ".join(f"{way.name}: {way.costs.text}" for way in chosen) + ".",)
    tried = "What each change would cost stands below." if len(ways) > 1 else ""
    stays = "bias" if _of_size(kinds, *SHOWN) else "model"
    return f"Nothing is changed, so no ability is lost, and the {stays} stays as it is.", tried


def _tested(kinds: Sequence[_AskedKind]) -> list[_AskedKind]:
    return [kind for kind in kinds if kind.size != "untested"]


def _of_size(kinds: Sequence[_AskedKind], *sizes: Size) -> list[_AskedKind]:
    return [kind for kind in kinds if kind.size in sizes]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
