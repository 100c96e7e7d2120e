"""The chapter of CounterActs: what a sentence of knowledge before a question does."""

from __future__ import annotations

from levelhead.report.blocks import Block, Drawn, Section, Shown
from levelhead.report.charts import page as charts
from levelhead.report.contents import Contents, shown_k
from levelhead.report.tables import Cell, Part, Table, measured, number, part, words
from levelhead.results.folder import Row


def knowledge_section(contents: Contents) -> Section | None:
    """CounterActs: charts for every k, verdicts in a table."""
    run = contents.parts.get("prompts")
    rows = [row for row in contents.matching("", "prompts") if "k" in row and not row.get("occupation")]
    k = shown_k(contents)
    if run is None or k is None or not rows:
        return None
    names = list(dict.fromkeys(charts.who(row) for row in rows))
    controls = charts.prompt_controls(list(run.settings["ks"]), k, names)
    groups = list(run.settings["groups"])
    blocks: list[Block] = [
        Drawn([charts.margins(rows, controls), *charts.masses(rows, groups, controls)], controls),
        Shown(_verdicts_table(rows, names)),
    ]
    lead = (
        f"The model is asked to fill in a {' or '.join(groups)} word ({run.settings['n_prompts']:,} prompts), first "
        "bare and then after a sentence of knowledge. The margin is the probability of the stereotyped group’s words "
        "minus the other group’s, among the k likeliest tokens. The dashed line is the margin without knowledge."
    )
    return Section("knowledge", "What a sentence before the question does", lead, blocks)


def _verdicts_table(rows: list[Row], names: list[str]) -> Table:
    shares = [row for row in rows if row["name"] == "share without group words" and not row["group"]]
    silent = {(charts.who(row), row["k"], row["kind"]): row for row in shares}
    body = []
    for row in rows:
        if row["name"] != "margin change" or row["group"]:
            continue
        quiet = silent.get((charts.who(row), row["k"], row["kind"]))
        body.append(
            [
                words(row["kind"], charts.who(row) if len(names) > 1 else ""),
                number(row, "k"),
                _from_to(row),
                measured(row),
                words(row["verdict"]),
                words(row.get("expected")),
                words(None) if quiet is None else number(quiet, "value", 2),
            ]
        )
    columns = ("Knowledge", "k", "Margin without → with", "Change", "The stereotype", "Expected", "Silent")
    note = "Silent: share of prompts without a word of either group among the top k. No change: the interval holds 0."
    return Table("knowledge", "What each kind of knowledge does", columns, body, note, folded=True)


def _from_to(row: Row) -> Cell:
    if row["value"] is None:
        return words(None)
    parts = (part(row, "details.base"), Part(" → "), part(row, "details.margin"))
    return Cell(parts, f"{row['details']['base']!r} → {row['details']['margin']!r}", True)
