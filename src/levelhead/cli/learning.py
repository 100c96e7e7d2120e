"""The options that also ask what a model can still learn: `--glue` and what goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import refuse_idle
from levelhead.cli.preflight import listed

if TYPE_CHECKING:
    from levelhead.studies.glue import GlueSettings

Glue = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Also fine-tune on GLUE, untouched and changed: what does it cost?"),
]
GlueTasks = Annotated[
    str | None, typer.Option(help="With --glue: rte,sst2 ... Default: those in the folder.")
]
GlueRows = Annotated[
    int | None,
    typer.Option(help="With --glue: examples of each task, evenly spread; 0: all. Default: 1000."),
]


def learning(
    glue: str | None, tasks: str | None, rows: int | None, seed: int, margin: float | None = None
) -> GlueSettings | None:
    """What --glue, --glue-tasks, --train-rows and --max-glue ask for; 0 rows are all of them."""
    from levelhead.results.presets import GLUE_ROWS
    from levelhead.studies.glue import GlueSettings

    only_with = {"--glue-tasks": tasks, "--train-rows": rows, "--max-glue": margin}
    refuse_idle(glue is not None, "--glue", only_with)
    if glue is None:
        return None
    return GlueSettings(
        glue,
        tuple(listed(tasks or "")),
        train_rows=GLUE_ROWS if rows is None else rows or None,
        margin=1.0 if margin is None else margin,
        seed=seed,
    )
