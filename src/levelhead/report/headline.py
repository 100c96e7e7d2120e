"""What an audit found, in plain words that claim no more than the numbers show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from levelhead.results.folder import RunData

Row = Mapping[str, Any]
Measured = Mapping[str, Mapping[str, Row]]  # variant -> measure -> row


def headline(run: RunData, heads: RunData | None) -> dict[str, Any]:
    """One or two sentences with their uncertainty, and the findings one by one."""
    measured = measured_rows(run)
    base = measured["base"]
    name = str(run.settings["model"])
    findings = [*_base_findings(name, base), *_head_findings(heads), *_mitigation_findings(run, measured)]
    skipped = [f"{row['name']} ({row['reason']})" for row in base.values() if row["value"] is None]
    if skipped:
        findings.append(f"Not measured: {'; '.join(skipped)}.")
    return {"text": " ".join([_opening(name, base), *_best_step(run, measured)]), "findings": findings}


def measured_rows(run: RunData) -> dict[str, dict[str, Row]]:
    """Rows of an audit's measure and verify results: variant -> measure -> row."""
    found: dict[str, dict[str, Row]] = {}
    for key, rows in run.results.items():
        if key.startswith(("measure/", "verify/")):
            for row in rows:
                found.setdefault(row["variant"], {})[row["name"]] = row
    return found


def valued(row: Row, digits: int = 2) -> str:
    """`0.93 [0.85, 1.01]`, or why there is no number."""
    if row["value"] is None:
        return f"not measured ({row['reason']})"
    if row["interval"] is None:
        return f"{row['value']:.{digits}f}"
    low, high = row["interval"]
    return f"{row['value']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def clear_of(row: Row, neutral: float) -> bool:
    """Whether the interval excludes the neutral value."""
    if row["value"] is None or row["interval"] is None:
        return False
    low, high = row["interval"]
    return not low <= neutral <= high


def _opening(name: str, base: Mapping[str, Row]) -> str:
    row = base.get("seat")
    if row is None or row["value"] is None:
        return f"{name}: the association of gender with stereotypes was not measured."
    p = row["details"].get("p_value")
    sure = "associates" if clear_of(row, 0.0) else "shows no clear association of"
    said = f"{name} {sure} gender with stereotypes: SEAT {valued(row)} (0 is none, 2 the most"
    return said + (f"; p {_p(p)})." if p is not None else ").")


def _best_step(run: RunData, measured: Measured) -> list[str]:
    """What the first way out, closing heads, did to SEAT, and at what cost."""
    base = measured["base"].get("seat")
    for row in run.results.get("mitigate", []):
        after = measured.get(row["variant"], {}).get("seat")
        if not row["heads"] or base is None or after is None or None in (base["value"], after["value"]):
            continue
        cost = measured[row["variant"]].get("fluency change")
        verb = "lowers" if abs(after["value"]) < abs(base["value"]) else "does not lower"
        said = f"Removing heads {_listed(row['heads'])} {verb} it: {valued(after)}"
        return [f"{said}{_cost(cost)}."]
    return []


def _cost(row: Row | None) -> str:
    if row is None or row["value"] is None:
        return ""
    low, high = row["interval"] or (row["value"], row["value"])
    percent = f"{100 * (row['value'] - 1):+.1f} % [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]"
    return f", at a change of {percent} in perplexity"


def _base_findings(name: str, base: Mapping[str, Row]) -> list[str]:
    said = []
    for measure, neutral, sentence in (
        (
            "strength",
            0.0,
            "Next sentences: gender bias Strength {} on the most biased tenth of triples (0 is none).",
        ),
        (
            "ss",
            0.5,
            "It prefers the stereotypical next sentence in a share of {} of the triples (0.5 is even).",
        ),
        (
            "fairness",
            1.0,
            "Inferences about occupations: fairness {} (1 is fair: neutral for women and men alike).",
        ),
        (
            "margin",
            0.0,
            "Asked who works as what, it gives the stereotypical gender {} more probability (0 is even).",
        ),
    ):
        row = base.get(measure)
        if row is not None and row["value"] is not None:
            clear = "" if clear_of(row, neutral) else " The interval includes the neutral value."
            said.append(sentence.format(valued(row)) + clear)
    return said


