"""Figures of a CounterActs run: log-odds, and for each k masses (Figures 2-4 of the paper) and margins."""

from __future__ import annotations

from pathlib import Path

from levelhead.errors import BadRun
from levelhead.inference.fill_in import corrected
from levelhead.pages.charts.base import figure
from levelhead.pages.charts.prompts import log_odds_panels, margin_panels, mass_panels
from levelhead.pages.figures.files import write_svgs
from levelhead.results.runs import open_prompts


def counteracts_figures(folder: str | Path) -> list[Path]:
    """Draw every figure of a run into RUN/figures; the paths of the SVG files."""
    run = open_prompts(folder)
    if not run.cells:
        raise BadRun(f"{folder} has no results yet. Run the same `levelhead prompts` command again.")
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
