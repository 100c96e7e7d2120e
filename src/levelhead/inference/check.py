"""Does a run keep within thresholds? For release pipelines: holds, fails, or not measured, which is never a
pass. Thresholds come as they are typed, or from a TOML file."""

from __future__ import annotations

import difflib
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from levelhead.errors import BadOption
from levelhead.escaping import escaped
from levelhead.inference.comparing import Difference, change_from
from levelhead.inference.contents import Contents, changes, measurements, variants
from levelhead.inference.verdicts import catalog_of, info_of
from levelhead.measures.catalog import DOUBTED, Catalog, MeasureInfo
from levelhead.measures.measurement import CHANGE, Measurement
from levelhead.measures.null import null_range
from levelhead.probes.files import finite, parse_toml, read_text, shown
from levelhead.runs.common import BASE
from levelhead.runs.records import Record

Outcome = Literal["holds", "fails", "not measured"]
Side = Literal["max", "min", "increase", "decrease"]
SUITE = "levelhead check"  # the name in JUnit XML, by which a file of ours is known
OUTCOMES: dict[int, Outcome] = {0: "holds", 1: "fails", 3: "not measured"}  # exit code -> outcome
CERTIFIED = "certified"  # the name by which to ask for how many mitigations are
EVERY = "every measure of bias"  # the row of a baseline with which nothing could be compared
_SIDES: dict[Side, tuple[str, str, Side]] = {  # option, words, the other side; the last two: since a baseline
    "max": ("--max", "at most", "min"),
    "min": ("--min", "at least", "max"),
    "increase": ("--max-increase", "rises by at most", "decrease"),
    "decrease": ("--max-decrease", "falls by at most", "increase"),
}
_GIVE = "Give thresholds as a TOML file (docs/check.md)."


# ---- what a release must keep to


@dataclass(frozen=True)
class Threshold(Record):
    """A measure may be at most (max) or must be at least (min) so much, or may rise or fall by so much since
    a baseline."""

    measure: str
    side: Side
    limit: float

    def __str__(self) -> str:
        return f"{self.measure} {_SIDES[self.side][1]} {self.limit:g}"

    @property
    def of_change(self) -> bool:
        return self.side in ("increase", "decrease")


@dataclass(frozen=True)
class Plan:
    """What a release must keep to."""

    thresholds: tuple[Threshold, ...]
    bound: bool = False  # judge the interval's worse bound instead of the value
    variant: str = BASE


def threshold(text: str, side: Side) -> Threshold:
    """`seat=0.8` as it is typed."""
    name, separator, limit = text.rpartition("=")
    try:
        number = float(limit)
    except ValueError:
        number = math.nan
    if not separator or not name.strip() or not math.isfinite(number):
        raise BadOption(
            f"{_SIDES[side][0]} {text!r} is no threshold. Write a measure, =, and a number, as in "
            f"{_SIDES[side][0]} seat=0.8."
        )
    return Threshold(name.strip(), side, number)


def read_plan(path: str | Path) -> Plan:
    """Thresholds from a TOML file: tables [max] and [min], [increase] and [decrease] since a baseline;
    `bound = true` and `variant = "..."` on request."""
    file = Path(path)
    data = parse_toml(file, read_text(file, _GIVE, BadOption), _GIVE, BadOption)
    if strange := sorted(set(data) - {*_SIDES, "bound", "variant"}):
        allowed = "[max], [min], [increase], [decrease], bound, variant"
        raise BadOption(f"{path}: unknown key {strange[0]!r} (allowed: {allowed})")
    thresholds = []
    for side in _SIDES:
        table = data.get(side, {})
        if not isinstance(table, Mapping):
            raise BadOption(f"{path}: {side} must be a table, [{side}], of measures and numbers.")
        for name, limit in table.items():
            if finite(limit) is None:
                raise BadOption(f"{path}, [{side}]: {name} = {shown(limit)} is no finite number.")
            thresholds.append(Threshold(name, side, float(limit)))
    bound, variant = data.get("bound", False), data.get("variant", BASE)
    if not isinstance(bound, bool) or not isinstance(variant, str):
        raise BadOption(f"{path}: bound must be true or false, variant a text.")
    return Plan(tuple(thresholds), bound, variant)


# ---- outcomes


