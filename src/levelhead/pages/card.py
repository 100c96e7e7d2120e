"""A model card's section on bias, in Markdown."""

from __future__ import annotations

import html
import re

from levelhead.escaping import escaped
from levelhead.inference.contents import Contents, Reported, changes, measurements, variants
from levelhead.inference.doubts import openings_text
from levelhead.inference.heads_in_words import bias_text
from levelhead.inference.infos import info_of, verdict_of
from levelhead.inference.mitigating import costs, findings, reached, sentence
from levelhead.pages.about import about_of, stated_fields
from levelhead.pages.limits import limits
from levelhead.pages.reproduce import command
from levelhead.pages.sections.opening import opening
from levelhead.pages.tables import probability, shown
from levelhead.results.layout import GLUE
from levelhead.results.records.common import BASE, SAME_ITEMS
from levelhead.results.runs import MitigateRun

_COLUMNS = (
    "| Measure | Value | 95 % interval | n | Neutral | Null models | p | What it says |",
    "|---|---:|---|---:|---:|---:|---:|---|",
)
HEADING = "## Bias evaluation"  # by which a card of ours is known
_SAME = "Unmodified model, on the items of the changed ones"


def card(contents: Contents) -> str:
    """Figures with intervals and n, what was changed, limits, and how to get the numbers again."""
    first = opening(contents)
    data = contents.run.data
    lines = [HEADING, "", _safe(first.text), ""]
    lines += [f"- {_safe(finding.text)}" for finding in first.findings]
    version = _safe(data.versions.get("levelhead", ""))
    lines += ["", f"Measured with levelhead {version} on {_safe(contents.model)}.", ""]
    if opens := openings_text(contents.run):
        lines += [f"Texts open with: {_safe(opens)}.", ""]
    if bias := bias_text(contents.heads):
        lines += [f"Bias: {_safe(bias)}.", ""]
    lines += _table(contents, BASE, "Unmodified model")
    for name in variants(contents) if contents.audit is not None or contents.study == GLUE.study else ():
        if name != BASE:
            title = _SAME if name == SAME_ITEMS else f"Changed: {name}"
            lines += _table(contents, name, title)
    if contents.mitigations is not None:
        lines += _mitigations(contents.mitigations, told=contents.audit is None)
    if (about := about_of(contents)) is not None:
        stated = [f"- {title}: {_safe(text)}" for title, text in stated_fields(about)]
        lines += ["### Documentation", "", *stated, ""]
    warnings = [f"- {_safe(limit)}" for limit in limits(contents)]
    lines += ["### What these numbers do not show", "", *warnings, ""]
    lines += ["### How to get these numbers again", "", *_fenced(command(contents)), ""]
    versions = ", ".join(f"{package} {number}" for package, number in data.versions.items())
    hashes = ", ".join(f"{name} `{_safe(digest[:16])}`" for name, digest in data.hashes.items())
    lines += [f"Seed {contents.run.settings.seed}; {_safe(versions)}; hashes: {hashes or 'none'}."]
    return escaped("\n".join(lines)) + "\n"


def _mitigations(run: MitigateRun, told: bool) -> list[str]:
    """What was tried on the model, and what of it is certified; told: the card opens with it."""
    lines = [
        "| Mitigation | Bias | Gain | 95 % interval | Cost | p | Verdict |",
        "|---|---|---:|---|---|---:|---|",
    ]
    for each in run.candidates:
        tested = each.certificate
        ends = "" if tested.interval is None else "[{:+.3f}, {:+.3f}]".format(*tested.interval)
        gained = f"{tested.gain:+.3f}", ends, costs(each)
        cells = (each.name, f"{tested.bias} {reached(tested)}", *gained, probability(tested.p).text)
        lines.append(f"| {' | '.join(_safe(cell) for cell in (*cells, tested.verdict))} |")
    said = [] if told else [f"- {_safe(text)}" for text in (sentence(run), *findings(run))]
    return ["### Mitigations, on held-out items", "", *said, "", *lines, ""]


def _table(contents: Contents, variant: str, title: str) -> list[str]:
    reported = [*measurements(contents, variant), *changes(contents, variant).values()]
    if not reported:
        return []
    lines = [_line(contents, each) for each in reported]
    return [f"### {_safe(title)}", "", *_COLUMNS, *lines, ""]


def _line(contents: Contents, reported: Reported) -> str:
    """One measure: value, interval, n, neutral value, and what it says."""
    measurement, info = reported.measurement, info_of(contents, reported.name)
    ends = [shown(end, info.digits) for end in measurement.interval or ()]
    if measurement.value is None:
        value, verdict = "not measured", measurement.reason
    else:
        value, verdict = shown(measurement.value, info.digits), verdict_of(contents, reported)
    neutral = "" if measurement.neutral is None else shown(float(measurement.neutral), 1)
    name = _safe(f"{info.title} ({reported.name})")
    floor = "" if measurement.null is None else shown(measurement.null.floor, info.digits)
    p = "" if (own := measurement.p_value) is None else probability(own).text
    cells = [name, value, " to ".join(ends), shown(measurement.n), neutral, floor, p, _safe(verdict)]
    return f"| {' | '.join(cells)} |"


def _fenced(text: str) -> list[str]:
    """A block of code whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", text, fence]


def _safe(text: str) -> str:
    """Strings from models and data stay text: neither HTML nor Markdown, on one line."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", escaped)
