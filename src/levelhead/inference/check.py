"""Does a run keep within thresholds? For release pipelines: holds, fails, or not measured, which is never a
pass."""

from __future__ import annotations

import difflib
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from levelhead.errors import BadOption
from levelhead.escaping import escaped
from levelhead.inference.baseline import change_from
from levelhead.inference.compare_items import Difference
from levelhead.inference.contents import Contents, changes, measurements, variants
from levelhead.inference.infos import catalog_of, info_of
from levelhead.inference.mitigating import CERTIFIED, certified_measurement
from levelhead.inference.thresholds import OPTIONS, Plan, Side, Threshold
from levelhead.measures.catalog import DOUBTED, Catalog, MeasureInfo
from levelhead.measures.measurement import CHANGE, Measurement
from levelhead.measures.null import null_range
from levelhead.results.codec import Record

Outcome = Literal["holds", "fails", "not measured"]
SUITE = "levelhead check"  # the name in JUnit XML, by which a file of ours is known
OUTCOMES: dict[int, Outcome] = {0: "holds", 1: "fails", 3: "not measured"}  # exit code -> outcome
EVERY = "every measure of bias"  # the row of a baseline with which nothing could be compared
_OTHER_SIDE: dict[Side, Side] = {"max": "min", "min": "max", "increase": "decrease", "decrease": "increase"}


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
            "No threshold came. Give --max NAME=NUMBER, --min NAME=NUMBER, --baseline RUN, or "
            "--thresholds FILE.toml."
        )
    if baseline is None and any(given.of_change for given in plan.thresholds):
        raise BadOption("--max-increase and --max-decrease count from another run. Give it: --baseline RUN.")
    measured = {each.name: each.measurement for each in measurements(contents, plan.variant)}
    measured |= {each.name: each.measurement for each in changes(contents, plan.variant).values()}
    measured[CERTIFIED] = certified_measurement(contents)
    catalog = catalog_of(contents)
    chosen = [each for given in plan.thresholds for each in _named(given, list(measured), catalog)]
    for each in chosen:
        _refuse_wrong_side(each, catalog.info(each.measure))
    doubt = _doubt(contents, baseline)
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


def _doubt(contents: Contents, baseline: Contents | None) -> str:
    """Why no bias of the run, or none of the baseline, can be judged; empty where both can."""
    if contents.run.doubts:
        return DOUBTED
    return f"the baseline: {DOUBTED}" if baseline is not None and baseline.run.doubts else ""


def _refuse_wrong_side(given: Threshold, info: MeasureInfo) -> None:
    """A limit on the side where the ideal lies would hold at the worst value, and fail at the best."""
    upper = given.side in ("max", "increase")
    if not info.better or upper == (info.better == "lower"):
        return
    what = f" of |{given.measure}|" if info.signed else ""
    right = f"{OPTIONS[_OTHER_SIDE[given.side]]} {given.measure}=NUMBER"
    raise BadOption(
        f"{OPTIONS[given.side]} {given.measure}={given.limit:g} would hold at the worst values: "
        f"{info.better}{what} is better. Give {right}."
    )


def _not_worse(contents: Contents, baseline: Contents, variant: str, doubt: str) -> list[Judged]:
    """Every measure of bias that a run has: its change must leave open that it is no worse.

    One that could not be compared has a row with the reason, which does not count while others could be:
    releases gain and lose measures. Where none could, nothing was tested, and one row that counts says so.
    """
    judged = []
    for name, side, signed in _bias_measures(contents, baseline, variant):
        limit = Threshold(name, side, 0.0)
        change = doubt or change_from(baseline, contents, variant, name, signed)
        row = _judge_change(limit, change, bound=False, surely=True)
        judged.append(replace(row, counts=row.judged is not None))
    if any(each.counts for each in judged):
        return judged
    why = "; ".join(f"{reason} ({_some(names)})" for reason, names in _by_reason(judged).items())
    reason = (
        f"nothing could be compared with the baseline: {why or 'neither run measured a bias'}. "
        "Give a baseline of the same study on the same items"
    )
    return [*judged, _unjudged(Threshold(EVERY, "increase", 0.0), reason)]


def _bias_measures(contents: Contents, baseline: Contents, variant: str) -> list[tuple[str, Side, bool]]:
    """What at least one of two runs has a value of: its name, the side on which it is worse, and whether its
    absolute value is compared."""
    found: dict[str, tuple[str, Side, bool]] = {}
    for run, own in ((contents, measurements(contents, variant)), (baseline, measurements(baseline))):
        for each in own:
            info = info_of(run, each.name)
            if info.side == "bias" and info.biased != "none" and each.measurement.value is not None:
                side: Side = "decrease" if info.biased == "below" else "increase"
                found.setdefault(each.name, (each.name, side, info.signed))
    return list(found.values())


