"""The chapter of projections: what less bias costs, with the recipe of every setting."""

from __future__ import annotations

import tomllib

from levelhead.report.blocks import Block, Frontier, Section, Shown
from levelhead.report.charts import page as charts
from levelhead.report.charts.base import Chart
from levelhead.report.contents import BASE, Contents
from levelhead.report.tables import Cell, Part, Table, interval, number, part, probability, words
from levelhead.results.folder import Row

_POINTS = 0.05 + 1e-9  # as in measures/fairness.py: 0.8889 - 0.05 in floats is not 0.8389
_NSP = charts.Axes(
    "frontier-next-sentences",
    "Next sentences: bias against sense",
    "Strength (0 is best)",
    "LMS",
    "Left and up is better.",
)
_NLI = charts.Axes(
    "frontier-inferences",
    "Inferences: fairness against ability",
    "Fairness (1 is best)",
    "Ability",
    "Right and up is better.",
)

_SEAT = charts.Axes(
    "frontier-words",
    "Word association against fluency",
    "|SEAT| (0 is best)",
    "perplexity, ratio to before (1 is best)",
    "Left and down is better.",
)
_AXES = {"strength": _NSP, "fairness": _NLI, "|seat|": _SEAT}


def sweep_section(contents: Contents) -> Section | None:
    """The trade of bias for ability: frontiers with recipes, and every setting in a table."""
    drawn, recipes = _candidates(contents, "")
    more, others = _candidates(contents, "nli ")
    drawn, recipes = [*drawn, *more], [*recipes, *others]
    rows = [row for key in ("nsp", "nli", "depth nsp", "depth nli") for row in contents.rows(key, "sweep")]
    if rows:
        kept = {row["variant"]: row["viable"] for row in rows if "viable" in row}
        drawn = [
            charts.frontier(points, axes)
            for axes, bias, use in ((_NLI, "fairness", "ability"), (_NSP, "strength", "lms"))
            if (points := _points(rows, bias, use, kept if use == "ability" else None))
        ]
        recipes = _recipes(contents, rows)
    if not drawn and not rows:
        return None
    blocks: list[Block] = [Frontier(drawn, recipes)] if drawn else []
    if rows:
        blocks.append(Shown(_settings_table(rows)))
    blocks += _paper_tables(contents)
    lead = (
        "Each point is the model with one way of projecting gender out of it. Color is the level at which that is "
        "done; triangles lose too much ability. Choose a point, or a setting from the list, for its recipe."
    )
    return Section("sweep", "What less bias costs", lead, blocks)


def _candidates(contents: Contents, prefix: str) -> tuple[list[Chart], list[Row]]:
    """The projections that an audit tried, on the model or on its classifier."""
    found = contents.rows(f"{prefix}candidates")
    rows = [r for r in found if r["bias"]["value"] is not None and r["ability"]["value"] is not None]
    if not rows:
        return [], []
    bias, use = rows[0]["bias"]["name"], rows[0]["ability"]["name"]
    points = [
        {
            "setting": f"{prefix}{r['variant']}",
            "level": r["level"],
            "bias": r["bias"]["value"],
            "use": r["ability"]["value"],
            "usable": "lost" if r["viable"] is False else "kept",
        }
        for r in rows
    ]
    axes = _AXES.get(bias, charts.Axes("frontier", f"{bias} against {use}", bias, use, ""))
    recipes = [{"name": f"{prefix}{r['variant']}", "recipe": r.get("recipe") or ""} for r in rows]
    return [charts.frontier(points, axes)], recipes


def _points(rows: list[Row], bias: str, use: str, kept: dict[str, bool | None] | None) -> list[Row]:
    """kept: settings that keep the classifier's ability; without it, those at most 5 points below the base in
    `use`."""
    levels = {row["variant"]: row["level"] for row in rows}
    values = {(row["variant"], row["name"]): row["value"] for row in rows}
    known = [name for name in levels if None not in (values.get((name, bias)), values.get((name, use)))]
    if kept is None:
        floor = (values.get((BASE, use)) or 0.0) - _POINTS
        kept = {name: values[name, use] >= floor for name in known}
    return [
        {
            "setting": name,
            "level": levels[name],
            "bias": values[name, bias],
            "use": values[name, use],
            "usable": "lost" if kept.get(name) is False else "kept",
        }
        for name in known
    ]


def _recipes(contents: Contents, rows: list[Row]) -> list[Row]:
    """Recipe files are found by their title, which is the setting's name."""
    texts = {}
    for path in sorted((contents.parts["sweep"].folder / "recipes").glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        texts[str(tomllib.loads(text).get("title", path.stem))] = text
    names = dict.fromkeys(row["variant"] for row in rows)
    return [{"name": name, "recipe": texts.get(name, "")} for name in names]


def _settings_table(rows: list[Row]) -> Table:
    names = list(dict.fromkeys(row["name"] for row in rows))
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["variant"], {})[row["name"]] = row
    viable = {True: "yes", False: "no", None: "not measured"}
    body = []
    for setting, own in found.items():
        any_row = next(iter(own.values()))
        kept = next((viable[row["viable"]] for row in own.values() if "viable" in row), "")
        cells = [number(own[name], "value", 4) if name in own else words(None) for name in names]
        body.append([words(setting, any_row["code"]), words(any_row["level"]), *cells, words(kept)])
    columns = ("Setting", "Level", *names, "Ability kept")
    note = "Small print: the paper’s tuple (n11, c11, n12, c12, np)."
    return Table("settings", f"All {len(found)} settings", columns, body, note, folded=True)


def _paper_tables(contents: Contents) -> list[Block]:
    blocks: list[Block] = []
    if rho := contents.rows("correlation", "sweep"):
        row = rho[0]
        told = [number(row, "value"), interval(row), number(row, "n"), probability(row, "details.p_value")]
        note = "Negative: settings with less intrinsic bias are fairer downstream."
        columns = ("Strength and fairness over all settings", "Value", "95 % interval", "Settings", "p")
        blocks.append(
            Shown(
                Table(
                    "correlation",
                    "Does intrinsic bias predict fairness?",
                    columns,
                    [[words("Spearman’s rho"), *told]],
                    note,
                )
            )
        )
    if seen := contents.rows("observations", "sweep"):
        body = [
            [
                words(row["observation"]),
                words("yes" if row["holds"] else "no"),
                Cell(
                    (part(row, "agree"), Part(" of "), part(row, "cases")),
                    f"{row['agree']} of {row['cases']}",
                ),
                words(row["paper"]),
            ]
            for row in seen
        ]
        named = ("Observation of the paper", "Holds here", "Here", "Paper")
        blocks.append(Shown(Table("observations", "The paper’s observations on these models", named, body)))
    return blocks