@dataclass(frozen=True)
class Judged(Record):
    """One threshold and its outcome."""

    measure: str
    side: Side
    limit: float
    outcome: Outcome
    judged: float | None  # what was compared with the limit
    value: float | None
    interval: tuple[float, float] | None
    reason: str  # why nothing was judged, else what was
    counts: bool = True  # toward the verdict; False: a measure that could not be compared, while others were
    warning: str = ""  # that a model without any bias can fail it

    @property
    def threshold(self) -> Threshold:
        """What the measure had to keep to."""
        return Threshold(self.measure, self.side, self.limit)

    def __str__(self) -> str:
        if self.judged is None:
            return f"{self.outcome}: {self.threshold}; {self.reason}"
        kept, broken = ("at least", "below") if self.side == "min" else ("at most", "above")
        relation = broken if self.outcome == "fails" else kept
        return (
            f"{self.outcome}: {self.measure}: {self.judged:.4g} is {relation} {self.limit:g} ({self.reason})"
        )


@dataclass(frozen=True)
class Checked(Record):
    """All thresholds of one run, as `levelhead check --json` prints them."""

    run: str
    model: str
    variant: str
    bound: bool
    baseline: str | None
    verdict: Outcome
    exit: int
    reason: str  # why the verdict is "not measured"; empty for the others
    thresholds: tuple[Judged, ...]

    @classmethod
    def of(cls, contents: Contents, plan: Plan, baseline: Contents | None = None) -> Self:
        """Judge every threshold of a plan, and all of them together."""
        judged = check(contents, plan, baseline)
        code = exit_code(judged)
        reasons = [each.reason for each in judged if each.counts and each.outcome == OUTCOMES[3]]
        return cls(
            run=str(contents.folder),
            model=contents.model,
            variant=plan.variant,
            bound=plan.bound,
            baseline=None if baseline is None else str(baseline.folder),
            verdict=OUTCOMES[code],
            exit=code,
            reason="; ".join(dict.fromkeys(reasons)) if code == 3 else "",
            thresholds=tuple(judged),
        )

    def __str__(self) -> str:
        """One line a threshold, and one for each reason why measures were not compared with the baseline."""
        lines = [str(each) for each in self.thresholds if each.counts]
        if not any(each.measure == EVERY for each in self.thresholds):  # whose line has these reasons
            uncompared = _by_reason(each for each in self.thresholds if not each.counts)
            lines += [f"not compared: {', '.join(names)}; {reason}" for reason, names in uncompared.items()]
        return "\n".join(lines)


def exit_code(judged: Sequence[Judged]) -> int:
    """0: all hold. 1: one fails. 3: none fails, but one was not measured, or nothing was tested at all."""
    outcomes = {each.outcome for each in judged if each.counts} or {OUTCOMES[3]}
    return next(code for code in (1, 3, 0) if OUTCOMES[code] in outcomes)


