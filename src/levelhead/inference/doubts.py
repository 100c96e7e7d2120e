"""The line that stands wherever the numbers of a model stand that does not read plain English."""

from __future__ import annotations

from levelhead.results.runs import AnyRun


def doubt_text(run: AnyRun) -> str:
    """One line about the models of a run on which no verdict may rest; empty where there are none."""
    return " ".join(f"{model}: {doubt}." for model, doubt in run.doubts.items())


def openings_text(run: AnyRun) -> str:
    """What every text began with, model by model where they differ."""
    said = run.openings
    if len(set(said.values())) <= 1:
        return next(iter(said.values()), "")
    return "; ".join(f"{model}: {opening}" for model, opening in said.items())
