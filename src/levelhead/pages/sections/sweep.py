"""The chapter of projections: what less bias costs, with the recipe of every setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from levelhead.errors import BadRun
from levelhead.inference.contents import Contents, measurements
from levelhead.inference.fairest import fairest_viable, of_the_paper
from levelhead.measures.measurement import Measurement
from levelhead.measures.viability import viable
from levelhead.pages.blocks import Block, Frontier, Points, Section, SettingRecipe, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts.base import Chart
from levelhead.pages.charts.frontier import Axes, Cross, FrontierPoint, cross_of, frontier
from levelhead.pages.names import NLI, names_of
from levelhead.pages.tables import Cell, Part, Table, interval, number, probability, shown, words
from levelhead.probes.files import parse_toml
from levelhead.results import layout
from levelhead.results.records.audit import ProjectionCandidate
from levelhead.results.records.common import BASE
from levelhead.results.records.projections import (
    Observation,
    SettingMeasured,
    Table5Line,
    Table7Line,
)
from levelhead.results.runs import SweepRun

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
_SEAT = Axes(
    "frontier-words",
    "Word association against fluency",
    "|SEAT| (0 is best)",
    "perplexity, ratio to before (1 is best)",
    "Left and down is better.",
)
_AXES = {"strength": _NSP, "fairness": _NLI, "|seat|": _SEAT}  # by the measure of bias


def sweep_section(contents: Contents) -> Section | None:
    """The trade of bias for ability: frontiers with recipes, and every setting in a table."""
    blocks = (
        _candidate_blocks(contents) if contents.sweep is None else _sweep_blocks(contents, contents.sweep)
    )
    if not blocks:
        return None
    question = "How much ability does less bias cost, and is there a setting that is worth it?"
    how = (
        "Each point is the model with one way of projecting the groups’ difference out of it. Color is the "
        "level at which that is done; triangles lose too much ability; a ring marks the chosen one. The gray "
        "cross is the unmodified model with its 95 % intervals on all items: what lies inside it can hardly "
        "be told from it. Choose a point, or a setting from the list, for its recipe."
    )
    return Section(Chapter.SWEEP, "What less bias costs", question, how, blocks)


# ---- an audit's candidates


def _candidate_blocks(contents: Contents) -> list[Block]:
    """The projections that an audit tried, on the model and on its classifier."""
    if contents.audit is None:
        return []
    charts: list[Chart] = []
    recipes: list[SettingRecipe] = []
    names = names_of(contents)
    for prefix, candidates in (("", contents.audit.candidates), (NLI, contents.audit.nli_candidates)):
        points = [point for each in candidates if (point := _candidate_point(each, prefix)) is not None]
        if points:
            charts.append(frontier(points, _axes(candidates[0]), _untouched(contents, candidates[0])))
            texts = {f"{prefix}{each.variant}": each.recipe for each in candidates}
            whose = "classifier: " if prefix else ""
            recipes += [
                SettingRecipe(
                    point.setting,
                    names.short(point.setting),
                    f"{whose}{point.level}",
                    texts[point.setting],
                    point.chosen,
                )
                for point in points
            ]
    return [Frontier(charts, recipes)] if charts else []


def _untouched(contents: Contents, base: ProjectionCandidate) -> Cross | None:
    """The unmodified model on all items, with its intervals; ability without one stays where it was tried."""
    known = {each.name: each.measurement for each in measurements(contents)}
    bias, use = known.get(base.bias.name.strip("|")), known.get(base.ability.name)
    level = base.ability.value if use is None or use.value is None else use.value
    return cross_of(bias, level, None if use is None else use.interval, base.bias.name.startswith("|"))


def _candidate_point(candidate: ProjectionCandidate, prefix: str) -> FrontierPoint | None:
    """None where bias or ability was not measured."""
    bias, use = candidate.bias.value, candidate.ability.value
    if bias is None or use is None:
        return None
    return FrontierPoint(
        f"{prefix}{candidate.variant}", candidate.level, bias, use, candidate.viable, candidate.chosen
    )


def _axes(candidate: ProjectionCandidate) -> Axes:
    bias, use = candidate.bias.name, candidate.ability.name
    return _AXES.get(bias, Axes("frontier", f"{bias} against {use}", bias, use, ""))


# ---- a sweep


def _sweep_blocks(contents: Contents, run: SweepRun) -> list[Block]:
    if not run.measured:
        return []
    blocks: list[Block] = []
    if charts := sweep_charts(run):
        blocks.append(Frontier(charts, _recipes(contents, run)))
    blocks.append(Shown(_settings_table(contents, run.measured)))
    if best := layout.TABLE5.read(run.folder):
        blocks += [Shown(_levels_table(best)), Points(_fairest(layout.TABLE7.read(run.folder)))]
    if run.correlation is not None:
        blocks.append(Shown(_correlation_table(run.correlation, contents.address(run.correlation))))
    if run.observations:
        blocks.append(Shown(_observations_table(contents, run.observations)))
    return blocks


def sweep_charts(run: SweepRun) -> list[Chart]:
    """What each setting buys and costs, on the classifier and on the next-sentence model."""
    base = {each.measurement.name: each.measurement for each in run.measured if each.variant == BASE}
    return [
        frontier(points, axes, _crossing(base.get(bias), base.get(use)))
        for axes, bias, use in ((_NLI, "fairness", "ability"), (_NSP, "strength", "lms"))
        if (points := _sweep_points(run.measured, bias, use))
    ]


def _crossing(bias: Measurement | None, use: Measurement | None) -> Cross | None:
    return None if use is None else cross_of(bias, use.value, use.interval)


def _sweep_points(measured: Sequence[SettingMeasured], bias: str, use: str) -> list[FrontierPoint]:
    """Settings that have both measures; in ability, the study's own judgment stands before the bare rule."""
    levels = {each.variant: each.level for each in measured}
    values = {(each.variant, each.measurement.name): each.measurement.value for each in measured}
    judged = {each.variant: each.viable for each in measured if each.measurement.name == use}
    points = []
    for name, level in levels.items():
        less, left = values.get((name, bias)), values.get((name, use))
        if less is None or left is None:
            continue
        kept = judged[name]
        if kept is None:
            kept = viable(left, values.get((BASE, use)))
        points.append(FrontierPoint(name, level, less, left, kept is not False))
    return points


