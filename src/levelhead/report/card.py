"""A model card's section on bias, in Markdown."""

from __future__ import annotations

import html
import re

from levelhead.report.contents import BASE, Contents, measurements, variants
from levelhead.report.glossary import measure_of, verdict
from levelhead.report.limits import limits
from levelhead.report.reproduce import command
from levelhead.report.sections.overview import headline
from levelhead.report.tables import digits_of, shown
from levelhead.results.folder import Row


def card(contents: Contents) -> str:
    """Figures with intervals and n, what was changed, limits, and how to get the numbers again."""
    text, findings = headline(contents)
    lines = ["## Bias evaluation", "", _safe(text), ""]
    lines += [f"- {_safe(finding.text)}" for finding in findings]
    version = _safe(contents.main.versions.get("levelhead", ""))
    lines += ["", f"Measured with levelhead {version} on {_safe(contents.model)}.", ""]
    lines += _table(measurements(contents, BASE), "Untouched model")
    for name in variants(contents) if contents.study == "audit" else ():
        if name != BASE:
            lines += _table(measurements(contents, name), f"Changed: {name}")
    lines += [
        "### What these numbers do not show",
        "",
        *(f"- {_safe(limit)}" for limit in limits(contents)),
        "",
    ]
    lines += ["### How to get these numbers again", "", *_fenced(command(contents)), ""]
    told = [f"{name} {value}" for name, value in contents.main.versions.items()]
    hashes = [f"{name} `{_safe(str(value)[:16])}`" for name, value in contents.main.hashes.items()]
    seed = contents.settings.get("seed", "")
    lines += [f"Seed {seed}; {_safe(', '.join(told))}; hashes: {', '.join(hashes) or 'none'}."]
    return "\n".join(lines) + "\n"


def _table(rows: list[Row], title: str) -> list[str]:
    head = [
        "| Measure | Value | 95 % interval | n | Neutral | What it says |",
        "|---|---:|---|---:|---:|---|",
    ]
    lines = [f"### {_safe(title)}", "", *head]
    for row in rows:
        digits = digits_of(row["name"])
        value = "not measured" if row["value"] is None else shown(row["value"], digits)
        between = (
            "" if row["interval"] is None else " to ".join(shown(end, digits) for end in row["interval"])
        )
        neutral = "" if row["neutral"] is None else shown(float(row["neutral"]), 1)
        said = row["reason"] if row["value"] is None else verdict(row)
        named = f"{measure_of(row['name']).title} ({row['name']})"
        lines.append(
            f"| {_safe(named)} | {value} | {between} | {shown(row['n'])} | {neutral} | {_safe(said)} |"
        )
    return [*lines, ""]


def _fenced(text: str) -> list[str]:
    """A block of code whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", text, fence]


def _safe(text: str) -> str:
    """Strings from models and data stay text: neither HTML nor Markdown, on one line."""
    escaped = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", escaped)
