"""The chapter of pronouns."""

from __future__ import annotations

from levelhead.inference.contents import Contents
from levelhead.pages.blocks import Section, Shown
from levelhead.pages.charts.base import Chart, Labeled, intervals
from levelhead.pages.lines import Line, line_of
from levelhead.pages.tables import Table, number, words
from pronouns import Pronouns


def chapters(contents: Contents) -> list[Section]:
    """One table: a line for each prompt."""
    run = contents.of(Pronouns)
    if run is None or run.share is None:
        return []
    rows = [
        [words(each.prompt), words(each.token), number(each.log_prob, contents.address(each))]
        for each in run.continued
    ]
    table = Table("pronouns", "What follows each prompt", ("Prompt", "Likeliest token", "log p"), rows)
    how = "The model continues each prompt by one token."
    return [Section(Pronouns.name, Pronouns.title, Pronouns.question, how, [Shown(table)])]


def found(contents: Contents) -> str:
    """The answer in one sentence."""
    run = contents.of(Pronouns)
    return "" if run is None or run.share is None else f"{run.share.value:.0%} of {run.share.n} prompts."


def lines(run: Pronouns) -> list[Line]:
    """A line for each prompt."""
    return [line_of(each) for each in run.continued]


def chart(run: Pronouns) -> Chart:
    """The share with its interval."""
    measured = [] if run.share is None else [Labeled("pronouns", run.share)]
    return intervals(measured, f"How often {run.model} goes on with a pronoun")
