"""Does a run keep within thresholds? For release pipelines: holds, exceeds, or not measured, which is never a
pass."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from levelhead.errors import BadProbe
from levelhead.report.contents import BASE, Contents, changes, measurements, variants
from levelhead.report.glossary import MEASURES, measure_of
from levelhead.results.folder import Row

Side = Literal["max", "min"]
Outcome = Literal["holds", "exceeds", "not measured"]
_KEYS = {"max", "min", "bound", "variant"}


@dataclass(frozen=True)
class Threshold:
    """A measure may be at most (max) or must be at least (min) so much."""

    measure: str
    side: Side
    limit: float

    def __str__(self) -> str:
        return f"{self.measure} {'at most' if self.side == 'max' else 'at least'} {self.limit:g}"


@dataclass(frozen=True)
class Plan:
    """What a release must keep to."""

    thresholds: tuple[Threshold, ...]
    bound: bool = False  # judge the interval's worse bound instead of the value
    variant: str = BASE


@dataclass(frozen=True)
class Judged:
    """One threshold and what came of it."""

    threshold: Threshold
    outcome: Outcome
    judged: float | None = None  # what was compared with the limit
    row: Row | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.outcome == "not measured":
            return f"not measured: {self.threshold}; {self.reason}"
        return f"{self.outcome}: {self.threshold}; {self.reason} {self.judged:.4g}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        value, interval = (None, None) if self.row is None else (self.row["value"], self.row["interval"])
        named = {
            "measure": self.threshold.measure,
            "side": self.threshold.side,
            "limit": self.threshold.limit,
        }
        found = {"outcome": self.outcome, "judged": self.judged, "value": value, "interval": interval}
        return {**named, **found, "reason": self.reason}


def threshold(text: str, side: Side) -> Threshold:
    """`seat=0.8` as it is typed."""
    name, found, limit = text.rpartition("=")
    try:
        number = float(limit)
    except ValueError:
        number = math.nan
    if not found or not name.strip() or not math.isfinite(number):
        raise BadProbe(
            f"--{side} {text!r} is no threshold. Write a measure, =, and a number, as in --{side} seat=0.8."
        )
    return Threshold(name.strip(), side, number)


def read_plan(path: str | Path) -> Plan:
    """Thresholds from a TOML file: tables [max] and [min]; `bound = true` and `variant = "..."` on
    request."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadProbe(f"Cannot read thresholds from {path}: {error}. Give a TOML file.") from error
    except tomllib.TOMLDecodeError as error:
        raise BadProbe(f"{path} is not TOML: {error}.") from error
    if strange := sorted(set(data) - _KEYS):
        raise BadProbe(f"{path} has {strange[0]!r}; allowed are [max], [min], bound, variant.")
    found: list[Threshold] = []
    for side in ("max", "min"):
        table = data.get(side, {})
        wrong = [
            name for name, limit in _items(path, side, table) if isinstance(limit, bool) or not _finite(limit)
        ]
        if wrong:
            raise BadProbe(f"{path}, [{side}]: {wrong[0]} = {table[wrong[0]]!r} is no finite number.")
        found += [Threshold(name, side, float(limit)) for name, limit in table.items()]
    bound, variant = data.get("bound", False), data.get("variant", BASE)
    if not isinstance(bound, bool) or not isinstance(variant, str):
        raise BadProbe(f"{path}: bound must be true or false, variant a text.")
    return Plan(tuple(found), bound, variant)


