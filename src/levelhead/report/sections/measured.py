"""The report's chapters: what was measured, what was changed, what it does not show, how to get it again."""

from __future__ import annotations

import json
from collections.abc import Callable

from levelhead.report.blocks import Bar, Block, Card, Cards, Code, Points, Section, Shown
from levelhead.report.contents import Contents, changes, measurements, variants
from levelhead.report.glossary import MEASURES, measure_of, verdict
from levelhead.report.limits import limits
from levelhead.report.reproduce import command
from levelhead.report.sections.heads import heads_section
from levelhead.report.sections.knowledge import knowledge_section
from levelhead.report.sections.sweep import sweep_section
from levelhead.report.tables import (
    Cell,
    Part,
    Table,
    by_name,
    digits_of,
    interval,
    measured,
    number,
    shown,
    words,
)
from levelhead.results.folder import Row

_CARDS = ("seat", "ss", "strength", "fairness", "lpbs", "margin", "distance")
_MOST_CARDS = 6


def sections(contents: Contents) -> list[Section]:
    """All that the run has rows for, in reading order."""
    writers: tuple[Callable[[Contents], Section | None], ...] = (
        measured_section,
        heads_section,
        knowledge_section,
        sweep_section,
        changes_section,
        limits_section,
        reproduce_section,
    )
    return [section for write in writers if (section := write(contents)) is not None]


def headline(contents: Contents) -> tuple[str, list[Cell]]:
    """The findings in plain words: the audit's own, or a sentence for each measure of a single study."""
    if told := contents.rows("headline"):
        findings = [finding for row in told for finding in row.get("findings", [])]
        return str(told[0]["text"]), [words(finding) for finding in findings]
    known = [row for row in measurements(contents) if row["value"] is not None]
    found = [row for row in known if measure_of(row["name"]).side == "bias"]
    findings = [_finding(row, contents.model) for row in sorted(found, key=_reading_order)]
    if contents.study == "audit":
        return (
            f"The audit of {contents.model} is not finished: run the same command again, it goes on.",
            findings,
        )
    return f"What was measured on {contents.model}", findings


def _finding(row: Row, model: str) -> Cell:
    told, value = verdict(row), measured(row, digits_of(row["name"]))
    whose = f" of {row['model']}" if row.get("model", model) != model else ""
    said = (
        Part(f"{measure_of(row['name']).title}{whose}: "),
        *value.parts,
        Part(f" — {told}." if told else "."),
    )
    return Cell(said)


def _reading_order(row: Row) -> int:
    names = [measure.name for measure in MEASURES]
    first = str(row["name"]).split()[0]
    return names.index(first) if first in names else len(names)


# ---- what was measured


def measured_section(contents: Contents) -> Section | None:
    """Key numbers as cards, then every measure in a table."""
    rows = sorted(measurements(contents), key=_reading_order)
    if not rows:
        return None
    blocks: list[Block] = []
    if cards := [_card(row) for row in _key_rows(rows)]:
        blocks.append(Cards(cards))
    blocks.append(Shown(_measures_table(rows, contents.model)))
    lead = (
        "Each number comes with its 95 % interval and with n, the number of items it rests on. The neutral value is "
        "that of a model without this bias."
    )
    return Section("measured", "What was measured", lead, blocks)


def _key_rows(rows: list[Row]) -> list[Row]:
    """The first measured one of each kind, so that three tests of one kind do not crowd out the others."""
    first: dict[str, Row] = {}
    for row in rows:
        if row["value"] is not None:
            first.setdefault(str(row["name"]).split()[0], row)
    return [first[name] for name in _CARDS if name in first][:_MOST_CARDS]


def _card(row: Row) -> Card:
    known, told = measure_of(row["name"]), verdict(row)
    tone = "neutral" if "cannot be told" in told or "no interval" in told else "biased"
    return Card(known, number(row, "value"), interval(row), number(row, "n"), told, _bar(row), tone)


def _bar(row: Row) -> Bar | None:
    scale = measure_of(row["name"]).scale
    if scale is None or row["interval"] is None:
        return None
    low, high = scale

    def place(value: float) -> float:
        return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 2)

    neutral = None if row["neutral"] is None else place(row["neutral"])
    ends = (shown(int(low)), shown(int(high)))
    return Bar(place(row["value"]), place(row["interval"][0]), place(row["interval"][1]), neutral, ends)


def _measures_table(rows: list[Row], model: str) -> Table:
    body = []
    for row in rows:
        known, digits = measure_of(row["name"]), digits_of(row["name"])
        asked = " ".join(part for part in (known.asks, known.reading) if part)
        value = measured(row) if row["value"] is None else number(row, "value", digits)
        body.append(
            [
                words(known.title, asked),
                words(row["name"]),
                value,
                interval(row, digits),
                number(row, "n"),
                number(row, "neutral", 1),
                words("" if row["value"] is None else verdict(row), _asked_on(row, model)),
            ]
        )
    columns = ("Measure", "Name", "Value", "95 % interval", "n", "Neutral", "What it says")
    note = "“Cannot be told from neutral” is not “unbiased”: more items may show a difference."
    return Table("measures", "Every measure of the untouched model", columns, body, note)