def _by_reason(judged: Iterable[Judged]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in judged:
        found.setdefault(each.reason, []).append(each.measure)
    return found


# ---- judging


def check(contents: Contents, plan: Plan, baseline: Contents | None = None) -> list[Judged]:
    """Every threshold judged; a name that stands for several measures (lpbs) is judged on each of them.

    baseline: the run that changes are counted from. With one and without thresholds, no measure of bias may
    be surely worse than there.
    """
    known = variants(contents)
    if plan.variant not in known:
        raise BadOption(f"{contents.folder} has no variant {plan.variant!r}.{_nearest(plan.variant, known)}")
    if not plan.thresholds and baseline is None:
        raise BadOption(
            "No threshold was given. Give --max NAME=NUMBER, --min NAME=NUMBER, --baseline RUN, or "
            "--thresholds FILE.toml."
        )
    if baseline is None and any(given.of_change for given in plan.thresholds):
        raise BadOption("--max-increase and --max-decrease count from another run. Give it: --baseline RUN.")
    measured = {each.name: each.measurement for each in measurements(contents, plan.variant)}
    measured |= {each.name: each.measurement for each in changes(contents, plan.variant).values()}
    measured[CERTIFIED] = Measurement.missing(CERTIFIED, "no mitigations were tried in this run")
    if (mitigate := contents.mitigate) is not None and mitigate.detected is not None:
        certified, tried = float(len(mitigate.certified)), len(mitigate.candidates)
        measured[CERTIFIED] = Measurement(CERTIFIED, certified, n=tried)
    catalog = catalog_of(contents)
    chosen = [each for given in plan.thresholds for each in _named(given, list(measured), catalog)]
    for each in chosen:
        # A limit on the side where the ideal lies would hold at the worst value, and fail at the best.
        info, upper = catalog.info(each.measure), each.side in ("max", "increase")
        if info.better and upper != (info.better == "lower"):
            what = f" of |{each.measure}|" if info.signed else ""
            option, _, other = _SIDES[each.side]
            raise BadOption(
                f"{option} {each.measure}={each.limit:g} would hold at the worst values: "
                f"{info.better}{what} is better. Give {_SIDES[other][0]} {each.measure}=NUMBER."
            )
    # Why no bias of the run, or none of the baseline, can be judged.
    doubt = DOUBTED if contents.run.doubts else ""
    if not doubt and baseline is not None and baseline.run.doubts:
        doubt = f"the baseline: {DOUBTED}"
    judged = []
    for each in chosen:
        info = catalog.info(each.measure)
        if (contents.run.doubts or (each.of_change and doubt)) and info.side == "bias":
            judged.append(_unjudged(each, doubt))
        elif baseline is not None and each.of_change:
            change = change_from(baseline, contents, plan.variant, each.measure, info.signed)
            judged.append(_judge_change(each, change, plan.bound))
        else:
            row = _judge(each, measured.get(each.measure), info.signed, plan.bound)
            judged.append(replace(row, warning=_warning(each, measured.get(each.measure), info, plan.bound)))
    if baseline is not None and not any(each.of_change for each in chosen):
        judged += _not_worse(contents, baseline, plan.variant, doubt)
    return judged


def _named(given: Threshold, measured: Sequence[str], catalog: Catalog) -> list[Threshold]:
    """The threshold under the name, or the names, that the run has for it."""

    def plain(name: str) -> str:
        return re.sub(r"[\s_\-/]+", " ", name.casefold()).strip()

    wanted = plain(given.measure)
    exact = [name for name in measured if plain(name) == wanted]
    several = [
        name for name in measured if plain(name).startswith(f"{wanted} ") and not name.endswith(CHANGE)
    ]
    if exact or several:
        return [replace(given, measure=name) for name in exact or several]
    known = list(dict.fromkeys([*measured, *(info.name for info in catalog.measures)]))
    for name in known:
        if plain(name) == wanted:
            return [replace(given, measure=name)]
    raise BadOption(f"There is no measure {given.measure!r}.{_nearest(given.measure, known)}")


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 3, 0.4)
    return f" Did you mean {' or '.join(near)}?" if near else f" Known are {', '.join(known)}."


def _judge(limit: Threshold, measurement: Measurement | None, signed: bool, bound: bool) -> Judged:
    """signed: both directions are bias, so that the absolute value is judged."""
    if measurement is None:
        return _unjudged(limit, "this run did not measure it")
    value, interval = measurement.value, measurement.interval
    if value is None:
        return _unjudged(limit, measurement.reason)
    if bound and interval is None:
        return _unjudged(limit, "it has no interval whose bound could be judged", value)
    judged, what = abs(value) if signed else value, "value"
    if bound and interval is not None:  # the bound that is least in favor of the model
        judged, what = interval[1] if limit.side == "max" else interval[0], "interval's bound"
        if signed:  # at most: at least is refused
            judged = max(map(abs, interval))
    kept = judged <= limit.limit if limit.side == "max" else judged >= limit.limit
    outcome: Outcome = "holds" if kept else "fails"
    reason = f"absolute {what}" if signed else what
    return Judged(limit.measure, limit.side, limit.limit, outcome, judged, value, interval, reason)


def _judge_change(limit: Threshold, change: Difference | str, bound: bool, surely: bool = False) -> Judged:
    """A change since the baseline; surely: judged by the bound that is most in favor of the model."""
    if isinstance(change, str):
        return _unjudged(limit, change)
    sign = 1.0 if limit.side == "increase" else -1.0
    value, how, interval = sign * change.value, "paired" if change.paired else "unpaired", change.interval
    if interval is None and (bound or surely):
        return _unjudged(limit, "its change has no interval whose bound could be judged", change.value)
    ends = sorted(sign * end for end in interval or (change.value, change.value))
    worst, what = value, "change"
    if surely:
        worst, what = ends[0], "change's lower bound"
    elif bound:
        worst, what = ends[1], "change's bound"
    outcome: Outcome = "holds" if worst <= limit.limit else "fails"
    span = "" if interval is None else f" [{interval[0]:+.3f}, {interval[1]:+.3f}]"
    stated = f"{how} {what} since the baseline, {change.value:+.3f}{span}"
    return Judged(limit.measure, limit.side, limit.limit, outcome, worst, change.value, interval, stated)