def _items(path: str | Path, side: str, table: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(table, Mapping):
        raise BadProbe(f"{path}: {side} must be a table, [{side}], of measures and numbers.")
    return table.items()


def _finite(limit: Any) -> bool:
    return isinstance(limit, int | float) and math.isfinite(limit)


def check(contents: Contents, plan: Plan) -> list[Judged]:
    """Every threshold judged; a name that stands for several measures (lpbs) is judged on each of them."""
    known = variants(contents)
    if plan.variant not in known:
        raise BadProbe(f"{contents.folder} has no variant {plan.variant!r}.{_nearest(plan.variant, known)}")
    if not plan.thresholds:
        raise BadProbe(
            "No threshold came. Give --max NAME=NUMBER, --min NAME=NUMBER, or --thresholds FILE.toml."
        )
    rows = {row["name"]: row for row in measurements(contents, plan.variant)}
    rows |= {f"{name} change": row for name, row in changes(contents, plan.variant).items()}
    return [_judge(each, rows, plan.bound) for asked in plan.thresholds for each in _named(asked, rows)]


def exit_code(judged: Sequence[Judged]) -> int:
    """0: all hold. 1: one exceeds. 2: none exceeds, but one was not measured."""
    outcomes = {each.outcome for each in judged}
    return 1 if "exceeds" in outcomes else 2 if "not measured" in outcomes else 0


def _named(asked: Threshold, rows: Mapping[str, Row]) -> list[Threshold]:
    wanted = _plain(asked.measure)
    exact = [name for name in rows if _plain(name) == wanted]
    several = [
        name for name in rows if _plain(name).startswith(f"{wanted} ") and not name.endswith(" change")
    ]
    if exact or several:
        return [replace(asked, measure=name) for name in exact or several]
    known = list(dict.fromkeys([*rows, *(measure.name for measure in MEASURES)]))
    for name in known:
        if _plain(name) == wanted:
            return [replace(asked, measure=name)]
    raise BadProbe(f"There is no measure {asked.measure!r}.{_nearest(asked.measure, known)}")


def _plain(name: str) -> str:
    return re.sub(r"[\s_\-/]+", " ", name.casefold()).strip()


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 3, 0.4)
    return f" Did you mean {' or '.join(near)}?" if near else f" Known are {', '.join(known)}."


def _judge(asked: Threshold, rows: Mapping[str, Row], bound: bool) -> Judged:
    row = rows.get(asked.measure)
    if row is None:
        return Judged(asked, "not measured", reason="this run did not ask it")
    if row["value"] is None:
        return Judged(asked, "not measured", row=row, reason=str(row["reason"]))
    if bound and row["interval"] is None:
        return Judged(asked, "not measured", row=row, reason="it has no interval whose bound could be judged")
    signed = measure_of(asked.measure).signed
    value = _worst(row, asked.side, signed) if bound else abs(row["value"]) if signed else row["value"]
    what = "interval's bound" if bound else "value"
    kept = value <= asked.limit if asked.side == "max" else value >= asked.limit
    return Judged(
        asked, "holds" if kept else "exceeds", float(value), row, f"absolute {what}" if signed else what
    )


def _worst(row: Row, side: Side, signed: bool) -> float:
    """The bound that is least in favor of the model; of an absolute value where both directions are bias."""
    low, high = row["interval"]
    if not signed:
        return float(high if side == "max" else low)
    if side == "max":
        return float(max(abs(low), abs(high)))
    return 0.0 if low <= 0 <= high else float(min(abs(low), abs(high)))


def junit(judged: Sequence[Judged], contents: Contents) -> str:
    """JUnit XML: one test a threshold; exceeding is a failure, not measured an error, so that neither passes
    unseen."""
    counts = {
        "tests": len(judged),
        "failures": sum(each.outcome == "exceeds" for each in judged),
        "errors": sum(each.outcome == "not measured" for each in judged),
    }
    suite = ElementTree.Element(
        "testsuite", {"name": "levelhead check", **{k: str(v) for k, v in counts.items()}}
    )
    for each in judged:
        named = {"classname": _legal(contents.model), "name": _legal(str(each.threshold))}
        case = ElementTree.SubElement(suite, "testcase", named)
        if each.outcome != "holds":
            tag = "failure" if each.outcome == "exceeds" else "error"
            ElementTree.SubElement(case, tag, {"message": _legal(str(each)), "type": each.outcome})
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _legal(text: str) -> str:
    """XML has no place for control characters and lone surrogates."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text)
