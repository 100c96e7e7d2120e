"""The last chapters: what the numbers do not show, and how to get them again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from levelhead.inference.contents import Contents
from levelhead.pages.about import about_of, stated_fields
from levelhead.pages.blocks import Block, Code, Points, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.limits import limits
from levelhead.pages.reproduce import command
from levelhead.pages.tables import Table, words
from levelhead.results.layout import DOUBT_FACT, OPENING_FACT, SURVEY_DIFFERENCES, SURVEY_TABLE
from levelhead.results.stored import RESULTS

_FILL_IN = "`levelhead report RUN --about FILE.toml` fills in what is not stated."


def limits_section(contents: Contents) -> Section:
    """What the numbers of a run do not show."""
    return not_shown(limits(contents))


def about_section(contents: Contents) -> Section | None:
    """Who answers for the evaluation, what it is for, and who it is not about."""
    about = about_of(contents)
    if about is None:
        return None
    body = [[words(title), words(text)] for title, text in stated_fields(about)]
    table = Table("about", "Documentation", ("Field", "Stated"), body, _FILL_IN)
    return Section(
        Chapter.ABOUT, "Documentation", "What is it for, and who answers for it?", "", [Shown(table)]
    )


def not_shown(warnings: Sequence[str]) -> Section:
    """What numbers do not show."""
    question = "What may I not conclude from this page?"
    points = Points([words(warning) for warning in warnings])
    return Section(Chapter.LIMITS, "What these numbers do not show", question, "", [points])


def reproduce_section(contents: Contents) -> Section:
    """Command, seed, versions, hashes."""
    settings = json.dumps(contents.run.settings.to_json(), indent=1, ensure_ascii=False)
    blocks: list[Block] = [
        Code("Run it again", command(contents)),
        Code("Only rebuild this page", f"levelhead report {contents.folder}"),
        Shown(_versions_table(contents)),
        Code("All settings", settings, folded=True),
    ]
    question = "How do I get the same numbers?"
    how = (
        "The same command with the same versions on the same machine gives the same numbers, to the bit. All "
        f"numbers of this page, with all their digits, are in {_files(contents)} of the run folder."
    )
    return Section(Chapter.REPRODUCE, "How to get this again", question, how, blocks)


def _files(contents: Contents) -> str:
    if contents.survey is None:
        return RESULTS
    return f"{SURVEY_TABLE.name} and {SURVEY_DIFFERENCES.name}"


def _kind(name: str) -> str:
    """What a line of settings.json beside the settings is; most are hashes."""
    return "fact" if name.split(" of ")[0] in (OPENING_FACT, DOUBT_FACT) else "hash"


def _versions_table(contents: Contents) -> Table:
    lines = [("seed", str(contents.run.settings.seed), "setting")]
    lines += [(name, value, "version") for name, value in contents.run.data.versions.items()]
    lines += [(name, value, _kind(name)) for name, value in contents.run.data.hashes.items()]
    for part, run in contents.parts.items():
        lines += [(f"{part}: {name}", value, _kind(name)) for name, value in run.data.hashes.items()]
    caption = "Seed, versions, and hashes of weights and data"
    body = [[words(text) for text in line] for line in lines]
    return Table("versions", caption, ("What", "Value", "Kind"), body, folded=True)