def _unjudged(limit: Threshold, reason: str, value: float | None = None) -> Judged:
    return Judged(limit.measure, limit.side, limit.limit, "not measured", None, value, None, reason)


def _not_worse(contents: Contents, baseline: Contents, variant: str, doubt: str) -> list[Judged]:
    """Every measure of bias that a run has: its change must leave open that it is no worse.

    One that could not be compared has a row with the reason, which does not count while others could be:
    releases gain and lose measures. Where none could, nothing was tested, and one row that counts says so.
    """
    judged: dict[str, Judged] = {}
    for run, own in ((contents, measurements(contents, variant)), (baseline, measurements(baseline))):
        for each in own:
            info = info_of(run, each.name)
            if info.side != "bias" or info.biased == "none" or each.measurement.value is None:
                continue
            if each.name not in judged:
                limit = Threshold(each.name, "decrease" if info.biased == "below" else "increase", 0.0)
                change = doubt or change_from(baseline, contents, variant, each.name, info.signed)
                row = _judge_change(limit, change, bound=False, surely=True)
                judged[each.name] = replace(row, counts=row.judged is not None)
    rows = list(judged.values())
    if any(each.counts for each in rows):
        return rows
    named = []
    for reason, names in _by_reason(rows).items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        named.append(f"{reason} ({', '.join(names[:3])}{more})")
    why = (
        f"nothing could be compared with the baseline: {'; '.join(named) or 'neither run measured a bias'}. "
        "Give a baseline of the same study on the same items"
    )
    return [*rows, _unjudged(Threshold(EVERY, "increase", 0.0), why)]


def _warning(limit: Threshold, measurement: Measurement | None, info: MeasureInfo, bound: bool) -> str:
    """One line where 95 % of null models are not known to keep a limit; empty where they do, or where the
    run has no null.

    With bound a null model is judged by its interval's bound too; its interval is taken to be as wide as the
    run's own.
    """
    if measurement is None or measurement.null is None or measurement.value is None:
        return ""
    null, value, upper = measurement.null, measurement.value, limit.side == "max"
    low, high = null_range(null)
    if info.signed:
        low, high = 0.0 if low < 0 < high else min(abs(low), abs(high)), max(abs(low), abs(high))
    down, up = (abs(end - value) for end in measurement.interval or (value, value)) if bound else (0.0, 0.0)
    reach = max(down, up) if info.signed else up if upper else down
    worst = high + reach if upper else low - reach
    if limit.limit >= worst if upper else limit.limit <= worst:
        return ""
    kind = "null models" if null.of_models else "draws of its null"
    whose = "the intervals of null models" if bound else "null models"
    right = f"at least {math.ceil(worst * 100) / 100:g}"
    if not upper:
        right = f"at most {math.floor(worst * 100) / 100:g}"
    return (
        f"{limit}: a model without any bias can fail this threshold. {whose.capitalize()} reach {worst:.3g} "
        f"(values {low:.3g} to {high:.3g}, {null.draws} {kind}). Give {right}."
    )


# ---- JUnit


def junit(judged: Sequence[Judged], contents: Contents) -> str:
    """JUnit XML: one test a threshold; exceeding is a failure, not measured an error, so that neither passes
    unseen. A measure that does not count is skipped."""
    tags = []
    for each in judged:
        wrong = "skipped" if not each.counts else "failure" if each.outcome == "fails" else "error"
        tags.append("" if each.outcome == "holds" else wrong)
    counts = {
        "tests": len(judged),
        "failures": tags.count("failure"),
        "errors": tags.count("error"),
        "skipped": tags.count("skipped"),
    }
    suite = ElementTree.Element("testsuite", {"name": SUITE, **{tag: str(n) for tag, n in counts.items()}})
    for each, tag in zip(judged, tags, strict=True):
        named = {"classname": _legal(contents.model), "name": _legal(str(each.threshold))}
        case = ElementTree.SubElement(suite, "testcase", named)
        if tag:
            ElementTree.SubElement(case, tag, {"message": _legal(str(each)), "type": each.outcome})
        if each.warning:
            ElementTree.SubElement(case, "system-err").text = _legal(each.warning)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _legal(text: str) -> str:
    """XML has no place for control characters, which are shown by number, and for lone surrogates."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", escaped(text))