def _recipes(contents: Contents, run: SweepRun) -> list[SettingRecipe]:
    """A recipe's title is the name of its setting."""
    tables = {path: parse_toml(path, text, "Sweep again.", BadRun) for path, text in run.recipe_texts.items()}
    texts = {str(table.get("title")): run.recipe_texts[path] for path, table in tables.items()}
    levels, names = {each.variant: each.level for each in run.measured}, names_of(contents)
    return [
        SettingRecipe(name, names.short(name), level, texts.get(name, "")) for name, level in levels.items()
    ]


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
        cells = [_value(contents, own.get(name)) for name in names]
        ability = words(None if kept is None else "yes" if kept else "no")
        lines.append([words(setting, first.code, setting), words(first.level), *cells, ability])
    columns = ("Setting", "Level", *names, "Ability kept")
    note = "Small print: the paper’s tuple (n11, c11, n12, c12, np)."
    return Table("settings", f"All {len(settings)} settings", columns, lines, note, folded=True)


def _value(contents: Contents, each: SettingMeasured | None) -> Cell:
    if each is None:
        return words(None)
    return number(each.measurement.value, contents.address(each), digits=4)


# ---- the paper's questions


def _levels_table(best: Sequence[Table5Line]) -> Table:
    """The paper's Table 5."""
    lines = [
        [
            words(each.level),
            replace(number(each.strength), small=each.strength_setting or ""),
            replace(number(each.distance), small=each.distance_setting or ""),
            replace(number(each.fairness), small=each.fairness_setting or ""),
            number(each.ability),
            words(each.viable),
        ]
        for each in best
    ]
    columns = ("Level", "Strength", "Distance", "Fairness", "Ability", "Viable")
    note = (
        "The lowest Strength, the lowest Distance and, of the viable settings, the highest fairness with its "
        "ability. Viable: an ability, as measured, at most 5 points below the unmodified model’s."
    )
    return Table("levels", "Best of each level (Table 5)", columns, lines, note)


def _fairest(lines: Sequence[Table7Line]) -> list[Cell]:
    """The fairest viable setting of the paper's, and of all."""
    groups = {"the paper’s 74": of_the_paper(lines), "all that was tried": lines}
    found = {name: fairest_viable(own) for name, own in groups.items()}
    said = {
        name: "none" if best is None else f"{best.setting} (fairness {shown(best.fairness or 0.0)})"
        for name, best in found.items()
    }
    return [words(f"Fairest viable of {name}: {best}") for name, best in said.items()]


def _correlation_table(rho: Measurement, at: str) -> Table:
    line = [
        words("Spearman’s rho"),
        number(rho.value, at),
        interval(rho, at),
        number(rho.n, at),
        probability(rho.details.get("p_value"), at),
    ]
    columns = ("Strength and fairness over all settings", "Value", "95 % interval", "Settings", "p")
    note = "Negative: settings with less intrinsic bias are fairer downstream."
    return Table("correlation", "Does intrinsic bias predict fairness?", columns, [line], note)


def _observations_table(contents: Contents, observations: Sequence[Observation]) -> Table:
    lines = [
        [
            words(each.observation),
            words("no case" if each.holds is None else "yes" if each.holds else "no"),
            _counted(each, contents.address(each)),
            words(each.paper),
        ]
        for each in observations
    ]
    columns = ("Observation of the paper", "Holds here", "Here", "Paper")
    return Table("observations", "The paper’s observations on these models", columns, lines)


def _counted(each: Observation, at: str) -> Cell:
    parts = (Part(shown(each.agree), at), Part(" of "), Part(shown(each.cases), at))
    return Cell(parts, f"{each.agree} of {each.cases}")
