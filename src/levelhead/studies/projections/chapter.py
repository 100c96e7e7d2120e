"""The chapter of projections: what less bias costs, with the recipe of every setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from levelhead.errors import BadRun, CannotDo
from levelhead.inference.contents import Contents
from levelhead.measures.fairness import viable
from levelhead.pages.blocks import Block, Frontier, Points, Section, SettingRecipe, Shown
from levelhead.pages.charts.base import Chart
from levelhead.pages.charts.frontier import Axes, FrontierPoint, cross_of, frontier
from levelhead.pages.names import names_of
from levelhead.pages.tables import Cell, Part, Table, interval, number, probability, shown, words
from levelhead.probes.files import parse_toml
from levelhead.runs.common import BASE
from levelhead.studies.projections import TABLE5, TABLE7, Projections
from levelhead.studies.projections.records import DEPTH_LEVEL, SettingMeasured, fairest_viable

_NSP = Axes(
    "frontier-next-sentences",
    "Next sentences: bias against sense",
    "Strength (0 is best)",
    "Language sense (LMS; 1 is best)",
    "Left and up is better.",
)
_NLI = Axes(
    "frontier-inferences",
    "Inferences: fairness against ability",
    "Fairness (1 is best)",
    "Ability",
    "Right and up is better.",
)


def chapters(contents: Contents) -> list[Section]:
    """The trade of bias for ability: frontiers with recipes, and every setting in a table."""
    run = contents.projections
    if run is None:
        return []
    blocks: list[Block] = []
    if charts := _charts(run):
        # a recipe's title is the name of its setting
        files = run.recipe_texts.items()
        titled = (
            (parse_toml(path, text, "Run the study again.", BadRun).get("title"), text)
            for path, text in files
        )
        texts = {str(title): text for title, text in titled}
        levels, names = {each.variant: each.level for each in run.measured}, names_of(contents)
        recipes = [
            SettingRecipe(each, names.short(each), levels[each], texts.get(each, "")) for each in levels
        ]
        blocks.append(Frontier(charts, recipes))
    if run.measured:
        blocks.append(Shown(_settings_table(contents, run.measured)))
    if best := TABLE5.read(run.folder):
        # the fairest viable setting of the paper's, and of all
        tried, said = TABLE7.read(run.folder), []
        of_paper = [each for each in tried if each.level != DEPTH_LEVEL]
        for name, own in (("the paper’s 74", of_paper), ("all that was tried", tried)):
            fairest, text = fairest_viable(own), "none"
            if fairest is not None:
                text = f"{fairest.setting} (fairness {shown(fairest.fairness or 0.0)})"
            said.append(words(f"Fairest viable of {name}: {text}"))
        lines = []
        for level in best:
            cells = [
                replace(number(getattr(level, name)), small=getattr(level, f"{name}_setting") or "")
                for name in ("strength", "distance", "fairness")
            ]
            lines.append([words(level.level), *cells, number(level.ability), words(level.viable)])
        measures = ("Level", "Strength", "Distance", "Fairness", "Ability", "Viable")
        note = (
            "The lowest Strength, the lowest Distance and, of the viable settings, the highest fairness with "
            "its ability. Viable: an ability, as measured, at most 5 points below the unmodified model’s."
        )
        table = Table("levels", "Best of each level (Table 5)", measures, lines, note)
        blocks += [Shown(table), Points(said)]
    if (rho := run.correlation) is not None:
        at = contents.address(rho)
        line = [words("Spearman’s rho"), number(rho.value, at), interval(rho, at), number(rho.n, at)]
        line.append(probability(rho.details.get("p_value"), at))
        columns = ("Strength and fairness over all settings", "Value", "95 % interval", "Settings", "p")
        note = "Negative: settings with less intrinsic bias are fairer downstream."
        caption = "Does intrinsic bias predict fairness?"
        blocks.append(Shown(Table("correlation", caption, columns, [line], note)))
    if run.observations:
        lines = []
        for each in run.observations:
            at = contents.address(each)
            parts = (Part(shown(each.agree), at), Part(" of "), Part(shown(each.cases), at))
            counted = Cell(parts, f"{each.agree} of {each.cases}")
            holds = words("no case" if each.holds is None else "yes" if each.holds else "no")
            lines.append([words(each.observation), holds, counted, words(each.paper)])
        header = ("Observation of the paper", "Holds here", "Here", "Paper")
        caption = "The paper’s observations on these models"
        blocks.append(Shown(Table("observations", caption, header, lines)))
    question = "How much ability does less bias cost, and is there a setting that is worth it?"
    how = (
        "Each point is the model with one way of projecting the groups’ difference out of it. Color is the "
        "level at which that is done; triangles lose too much ability; a ring marks the chosen one. The gray "
        "cross is the unmodified model with its 95 % intervals on all items: what lies inside it hardly "
        "differs from it. Choose a point, or a setting from the list, for its recipe."
    )
    return [Section(Projections.name, Projections.title, question, how, blocks)]


def _charts(run: Projections) -> list[Chart]:
    """What each setting buys and costs, on the classifier and on the next-sentence model."""
    values = {(each.variant, each.measurement.name): each.measurement for each in run.measured}
    charts = []
    for axes, bias, use in ((_NLI, "fairness", "ability"), (_NSP, "strength", "lms")):
        base, points = values.get((BASE, use)), []
        # in ability, the study's own judgment stands before the bare rule
        judged = {each.variant: each.viable for each in run.measured if each.measurement.name == use}
        for name, level in {each.variant: each.level for each in run.measured}.items():
            less, left = values.get((name, bias)), values.get((name, use))
            if less is None or less.value is None or left is None or left.value is None:
                continue
            kept = judged[name]
            if kept is None:
                kept = viable(left.value, None if base is None else base.value)
            points.append(FrontierPoint(name, level, less.value, left.value, kept is not False))
        if points:
            cross = None
            if base is not None:
                cross = cross_of(values.get((BASE, bias)), base.value, base.interval)
            charts.append(frontier(points, axes, cross))
    return charts


def _settings_table(contents: Contents, measured: Sequence[SettingMeasured]) -> Table:
    """One line a setting, one column a measure."""
    names = list(dict.fromkeys(each.measurement.name for each in measured))
    settings: dict[str, dict[str, SettingMeasured]] = {}
    for each in measured:
        settings.setdefault(each.variant, {})[each.measurement.name] = each
    lines = []
    for setting, own in settings.items():
        first = next(iter(own.values()))
        kept = next((each.viable for each in own.values() if each.viable is not None), None)
        line = [words(setting, first.code, setting), words(first.level)]
        for name in names:
            value = own.get(name)
            at = "" if value is None else contents.address(value)
            line.append(words(None) if value is None else number(value.measurement.value, at, 4))
        lines.append([*line, words(None if kept is None else "yes" if kept else "no")])
    columns = ("Setting", "Level", *names, "Ability kept")
    note = "Small print: the paper’s tuple (n11, c11, n12, c12, np)."
    return Table("settings", f"All {len(settings)} settings", columns, lines, note, folded=True)


# ---- its chart


def chart(run: Projections) -> Chart:
    """What each setting buys and costs, on the classifier."""
    if not (charts := _charts(run)):
        raise CannotDo(f"{run.folder} has no setting with bias and ability measured: nothing to plot.")
    return charts[0]


def found(contents: Contents) -> str:
    """The sentence of the chapter."""
    run = contents.projections
    return "" if run is None else f"{len({each.variant for each in run.measured})} settings were measured."
