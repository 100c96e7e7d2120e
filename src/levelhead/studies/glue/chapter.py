"""The chapter of GLUE: what the model, and what recipes make of it, can still learn."""

from __future__ import annotations

from dataclasses import replace

import altair as alt

from levelhead.inference.contents import Contents, measurements
from levelhead.pages.blocks import Block, Code, Drawn, Section, Shown
from levelhead.pages.charts.base import Chart, Control, Point, chart_of, following, page_spec
from levelhead.pages.charts.frontier import Axes, FrontierPoint, cross_of, frontier
from levelhead.pages.tables import Cell, Part, Table, bounded, measured, numbers, shown, words
from levelhead.runs.common import BASE
from levelhead.studies.glue import Glue

_BIAS = "seat"  # what learning is held against in an audit
_AXES = Axes(
    "frontier-glue",
    "Word association against GLUE",
    "|SEAT| (0 is best)",
    "mean score on GLUE",
    "Left and up is better.",
)


def chapters(contents: Contents) -> list[Section]:
    """Table 2's layout, every recipe against the unmodified model, bias against GLUE, and learning curves."""
    run = contents.glue
    if run is None or not run.cells:
        return []
    # a line for each metric, a column for each recipe, beside what needs no model at all
    names = [recipe.name for recipe in run.recipes]
    scores = {(cell.task, cell.metric, cell.recipe): cell for cell in run.cells}
    lines = []
    for task in run.tasks:
        for metric in task.metrics:
            base = scores[task.task, metric, names[0]]
            line = [words(task.task, f"{task.train:,} examples"), words(base.metric)]
            for cell in (scores[task.task, metric, name] for name in names):
                # below the score its spread over seeds, and whether it is noise
                sd, noise = cell.measurement.details["sd"], "" if cell.learned else ", noise"
                small = f"{'one seed' if sd is None else f'± {shown(sd)}'}{noise}"
                line.append(replace(bounded(cell.measurement, contents.address(cell)), small=small))
            beside = (base.majority, base.random, base.measurement.n)
            lines.append([*line, *numbers(beside, contents.address(base))])
    heading = ("Task", "Metric", *names, "Majority", "Random", "n")
    note = (
        "Mean over seeds, 95 % interval over items, below it the standard deviation over seeds. Majority: "
        "always the most frequent class. Random: answers drawn with the classes’ frequencies. Noise: not "
        "above both of them."
    )
    blocks: list[Block] = [Shown(Table("glue-scores", "Scores after fine-tuning", heading, lines, note))]
    if run.costs:
        lines = []
        for cost in run.costs:
            difference = measured(cost.measurement, contents.address(cost))
            verdict = words(cost.verdict if cost.learned else "noise")
            said = Cell((Part(f"{cost.sentence}."),), cost.sentence)
            lines.append([*map(words, (cost.recipe, cost.task, cost.metric)), difference, verdict, said])
        margin = f"{run.settings.margin:g} points"
        note = (
            "Differences are paired by seed and by item. A point is 0.01 of the metric. “No cost that this "
            f"much data can show” is not “no cost”; “not worse” is so by the margin of {margin}."
        )
        columns = ("Change", "Task", "Metric", "Difference", "Verdict", "In words")
        blocks.append(Shown(Table("glue-costs", "What each change costs", columns, lines, note)))
    # every model of an audit by its bias and by the mean of its tasks' first metrics, beside the interval of
    # the unmodified model's bias
    lost = {cost.recipe for cost in run.costs if cost.verdict == "costs" and cost.learned}
    first = [cell for cell in run.cells if (cell.task, cell.metric) in run.first_metrics]
    points, cross = [], None
    for recipe in run.recipes:
        bias = next((each for each in measurements(contents, recipe.name) if each.name == _BIAS), None)
        own = [cell for cell in first if cell.recipe == recipe.name]
        if bias is None or bias.measurement.value is None or not own:
            continue
        use = sum(cell.measurement.value or 0.0 for cell in own) / len(own)
        level = BASE if recipe.name == BASE else "heads" if recipe.closed else "projection"
        size = abs(bias.measurement.value)
        points.append(FrontierPoint(recipe.name, level, size, use, kept=recipe.name not in lost))
        if recipe.name == BASE:
            cross = cross_of(bias.measurement, use, absolute=True)
    if len(points) > 1:
        blocks.append(Drawn([frontier(points, _AXES, cross)]))
    blocks.append(Drawn(*learning_curves(run)))
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
    return [Section(Glue.name, Glue.title, question, how, blocks)]


# ---- learning curves


def learning_curves(run: Glue) -> tuple[list[Chart], list[Control]]:
    """The score on dev at the end of each epoch, and the training loss; one line for each training. The
    controls choose the task."""
    tasks = [task.task for task in run.tasks]
    controls = [Control("task", "Task", [(task, task) for task in tasks], tasks[0])]
    points: list[Point] = [
        {
            "task": unit.task,
            "recipe": unit.recipe,
            "seed": unit.seed,
            "epoch": point.epoch,
            "score": point.score,
            "loss": point.loss,
        }
        for unit in run.units
        for point in unit.curve
    ]
    names, charts = [recipe.name for recipe in run.recipes], []
    colors = alt.Scale(domain=names, range=[f"$level{i % 8}" for i in range(len(names))])
    for what, title in (("score", "Score on dev"), ("loss", "Training loss")):
        alt_text = f"{title} over the epochs for {', '.join(names)}; one line for each seed."
        known = [point for point in points if point[what] is not None]
        exact = alt.Tooltip(f"{what}:Q", format=".4f")
        marks = chart_of(known).mark_line(point=True, opacity=0.8)
        marks = marks.encode(
            x=alt.X("epoch:Q", title="epoch"),
            y=alt.Y(f"{what}:Q", title=title.lower(), scale=alt.Scale(zero=False)),
            color=alt.Color("recipe:N", sort=names, scale=colors, title=None),
            detail="seed:N",
            tooltip=["recipe:N", "seed:N", "epoch:Q", exact],
        )
        spec = page_spec(following(marks, controls), alt_text, 260)
        signals = [control.signal for control in controls]
        charts.append(Chart(f"curves-{what}", title, alt_text, spec, signals))
    return charts, controls


# ---- its chart


def chart(run: Glue) -> Chart:
    """The score along the training."""
    return learning_curves(run)[0][0]


def headline(contents: Contents, findings: list[Cell]) -> tuple[str, list[Cell]] | None:
    """The verdict on every recipe and task, by the task's first metric."""
    run = contents.glue
    if run is None:
        return None
    first = [cost for cost in run.costs if (cost.task, cost.metric) in run.first_metrics]
    costs = [words(f"{cost.recipe}, {cost.task}, {cost.metric}: {cost.sentence}.") for cost in first]
    return f"What {run.model} can still learn", costs