def _asked_on(row: Row, model: str) -> str:
    """The data, what of it could not be scored, with reasons, and the model where the page is about
    several."""
    told = [str(row["model"])] if row.get("model", model) != model else []
    told += [str(data)] if (data := (row.get("settings") or {}).get("data")) else []
    told += [f"{n:,} not scored: {reason}" for reason, n in (row.get("unscored") or {}).items()]
    return "; ".join(told)


# ---- before and after


def changes_section(contents: Contents) -> Section | None:
    """What was changed in the model, and every measure before and after."""
    plans = [*contents.rows("mitigate"), *contents.rows("nli mitigate")]
    changed = {row["variant"] for row in contents.matching("verify/")}
    verified = [name for name in variants(contents) if name in changed]
    if not plans and not verified:
        return None
    blocks: list[Block] = []
    if plans:
        blocks.append(Shown(_plans_table(plans)))
    if verified:
        blocks.append(Shown(_change_table(contents, verified)))
    blocks += [
        Code(f"Recipe of “{row['variant']}”", row["recipe"], True) for row in plans if row.get("recipe")
    ]
    lead = (
        "The same measures again on each changed model. Fluency, language sense and ability say what the change "
        "cost. A recipe makes the changed model: levelhead debias."
    )
    return Section("changes", "Before and after", lead, blocks)


def _plans_table(plans: list[Row]) -> Table:
    viable = {True: "yes", False: "no", None: "not measured"}
    body = [
        [
            words(row["variant"]),
            words(row.get("what")),
            words(", ".join(row.get("heads") or [])),
            words(viable[row.get("viable")]),
            words("yes" if row.get("chosen") else "no"),
        ]
        for row in plans
    ]
    note = "Ability is kept when it falls by at most 5 points. Heads are written layer-head, both counted from 1."
    columns = ("Variant", "What was changed", "Heads", "Ability kept", "Chosen")
    chosen = frozenset(i for i, row in enumerate(plans) if row.get("chosen"))
    return Table("changes", "What was changed", columns, body, note, strong=chosen)


def _change_table(contents: Contents, names: list[str]) -> Table:
    after = {name: by_name(measurements(contents, name)) for name in names}
    paired = {name: changes(contents, name) for name in names}
    body = []
    for measure, row in by_name(sorted(measurements(contents), key=_reading_order)).items():
        if row["value"] is None:
            continue
        title, digits = measure_of(measure).title, digits_of(measure)
        others = [measured(after[name].get(measure), digits) for name in names]
        body.append([words(title), measured(row, digits), *others])
        if any(measure in found for found in paired.values()):
            change = [measured(paired[name].get(measure)) for name in names]
            body.append([words(f"{title}: paired change"), words(None), *change])
    columns = ["Measure", "Before", *(f"After: {name}" for name in names)]
    note = (
        "Values with 95 % intervals. Where two intervals overlap widely, no change is shown. A paired change is "
        "computed item by item on the same probes; that of fluency is the ratio after to before, so 1 means no cost."
    )
    return Table("before-after", "Every measure, before and after", columns, body, note)


# ---- limits and how to get it again


def limits_section(contents: Contents) -> Section:
    """What the numbers do not show."""
    return Section(
        "limits", "What these numbers do not show", "", [Points([words(text) for text in limits(contents)])]
    )


def reproduce_section(contents: Contents) -> Section:
    """Command, seed, versions, hashes."""
    runs = {
        "": contents.main,
        **{name: run for name, run in contents.parts.items() if run is not contents.main},
    }
    body = [[words("seed"), words(contents.settings.get("seed", "")), words("setting")]]
    body += [[words(name), words(value), words("version")] for name, value in contents.main.versions.items()]
    for part, run in runs.items():
        label = f"{part}: " if part else ""
        found = run.hashes.items()
        body += [[words(f"{label}{name}"), words(value), words("hash")] for name, value in found]
    table = Table(
        "versions", "Seed, versions, and hashes of weights and data", ("What", "Value", "Kind"), body
    )
    settings = json.dumps(dict(contents.settings), indent=1, ensure_ascii=False)
    blocks: list[Block] = [
        Code("Run it again", command(contents)),
        Code("Only rebuild this page", f"levelhead report {contents.folder}"),
        Shown(table),
        Code("All settings", settings, True),
    ]
    lead = (
        "The same command with the same versions on the same machine gives the same numbers, to the bit. All numbers "
        "of this page, with all their digits, are in results.jsonl of the run folder."
    )
    return Section("reproduce", "How to get this again", lead, blocks)
