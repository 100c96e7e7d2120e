"""The chapter of CounterActs: what a sentence of knowledge before a question does."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import altair as alt

from levelhead.errors import BadRun
from levelhead.inference.claims import valued
from levelhead.inference.contents import Contents
from levelhead.inference.fill_in import corrected, tested
from levelhead.inference.headline import headline_claims
from levelhead.measures.log_odds import CHANGE as LOG_ODDS_CHANGE
from levelhead.measures.log_odds import NAME as LOG_ODDS
from levelhead.pages.blocks import Block, Drawn, Section, Shown
from levelhead.pages.charts.base import (
    Chart,
    Control,
    Point,
    chart_of,
    data_of,
    figure,
    following,
    page_spec,
    write_svgs,
)
from levelhead.pages.examples import kind_examples, knowledge_example
from levelhead.pages.tables import Cell, Part, Table, bounded, measured, null_cells, number, shown, words
from levelhead.runs.common import BASE
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.counteracts.records import ClozeCell

_BARE = "no knowledge"  # the base prompt, which has none before it
_VERDICTS = {  # colors of what knowledge does to the stereotype
    "strengthens": "$biased",
    "weakens": "$regular",
    "overturns": "$good",
    "no change": "$muted",
    "not more than in null models": "$muted",
    "too few null models": "$faint",
    "untested": "$faint",
    "not measured": "$faint",
    "without knowledge": "$ink",
}
_PANEL = 190  # pixels: the width of one model among several
_LINE = 18  # letters in a line of a kind's name


def chapters(contents: Contents) -> list[Section]:
    """CounterActs: log-odds and their verdicts first, then the paper's masses and margins for every k; none
    where no knowledge was told, as in a first look."""
    run = contents.counteracts
    if run is None or not run.cells or set(run.settings.kinds) <= {BASE}:
        return []
    controls = prompt_controls(run)
    # verdicts corrected for all claims of the page
    claims = [] if contents.audit is None else headline_claims(contents.audit)
    cells = corrected(run, {name: holds for name, _, holds in claims})
    blocks: list[Block] = []
    if prompts := kind_examples(run):  # what the names of the kinds mean; prompts that do not ship have none
        expected = {cell.kind: cell.expected for cell in run.knowledge()}
        lines = [[words(kind), words(text), words(expected.get(kind))] for kind, text in prompts.items()]
        note = "Expected: what such a sentence is meant to do to the stereotype."
        columns = ("Knowledge", "For example", "Expected")
        blocks.append(Shown(Table("kinds", "The kinds of knowledge", columns, lines, note)))
    charts = prompt_charts(run, cells, controls)
    blocks.append(Drawn(charts, controls))
    blocks += _tables(contents, run, cells)
    question = "Does the model change its mind when it is told something first?"
    how = (
        f"The model fills in a {' or '.join(run.settings.groups)} word "
        f"({run.settings.n_prompts:,} prompts), first bare and then after a sentence of knowledge. Log-odds "
        "say how much the odds of all words of the two groups follow the stereotype of the occupation; "
        "what knowledge does to them is compared with null models. The margin, the paper’s number, "
        "counts the k likeliest tokens only. Dashed lines: without knowledge."
    )
    return [Section(Counteracts.name, Counteracts.title, question, how, blocks, knowledge_example(contents))]


def _tables(contents: Contents, run: Counteracts, cells: Iterable[ClozeCell]) -> list[Block]:
    """One line for each model and kind of knowledge, over all occupations; then the paper's numbers, for each
    k too."""
    pairs = [
        (stored, cell) for stored, cell in zip(run.cells, cells, strict=True) if cell.name == LOG_ODDS_CHANGE
    ]
    several = len({model_shown(cell) for _, cell in pairs}) > 1
    lines = []
    for stored, cell in pairs:
        at = contents.address(stored)
        floor, _, p = null_cells(cell.measurement.null if tested(stored) else None, at)
        change = [_from_to(cell, "reached", at), bounded(cell.measurement, at), floor, p]
        named = words(cell.kind, model_shown(cell) if several else "")
        lines.append([named, *change, words(cell.verdict), words(cell.expected)])
    columns = (
        *("Knowledge", "Log-odds without → with", "Change", "Null models", "p"),
        *("The stereotype", "Expected"),
    )
    note = (
        "Null models: the change in models whose words mean nothing; p: against that. The word for what "
        "happens to the stereotype is corrected for all claims of this page; no change: the interval holds "
        "0; not more than in null models: null models change as much. Untested: none was evaluated."
    )
    caption = "What each kind of knowledge does to the odds"
    odds = Table("log-odds", caption, columns, lines, note)
    whole = [cell for cell in run.cells if not cell.group]
    several = len({model_shown(cell) for cell in whole}) > 1
    silent = {
        (model_shown(cell), cell.k, cell.kind): cell
        for cell in whole
        if cell.name == "share without group words"
    }
    lines = []
    for cell in (cell for cell in whole if cell.name == "margin change"):
        at, quiet = contents.address(cell), silent.get((model_shown(cell), cell.k, cell.kind))
        share = words(None)
        if quiet is not None:
            share = number(quiet.measurement.value, contents.address(quiet), digits=2)
        line = [words(cell.kind, model_shown(cell) if several else ""), number(cell.k, at)]
        line += [_from_to(cell, "margin", at), measured(cell.measurement, at)]
        lines.append([*line, words(cell.verdict), words(cell.expected), share])
    columns = ("Knowledge", "k", "Margin without → with", "Change", "The stereotype", "Expected", "Silent")
    note = (
        "Silent: share of prompts without a word of either group among the top k. No change: the interval "
        "holds 0; these words are not compared with null models."
    )
    caption = "What each kind of knowledge does to the likeliest tokens"
    return [Shown(odds), Shown(Table("knowledge", caption, columns, lines, note, folded=True))]


def _from_to(cell: ClozeCell, reached: str, at: str) -> Cell:
    """The number without knowledge and with it; reached is the name of the detail that holds the second."""
    before, after = (cell.measurement.details.get(name) for name in ("base", reached))
    if before is None or after is None:
        return words(None)
    parts = (Part(shown(before), at), Part(" → "), Part(shown(after), at))
    return Cell(parts, f"{before!r} → {after!r}", True)


# ---- its chart


def chart(run: Counteracts) -> Chart:
    """Log-odds after each kind of knowledge, with intervals and verdicts."""
    return log_odds_panels(run, corrected(run, {}))


def found(contents: Contents) -> str:
    """The sentence of the chapter."""
    cell = None if contents.counteracts is None else contents.counteracts.log_odds()
    if cell is None or cell.measurement.value is None:
        return ""
    return f"Without knowledge the log-odds toward the stereotype are {valued(cell.measurement)}."


@dataclass(frozen=True)
class _Level:
    """A number that knowledge moves, and the name of its change."""

    name: str
    change: str
    title: str  # of the axis


_LOG_ODDS = _Level(LOG_ODDS, LOG_ODDS_CHANGE, "stereotype log-odds")
_MARGIN = _Level("margin", "margin change", "margin")


def model_shown(cell: ClozeCell) -> str:
    """The model, and what was changed in it."""
    return cell.model if cell.variant == BASE else f"{cell.model}, {cell.variant}"


# ---- for the page


def prompt_controls(run: Counteracts) -> list[Control]:
    """Which k, and which model or variant, the charts show."""
    settings, models = run.settings, _models(run)
    ks = [(k, f"k = {k}") for k in settings.ks]
    controls = [Control("k", "Likeliest tokens that count (k)", ks, settings.shown_k)]
    if len(models) > 1:
        controls.append(Control("who", "Model", [(model, model) for model in models], models[0]))
    return controls


def prompt_charts(run: Counteracts, cells: Sequence[ClozeCell], controls: Sequence[Control]) -> list[Chart]:
    """Log-odds and margins with intervals and verdicts, and the mass of either group's words for each group
    of occupations. cells: with the verdicts of log-odds that are to be shown."""
    groups, names = run.settings.groups, [_kind(kind) for kind in run.settings.kinds]
    short = json.dumps({name: textwrap.wrap(name, _LINE) for name in names})  # for narrow pages
    kinds = _kinds(run).axis(alt.Axis(labelExpr=f"{short}[datum.label]", labelLimit=400))
    of_all_words = [control for control in controls if control.signal != "k"]
    about_odds = (
        "How much the odds of the two groups' words follow the stereotype after each kind of knowledge, "
        "with intervals."
    )
    about_margins = (
        "Margin between the stereotyped group's words and the other's after each kind of knowledge, "
        "with intervals."
    )
    odds = Chart("log-odds", "Does knowledge change the odds?", about_odds, {})
    margins = Chart("margins", "Does knowledge change the likeliest answers?", about_margins, {})
    drawn = [
        (odds, _level_marks(cells, kinds, _LOG_ODDS), of_all_words, 36),
        (margins, _level_marks(run.cells, kinds, _MARGIN), controls, 36),
    ]
    for group in groups:
        about = (
            f"Probability of {' and '.join(groups)} words after each kind of knowledge, {group} occupations."
        )
        chart = Chart(f"masses-{group}", f"Answers about {group} occupations", about, {})
        of_group = [cell for cell in run.cells if cell.group == group]
        drawn.append((chart, _mass_marks(of_group, groups, kinds), controls, 34))
    return [
        replace(
            chart,
            spec=page_spec(following(marks, own), chart.alt_text, pixels * len(names)),
            follows=[control.signal for control in own],
        )
        for chart, marks, own, pixels in drawn
    ]


# ---- models side by side, as SVG files


def figures(folder: str | Path) -> list[Path]:
    """Draw every figure of a run into RUN/figures; the paths of the SVG files."""
    run = Counteracts.open(folder)
    if not run.cells:
        raise BadRun(f"{folder} has no results yet. Run the same `levelhead counteracts` command again.")
    prompts = f"{run.settings.n_prompts:,} prompts of {run.settings.prompts}"
    about = (
        "stereotype log-odds over all words of both groups, with 95 % intervals; dashed: without knowledge; "
        f"verdicts against null models, corrected for their number; {prompts}"
    )
    drawings = {"counteracts-log-odds": figure(log_odds_panels(run, corrected(run, {})), about)}
    for k in run.settings.ks:
        about = f"mean probability mass among the {k} likeliest tokens; {prompts}"
        drawings[f"counteracts-masses-k{k}"] = figure(mass_panels(run, k), about)
    for k in run.settings.ks:
        about = (
            f"margin: mass of the stereotyped group's words minus the other's, top {k}, with 95 % intervals; "
            f"dashed: without knowledge; {prompts}"
        )
        drawings[f"counteracts-margins-k{k}"] = figure(margin_panels(run, k), about)
    return write_svgs(run.folder, drawings)


def log_odds_panels(run: Counteracts, cells: Sequence[ClozeCell]) -> Chart:
    """The log-odds of every model and variant; cells hold the verdicts to be shown."""
    spec = _panels(run, _level_marks(cells, _kinds(run), _LOG_ODDS), 24)
    alt_text = "Log-odds of every model after each kind of knowledge, with intervals."
    return Chart("counteracts-log-odds", "Does knowledge change the odds?", alt_text, spec)


def margin_panels(run: Counteracts, k: int) -> Chart:
    """The margins of every model and variant."""
    cells = [cell for cell in run.cells if cell.k == k]
    spec = _panels(run, _level_marks(cells, _kinds(run), _MARGIN), 24)
    alt_text = f"Margins of every model after each kind of knowledge, top {k}, with intervals."
    return Chart(f"counteracts-margins-k{k}", "Does knowledge change the answer?", alt_text, spec)


def mass_panels(run: Counteracts, k: int) -> Chart:
    """The masses of every model and variant, the two groups of occupations one above the other."""
    groups = run.settings.groups
    cells = [cell for cell in run.cells if cell.k == k and cell.group]
    sides = alt.Row("occupations:N", sort=[f"{group} occupations" for group in groups], title=None)
    spec = _panels(run, _mass_marks(cells, groups, _kinds(run)), 28, row=sides)
    both = " and ".join(groups)
    alt_text = f"Probability of {both} words after each kind of knowledge, top {k}, every model."
    title = f"How likely {both} words are after each kind of knowledge"
    return Chart(f"counteracts-masses-k{k}", title, alt_text, spec)


def _panels(run: Counteracts, marks: Any, height: int, **row: alt.Row) -> Mapping[str, Any]:
    """Marks drawn once per model; height: pixels of a kind of knowledge."""
    marks = marks.properties(width=_PANEL, height=height * len(run.settings.kinds))
    column = alt.Column("who:N", sort=_models(run), title=None)
    spec: Mapping[str, Any] = marks.facet(column=column, **row).to_dict()
    return spec


# ---- what both show


def _level_marks(cells: Iterable[ClozeCell], kinds: alt.Y, level: _Level) -> Any:
    whole = [cell for cell in cells if not cell.group]
    place = attrgetter("k", "model", "variant", "kind")
    verdicts = {place(cell): cell.verdict for cell in whole if cell.name == level.change}
    points: list[Point] = []
    for cell in whole:
        value = cell.measurement.value
        if cell.name == level.name and value is not None:
            low, high = cell.measurement.interval or (value, value)
            verdict = verdicts.get(place(cell), "without knowledge")
            drawn: Point = {
                "level": value,
                "low": low,
                "high": high,
                "bare": cell.kind == BASE,
                "verdict": verdict,
            }
            points.append({**_labels(cell), **drawn})
    base: Any = alt.Chart()
    scale = alt.Scale(domain=list(_VERDICTS), range=list(_VERDICTS.values()))
    color = alt.Color("verdict:N", scale=scale, title="the stereotype")
    origin = base.transform_calculate(zero="0").transform_aggregate(zero="min(zero)")
    zero = origin.mark_rule(color="$muted").encode(x="zero:Q")
    bare = base.transform_filter("datum.bare").mark_rule(color="$ink", strokeDash=[4, 4]).encode(x="level:Q")
    low_end = alt.X("low:Q", title=level.title)
    bars = base.mark_rule(strokeWidth=2.5).encode(y=kinds, x=low_end, x2="high:Q", color=color)
    exact = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("low", "high")]
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(
        y=kinds,
        x=alt.X("level:Q", title=level.title),
        color=color,
        tooltip=[
            *("kind:N", alt.Tooltip("level:Q", title=level.title, format=".4f")),
            *(*exact, "verdict:N", "n:Q"),
        ],
    )
    return alt.layer(zero, bare, bars, dots, data=data_of(points))


def _mass_marks(cells: Iterable[ClozeCell], groups: tuple[str, str], kinds: alt.Y) -> Any:
    names = {f"{group} mass": group for group in groups}
    points: list[Point] = []
    for cell in cells:
        if cell.name in names and cell.measurement.value is not None:
            drawn: Point = {"words": names[cell.name], "mass": cell.measurement.value}
            points.append({**_labels(cell), "occupations": f"{cell.group} occupations", **drawn})
    order = list(groups)
    scale = alt.Scale(domain=order, range=["$female", "$male"])
    bars = chart_of(points).mark_bar()
    return bars.encode(
        y=kinds,
        yOffset=alt.YOffset("words:N", sort=order),
        x=alt.X("mass:Q", title="probability among the top k"),
        color=alt.Color("words:N", sort=order, title="words", scale=scale),
        tooltip=["kind:N", "words:N", alt.Tooltip("mass:Q", format=".4f"), "n:Q"],
    )


def _labels(cell: ClozeCell) -> Point:
    return {"k": cell.k, "who": model_shown(cell), "kind": _kind(cell.kind), "n": cell.measurement.n}


def _models(run: Counteracts) -> list[str]:
    return list(dict.fromkeys(model_shown(cell) for cell in run.cells))


def _kind(kind: str) -> str:
    return _BARE if kind == BASE else kind


def _kinds(run: Counteracts) -> alt.Y:
    """Kinds of knowledge from top to bottom, in the order of asking."""
    order = [_kind(kind) for kind in run.settings.kinds]
    return alt.Y("kind:N", sort=order, title=None, axis=alt.Axis(labelLimit=260))