def _by_reason(judged: Iterable[Judged]) -> dict[str, list[str]]:
    """Measures by the reason why they were not judged."""
    found: dict[str, list[str]] = {}
    for each in judged:
        found.setdefault(each.reason, []).append(each.measure)
    return found


def _some(names: Sequence[str]) -> str:
    """The first of several names, and how many there are besides."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def _judge_change(limit: Threshold, change: Difference | str, bound: bool, surely: bool = False) -> Judged:
    """A change since the baseline; surely: judged by the bound that is most in favor of the model."""
    if isinstance(change, str):
        return _unjudged(limit, change)
    sign = 1.0 if limit.side == "increase" else -1.0
    value, how = sign * change.value, "paired" if change.paired else "unpaired"
    if change.interval is None and (bound or surely):
        return _unjudged(limit, "its change has no interval whose bound could be judged", change.value)
    ends = sorted(sign * end for end in change.interval or (change.value, change.value))
    worst = value if not (bound or surely) else ends[0] if surely else ends[1]
    what = "change" if not (bound or surely) else "change's lower bound" if surely else "change's bound"
    outcome: Outcome = "holds" if worst <= limit.limit else "fails"
    stated = f"{how} {what} since the baseline, {_signed(change)}"
    return Judged(
        limit.measure, limit.side, limit.limit, outcome, worst, change.value, change.interval, stated
    )


def _signed(change: Difference) -> str:
    ends = "" if change.interval is None else f" [{change.interval[0]:+.3f}, {change.interval[1]:+.3f}]"
    return f"{change.value:+.3f}{ends}"


def exit_code(judged: Sequence[Judged]) -> int:
    """0: all hold. 1: one fails. 3: none fails, but one was not measured, or nothing was tested at all."""
    outcomes = {each.outcome for each in judged if each.counts} or {OUTCOMES[3]}
    return next(code for code in (1, 3, 0) if OUTCOMES[code] in outcomes)


def _named(given: Threshold, measured: Sequence[str], catalog: Catalog) -> list[Threshold]:
    """The threshold under the name, or the names, that the run has for it."""
    wanted = _plain(given.measure)
    exact = [name for name in measured if _plain(name) == wanted]
    several = [
        name for name in measured if _plain(name).startswith(f"{wanted} ") and not name.endswith(CHANGE)
    ]
    if exact or several:
        return [replace(given, measure=name) for name in exact or several]
    known = list(dict.fromkeys([*measured, *(info.name for info in catalog.measures)]))
    for name in known:
        if _plain(name) == wanted:
            return [replace(given, measure=name)]
    raise BadOption(f"There is no measure {given.measure!r}.{_nearest(given.measure, known)}")


def _plain(name: str) -> str:
    return re.sub(r"[\s_\-/]+", " ", name.casefold()).strip()


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
    if bound and interval is not None:
        judged, what = _worst(interval, limit.side, signed), "interval's bound"
    else:
        judged, what = abs(value) if signed else value, "value"
    kept = judged <= limit.limit if limit.side == "max" else judged >= limit.limit
    outcome: Outcome = "holds" if kept else "fails"
    reason = f"absolute {what}" if signed else what
    return Judged(limit.measure, limit.side, limit.limit, outcome, judged, value, interval, reason)


def _unjudged(limit: Threshold, reason: str, value: float | None = None) -> Judged:
    return Judged(limit.measure, limit.side, limit.limit, "not measured", None, value, None, reason)


def _worst(interval: tuple[float, float], side: Side, signed: bool) -> float:
    """The bound that is least in favor of the model; of an absolute value where both directions are bias."""
    low, high = interval
    if signed:  # at most: at least is refused
        return max(abs(low), abs(high))
    return high if side == "max" else low


# ---- thresholds that a model without any bias can fail


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
    tags = [_tag(each) for each in judged]
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


def _tag(each: Judged) -> str:
    """What JUnit has inside the test of a threshold; nothing where it holds."""
    if each.outcome == "holds":
        return ""
    return "skipped" if not each.counts else "failure" if each.outcome == "fails" else "error"


def _legal(text: str) -> str:
    """XML has no place for control characters, which are shown by number, and for lone surrogates."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", escaped(text))
