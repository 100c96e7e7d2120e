"""Learning curves of GLUE: what every training scores on dev, and how its loss falls."""

from __future__ import annotations

from typing import Any

import altair as alt

from levelhead.pages.charts.base import Chart, Control, Point, chart_of, following, page_spec
from levelhead.results.runs import GlueRun

_HEIGHT = 260  # pixels


def curve_controls(run: GlueRun) -> list[Control]:
    """Which task the curves show."""
    tasks = [task.task for task in run.tasks]
    return [Control("task", "Task", [(task, task) for task in tasks], tasks[0])]


def learning_curves(run: GlueRun, controls: list[Control]) -> list[Chart]:
    """The score on dev at the end of each epoch, and the training loss; one line for each training."""
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
    return [
        _curves(run, [point for point in points if point[what] is not None], what, title, controls)
        for what, title in (("score", "Score on dev"), ("loss", "Training loss"))
    ]


def _curves(run: GlueRun, points: list[Point], what: str, title: str, controls: list[Control]) -> Chart:
    names = [recipe.name for recipe in run.recipes]
    alt_text = f"{title} over the epochs for {', '.join(names)}; one line for each seed."
    colors = alt.Scale(domain=names, range=[f"$level{i % 8}" for i in range(len(names))])
    marks: Any = (
        chart_of(points)
        .mark_line(point=True, opacity=0.8)
        .encode(
            x=alt.X("epoch:Q", title="epoch"),
            y=alt.Y(f"{what}:Q", title=title.lower(), scale=alt.Scale(zero=False)),
            color=alt.Color("recipe:N", sort=names, scale=colors, title=None),
            detail="seed:N",
            tooltip=["recipe:N", "seed:N", "epoch:Q", alt.Tooltip(f"{what}:Q", format=".4f")],
        )
    )
    spec = page_spec(following(marks, controls), alt_text, _HEIGHT)
    return Chart(f"curves-{what}", title, alt_text, spec, [control.signal for control in controls])