def _head_findings(heads: RunData | None) -> list[str]:
    if heads is None or "scores" not in heads.results:
        return []
    rows = heads.results["scores"]
    biased = sum(row["score"] > 0 for row in rows)
    sure = sum(row["score"] > 0 and row["q"] is not None and row["q"] < 0.05 for row in rows)
    said = [f"{biased} of {len(rows)} heads add to the association, {sure} of them clearly (q < 0.05)."]
    said += [
        f"Scores against removing heads one by one: Spearman's rho {valued(row)} (1: the same order)."
        for row in heads.results.get("ablation", [])
        if row["value"] is not None
    ]
    for row in heads.results.get("counter", []):
        if row["value"] is not None and row["group"] == "biased":
            p = row["details"].get("p_value")
            holds = p is not None and p < 0.05
            found = "look less at the gender word" if holds else "do not clearly look less at the gender word"
            said.append(
                f"When a stereotype is turned around, biased heads {found} (p {_p(p)}, N = {row['n']})."
            )
            said[-1] += counter_sides(heads)
    return said


def counter_sides(heads: RunData) -> str:
    """A warning where the two sides of the counter-stereotype experiment contradict each other, or
    nothing."""
    rows = [
        row for row in heads.results.get("counter/sides", []) if row["group"] == "biased" and row["interval"]
    ]
    if len(rows) < 2:
        return ""
    signs = [(row["interval"][0] > 0) - (row["interval"][1] < 0) for row in rows]
    if signs[0] * signs[1] >= 0:
        return ""
    labels = heads.results["words"][0]["labels"]
    t = [row["details"]["t"] for row in rows]
    more = labels[0] if signs[0] > 0 else labels[1]
    return (
        f" Mind the sides: with {labels[0]} originals t is {t[0]:.1f}, with {labels[1]} ones {t[1]:.1f}; "
        f"these heads look at {more} words more, whatever is said."
    )


def _mitigation_findings(run: RunData, measured: Measured) -> list[str]:
    said = []
    for prefix in ("", "nli "):
        rows = run.results.get(f"{prefix}candidates", [])
        if not rows:
            continue
        chosen = next((row for row in rows if row["chosen"]), None)
        bias = rows[0]["bias"]["name"]
        tried = f"{len(rows) - 1} projections{' of the classifier' if prefix else ''}"
        if chosen is None:
            said.append(f"None of {tried} improves {bias} without losing too much ability.")
            continue
        before, after = rows[0], chosen
        said.append(
            f"Best viable of {tried} ({after['variant']}): {bias} {before['bias']['value']:.2f} → "
            f"{after['bias']['value']:.2f}, {after['ability']['name']} {before['ability']['value']:.2f} → "
            f"{after['ability']['value']:.2f}."
        )
    return said


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _p(value: float | None) -> str:
    if value is None:
        return "unknown"
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def notebook_html(text: str, findings: Sequence[str], measured: Measured) -> str:
    """An audit as a small table, for notebooks."""
    rows = "".join(
        f"<tr><th scope='row' style='text-align:left'>{escape(name)}</th><td>{escape(valued(row, 3))}</td>"
        f"<td>{row['n']}</td></tr>"
        for name, row in measured.get("base", {}).items()
    )
    points = "".join(f"<li>{escape(finding)}</li>" for finding in findings)
    head = "<tr><th>measure</th><th>value [95 % interval]</th><th>n</th></tr>"
    return f"<p><b>{escape(text)}</b></p><ul>{points}</ul><table>{head}{rows}</table>"
