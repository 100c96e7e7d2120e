"""The chapter of GLUE: what the model, and what recipes make of it, can still learn."""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.inference.contents import Contents, measurements
from levelhead.pages.blocks import Block, Code, Drawn, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts.frontier import Axes, Cross, FrontierPoint, cross_of, frontier
from levelhead.pages.charts.glue import curve_controls, learning_curves
from levelhead.pages.tables import Cell, Part, Table, measured, number, shown, words
from levelhead.results.records.common import BASE
from levelhead.results.records.glue import GlueCell, GlueCost, GlueTaskUsed
from levelhead.results.runs import GlueRun

_BIAS = "seat"  # what learning is held against in an audit
_AXES = Axes(
    "frontier-glue",
    "Word association against GLUE",
    "|SEAT| (0 is best)",
    "mean score on GLUE",
    "Left and up is better.",
)


def glue_section(contents: Contents) -> Section | None:
    """Table 2's layout, every recipe against the unmodified model, bias against GLUE, and learning curves."""
    run = contents.glue
    if run is None or not run.cells:
        return None
    blocks: list[Block] = [Shown(_scores_table(contents, run))]
    if run.costs:
        blocks.append(Shown(_costs_table(contents, run)))
    if len(points := _points(contents, run)) > 1:
        blocks.append(Drawn([frontier(points, _AXES, _untouched(contents, points))]))
    controls = curve_controls(run)
    blocks.append(Drawn(learning_curves(run, controls), controls))
    if contents.audit is None:
        blocks += [
            Code(f"Recipe of “{each.name}”", each.recipe, folded=True) for each in run.recipes if each.recipe
        ]
    trained = "all" if run.settings.train_rows is None else f"{run.settings.train_rows:,}"
    how = (
        f"Classifiers that begin with the model’s weights are fine-tuned with the change on, in training and "
        f"in evaluation: {run.settings.seeds} trainings of each, on {trained} examples of a task at most. "
        "The unmodified model is trained on the same examples with the same seeds."
    )
    question = "Can the model still learn after the change as well as before?"
    return Section(Chapter.GLUE, "What it can still learn", question, how, blocks)


# ---- scores


def _scores_table(contents: Contents, run: GlueRun) -> Table:
    """A line for each metric, a column for each recipe, beside what needs no model at all."""
    names = [recipe.name for recipe in run.recipes]
    cells = {(cell.task, cell.metric, cell.recipe): cell for cell in run.cells}
    lines = []
    for task in run.tasks:
        for metric in task.metrics:
            own = [cells[task.task, metric, name] for name in names]
            lines.append(_score_line(contents, task, own))
    note = (
        "Mean over seeds, 95 % interval over items, below it the standard deviation over seeds. Majority: "
        "always the most frequent class. Random: answers drawn with the classes’ frequencies. Noise: not "
        "above both of them."
    )
    columns = ("Task", "Metric", *names, "Majority", "Random", "n")
    return Table("glue-scores", "Scores after fine-tuning", columns, lines, note)


def _score_line(contents: Contents, task: GlueTaskUsed, cells: Sequence[GlueCell]) -> list[Cell]:
    base, at = cells[0], contents.address(cells[0])
    return [
        words(task.task, f"{task.train:,} examples"),
        words(base.metric),
        *(_score(contents, cell) for cell in cells),
        number(base.majority, at),
        number(base.random, at),
        number(base.measurement.n, at),
    ]


def _score(contents: Contents, cell: GlueCell) -> Cell:
    """A score with its interval; below it the spread over seeds, and whether it is noise."""
    sd = cell.measurement.details["sd"]
    notes = ["one seed" if sd is None else f"± {shown(sd)}", *(() if cell.learned else ("noise",))]
    score = measured(cell.measurement, contents.address(cell))
    return Cell(score.parts, score.raw, score.numeric, small=", ".join(notes))


# ---- costs


def _costs_table(contents: Contents, run: GlueRun) -> Table:
    """Every recipe against the unmodified model."""
    lines = [
        [
            words(cost.recipe),
            words(cost.task),
            words(cost.metric),
            measured(cost.measurement, contents.address(cost)),
            words(cost.verdict if cost.learned else "noise"),
            _sentence(cost),
        ]
        for cost in run.costs
    ]
    note = (
        "Differences are paired by seed and by item. A point is 0.01 of the metric. “No cost that this much "
        f"data can show” is not “no cost”; “not worse” is so by the margin of {run.settings.margin:g} points."
    )
    columns = ("Change", "Task", "Metric", "Difference", "Verdict", "In words")
    return Table("glue-costs", "What each change costs", columns, lines, note)


def _sentence(cost: GlueCost) -> Cell:
    return Cell((Part(f"{cost.sentence}."),), cost.sentence)


# ---- bias against GLUE


def _untouched(contents: Contents, points: Sequence[FrontierPoint]) -> Cross | None:
    """The unmodified model with the interval of its bias."""
    bias = next((each.measurement for each in measurements(contents) if each.name == _BIAS), None)
    use = next((point.use for point in points if point.setting == BASE), None)
    return cross_of(bias, use, absolute=True)


def _points(contents: Contents, run: GlueRun) -> list[FrontierPoint]:
    """Every model of an audit by its bias and by the mean of its tasks' first metrics."""
    lost = {cost.recipe for cost in run.costs if cost.verdict == "costs" and cost.learned}
    points = []
    for recipe in run.recipes:
        bias = next((each for each in measurements(contents, recipe.name) if each.name == _BIAS), None)
        first = [cell for cell in run.cells if (cell.task, cell.metric) in run.first_metrics]
        own = [cell for cell in first if cell.recipe == recipe.name]
        if bias is None or bias.measurement.value is None or not own:
            continue
        use = sum(cell.measurement.value or 0.0 for cell in own) / len(own)
        level = BASE if recipe.name == BASE else "heads" if recipe.closed else "projection"
        points.append(
            FrontierPoint(recipe.name, level, abs(bias.measurement.value), use, kept=recipe.name not in lost)
        )
    return points
